/** The store of files: time, offsets and changes of what it has stored. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { after } from "node:test";
import { pino } from "pino";
import { DirectoryStore } from "#objects/directory-store.ts";
import { fileSilenceMs, uploadMs } from "../../apps/control/bounds.ts";
import type { Database } from "../../apps/control/database/database.ts";
import type { FileRow } from "../../apps/control/database/tables.ts";
import { FileStore } from "../../apps/control/files/file-store.ts";
import { onBoth } from "./databases.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-store-"));
after(() => rm(root, { recursive: true, force: true }));

const details = { name: "x", purpose: "user_data", media_type: "text/plain", expires_at: null };
const owner = { account: "acct", key_id: "key_1" };

async function* chunksOf(...chunks: (string | Buffer)[]) {
  for (const chunk of chunks) yield Buffer.from(chunk);
}

async function setUp(database: Database) {
  const directory = await mkdtemp(join(root, "objects-"));
  let now = 1_800_000_000_000;
  const clock = { now: () => now, epoch: () => now };
  await database
    .insertInto("accounts")
    .values({ id: owner.account, name: "test", created_at: new Date(now), disabled_at: null })
    .onConflict((conflict) => conflict.doNothing())
    .execute();
  await database.deleteFrom("files").execute();
  const config = { fileBytesMax: 1 << 30, accountFileBytesMax: 1 << 30, accountFilesMax: 10 };
  const objects = new DirectoryStore(directory);
  const files = new FileStore({ database, objects, secret: "secret", config, clock, log: pino({ level: "silent" }) });
  return {
    ...{ files, objects },
    advance: (ms: number) => {
      now += ms;
    },
    now: () => now,
    paths: async () => {
      const entries = await readdir(directory, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name));
    },
  };
}

const done = <Value>(result: { value: Value } | { failure: unknown }): Value => {
  if ("failure" in result) assert.fail(JSON.stringify(result.failure));
  return result.value;
};

onBoth("a file is read from any byte on, whole and in parts", async (database) => {
  const { files } = await setUp(database);
  const bytes = randomBytes(200_000);
  const whole = done(await files.create(owner, details, chunksOf(bytes)));
  const upload = done(await files.beginUpload(owner, { ...details, bytes: BigInt(bytes.length), life_seconds: null }));
  const parts: string[] = [];
  for (const [start, end] of [
    [0, 70_000],
    [70_000, 70_001],
    [70_001, 200_000],
  ]) {
    const part = done(await files.begin(owner, { upload }));
    assert.equal(await part.write(chunksOf(bytes.subarray(start, end))), undefined);
    parts.push(done(await part.finish({ ...details, expires_at: upload.expires_at })).id);
  }
  const joined = await files.join(upload, (await files.partsOf(upload, parts)) ?? []);
  assert.ok(joined);
  for (const row of [whole, joined])
    for (const start of [0, 1, 65_535, 65_536, 65_537, 69_999, 70_000, 70_001, 150_000, 199_999]) {
      const stream = await files.open(row, start);
      assert.ok(stream && (await buffer(stream)).equals(bytes.subarray(start)), `from ${start}`);
    }
});

onBoth("a file ends with its time, and its bytes go with it", async (database) => {
  const { files, advance, now, paths } = await setUp(database);
  const kept = done(await files.create(owner, details, chunksOf("kept")));
  const expires_at = new Date(now() + 1_000);
  const { id } = done(await files.create(owner, { ...details, expires_at }, chunksOf("short")));
  await files.sweep();
  assert.ok(await files.find(owner.account, id));
  advance(1_000);
  assert.equal(await files.find(owner.account, id), undefined);
  assert.equal((await paths()).length, 2);
  await files.sweep();
  assert.equal((await paths()).length, 1);
  assert.deepEqual(
    (await files.list(owner.account, { limit: 10, order: "asc" })).map((row) => row.id),
    [kept.id],
  );
});

onBoth("a file whose process was lost while it arrived goes, and so do the parts of an upload", async (database) => {
  const { files, advance, paths } = await setUp(database);
  const lost = done(await files.begin(owner, {}));
  assert.equal(await lost.write(chunksOf("lost")), undefined);
  const upload = done(await files.beginUpload(owner, { ...details, bytes: 4n, life_seconds: null }));
  const part = done(await files.begin(owner, { upload }));
  assert.equal(await part.write(chunksOf("part")), undefined);
  await part.finish({ ...details, expires_at: upload.expires_at });
  assert.equal((await paths()).length, 2);
  advance(fileSilenceMs);
  await files.sweep();
  assert.equal((await paths()).length, 1);
  assert.ok("failure" in (await lost.finish(details)));
  advance(uploadMs);
  assert.equal(await files.findUpload(owner.account, upload.id), undefined);
  await files.sweep();
  assert.deepEqual(await paths(), []);
  assert.equal((await database.selectFrom("files").selectAll().execute()).length, 0);
});

onBoth("a file that is removed while it arrives is told so, and nothing is left of it", async (database) => {
  const { files, advance, paths } = await setUp(database);
  const failureOf = async (upload: FileRow | undefined, end: () => Promise<unknown>) => {
    const arriving = done(await files.begin(owner, upload && { upload }));
    async function* source() {
      yield Buffer.from("before");
      await end();
      yield Buffer.from("after");
    }
    return arriving.write(source());
  };
  const begin = async () => done(await files.beginUpload(owner, { ...details, bytes: 99n, life_seconds: null }));
  const sweep = (ms: number) => {
    advance(ms);
    return files.sweep();
  };
  const [cancelled, joined, slow] = [await begin(), await begin(), await begin()];
  const failures = [
    await failureOf(cancelled, () => files.cancelUpload(cancelled)),
    await failureOf(joined, () => files.join(joined, [])),
    await failureOf(slow, () => sweep(fileSilenceMs)),
    await failureOf(undefined, () => sweep(fileSilenceMs)),
    await failureOf(slow, () => sweep(uploadMs)),
  ];
  assert.deepEqual(
    failures.map((failure) => failure?.code),
    ["not_found", "not_found", "request_timeout", "request_timeout", "not_found"],
  );
  assert.deepEqual(await paths(), []);
});

onBoth("a file with a chosen id replaces the one with the same", async (database) => {
  const { files, paths } = await setUp(database);
  const id = "results";
  await files.create(owner, details, chunksOf("first"), { id });
  const row = done(await files.create(owner, details, chunksOf("second"), { id }));
  const stream = await files.open(row);
  assert.equal(stream && String(await buffer(stream)), "second");
  assert.equal((await paths()).length, 1);
});

onBoth("results are stored in an account without space, and count there", async (database) => {
  const { files } = await setUp(database);
  for (let count = 0; count < 10; count++) done(await files.create(owner, details, chunksOf("file")));
  assert.equal(await files.isFull(owner.account), true);
  assert.ok("failure" in (await files.create(owner, details, chunksOf("refused"))));
  done(await files.create(owner, details, chunksOf(randomBytes(3 << 20)), { id: "results", isUnbounded: true }));
  const { files: count, bytes } = await files.quotaOf(owner.account).read(database);
  assert.deepEqual([count, bytes], [11, 10 * "file".length + (3 << 20)]);
});

onBoth("changed, cut or exchanged bytes are not read", async (database) => {
  const { files, paths } = await setUp(database);
  const row = done(await files.create(owner, details, chunksOf(randomBytes(150_000))));
  const [path] = await paths();
  assert.ok(path);
  const sealed = await readFile(path);
  const chunk = (1 << 16) + 16;
  const changed = Buffer.from(sealed);
  changed[100] = (sealed[100] as number) ^ 1;
  const changes: Record<string, Buffer> = {
    "with another byte": changed,
    "cut in a chunk": sealed.subarray(0, 100_000),
    "cut after a chunk": sealed.subarray(0, chunk),
    longer: Buffer.concat([sealed, Buffer.alloc(1)]),
    exchanged: Buffer.concat([
      sealed.subarray(chunk, 2 * chunk),
      sealed.subarray(0, chunk),
      sealed.subarray(2 * chunk),
    ]),
    empty: Buffer.alloc(0),
  };
  for (const [name, bytes] of Object.entries(changes)) {
    await writeFile(path, bytes);
    const stream = await files.open(row);
    assert.ok(stream);
    await assert.rejects(buffer(stream), name);
  }
  await writeFile(path, sealed);
  const otherAccount = await files.open({ ...row, account: "other" }).catch((error: Error) => error);
  assert.ok(otherAccount instanceof Error);
  await rm(path);
  assert.equal(await files.open(row), undefined);
});

onBoth("nothing is left of a file whose row was swept while its bytes were stored", async (database) => {
  const { files, objects, advance, paths } = await setUp(database);
  const put = objects.put.bind(objects);
  objects.put = async (name, source) => {
    await put(name, source);
    advance(fileSilenceMs + 1);
    await files.sweep();
    await put(name, chunksOf("stored late"));
  };
  assert.ok("failure" in (await files.create(owner, details, chunksOf("a"))));
  assert.deepEqual(await paths(), []);
});
