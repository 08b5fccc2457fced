/** Sealed content, and its stream on a real Redis. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { pino } from "pino";
import { type Content, openContent } from "#content/content.ts";
import { ContentStream, readContent, removeContent } from "#content/content-stream.ts";
import { createKeyPair, open, seal } from "#content/sealing.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startRedis } from "../../support/redis.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
redis.on("error", () => {});
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});
const log = pino({ level: "silent" });
const pair = createKeyPair();
const labelOf = (generationId: string, key = pair.publicKey) => ({ generationId, account: "a", key, receivedAt: 5 });
const contentOf = (text: string): Content => {
  const body = { type: "application/json", text, bytes: text.length, isCut: false };
  return { dialect: "openai-chat", operation: "answer", request: body, status: 200, answer: body };
};

test("only the private key opens a sealed value, under its own name", () => {
  const value = Buffer.from("a secret of the account");
  const sealed = seal(pair.publicKey, "one", value);
  assert.deepEqual(open(pair, "one", sealed), value);
  assert.equal(sealed.length, value.length + 60);
  assert.equal(open(pair, "two", sealed), undefined);
  assert.equal(open(createKeyPair(), "one", sealed), undefined);
  assert.equal(open(pair, "one", sealed.subarray(0, 20)), undefined);
  for (const at of [0, 32, 44, sealed.length - 1]) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] as number) ^ 1;
    assert.equal(open(pair, "one", changed), undefined, `byte ${at}`);
  }
  assert.throws(() => seal("no key", "one", value));
});

test("content goes through the stream sealed, and is opened with its label alone", async () => {
  const keyspace = keyspaceOf("through");
  const stream = new ContentStream({ redis, keyspace, hasSpace: async () => true, log });
  await stream.write(labelOf("gen_1"), contentOf("Zebra crossing"));
  const raw = Buffer.concat((await redis.xrangeBuffer(keyspace.content, "-", "+")).flatMap(([, fields]) => fields));
  assert.ok(raw.includes("gen_1") && !raw.includes("Zebra"));
  const { entries } = await readContent(redis, keyspace, 10);
  const [entry] = entries;
  assert.ok(entry);
  assert.deepEqual(entry.label, labelOf("gen_1"));
  assert.deepEqual(await openContent(pair, entry.label, entry.sealed), contentOf("Zebra crossing"));
  assert.equal(await openContent(pair, { generationId: "gen_2", account: "a" }, entry.sealed), undefined);
  await removeContent(redis, keyspace, [entry.id]);
  assert.deepEqual(await readContent(redis, keyspace, 10), { entries: [], invalid: [] });
});

test("the stream never has more bytes than its bound: the oldest entries go, and are counted as lost", async () => {
  const keyspace = keyspaceOf("bounded");
  const stream = new ContentStream({ redis, keyspace, hasSpace: async () => true, log, bytesMax: 2_000 });
  const sizeOf = async () =>
    (await redis.xrangeBuffer(keyspace.content, "-", "+")).reduce(
      (sum, [, fields]) => sum + (fields[1]?.length ?? 0) + (fields[3]?.length ?? 0),
      0,
    );
  for (let count = 1; count <= 30; count++) {
    await stream.write(labelOf(`gen_${count}`), contentOf(`${count} ${"x".repeat(count)}`));
    assert.ok((await sizeOf()) <= 2_000);
  }
  const { entries } = await readContent(redis, keyspace, 100);
  assert.ok(entries.length > 2);
  assert.equal(entries.at(-1)?.label.generationId, "gen_30");
  assert.deepEqual(stream.counts, { written: 30, lost: 30 - entries.length });
  // An entry that was removed after it was stored does not count as lost.
  await removeContent(
    redis,
    keyspace,
    entries.map(({ id }) => id),
  );
  await stream.write(labelOf("gen_31"), contentOf("more"));
  assert.equal(stream.counts.lost, 30 - entries.length);
});

test("content that Redis does not take is counted as lost, and delays nobody", async () => {
  const keyspace = keyspaceOf("lost");
  const full = new ContentStream({ redis, keyspace, hasSpace: async () => false, log });
  await full.write(labelOf("gen_1"), contentOf("x"));
  assert.deepEqual(full.counts, { written: 0, lost: 1 });
  const broken = new ContentStream({ redis, keyspace, hasSpace: async () => true, log });
  await broken.write(labelOf("gen_1", "not a key"), contentOf("x"));
  assert.deepEqual(broken.counts, { written: 0, lost: 1 });
});

test("entries that cannot be read are named, and do not hide the others", async () => {
  const keyspace = keyspaceOf("invalid");
  await redis.xadd(keyspace.content, "1-0", "l", "no label", "c", "x");
  await redis.xadd(keyspace.content, "2-0", "l", JSON.stringify({ ...labelOf("gen\u0000") }), "c", "x");
  await redis.xadd(keyspace.content, "3-0", "l", JSON.stringify(labelOf("gen_1")), "c", "x");
  const { entries, invalid } = await readContent(redis, keyspace, 10);
  assert.deepEqual(invalid, ["1-0", "2-0"]);
  assert.deepEqual(
    entries.map(({ id }) => id),
    ["3-0"],
  );
});
