import assert from "node:assert/strict";
import { after, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { bodiesReadAtOnceMax, bodyPartBytes, bodySilenceMsMax } from "../../../apps/worker/bounds.ts";
import { RequestBodies } from "../../../apps/worker/preparation/request-bodies.ts";
import { startRedis } from "../../support/redis.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
const keyspace = keyspaceOf("sluice");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

const { signal } = new AbortController();
const time = { now: 0 };
const clock = { now: () => time.now, epoch: () => time.now };
const timedOut = new Error("Command timed out");

/** Bodies whose reads call `before` first. */
const bodiesWith = (before: (at: number) => Promise<void> | void) =>
  new RequestBodies({
    redis: {
      strlen: redis.strlen.bind(redis),
      getrangeBuffer: (async (key: string, start: number, end: number) => {
        await before(start);
        return redis.getrangeBuffer(key, start, end);
      }) as typeof redis.getrangeBuffer,
    },
    keyspace,
    clock,
  });

/** Stores a body of so many different bytes under this id. */
async function stored(id: string, bytes: number): Promise<Buffer> {
  const body = Buffer.alloc(bytes, `${id} 0123456789 abcdefghijklmnopqrstuvwxyz `);
  await redis.set(keyspace.body(id), body);
  return body;
}

for (const bytes of [1, bodyPartBytes - 1, bodyPartBytes, bodyPartBytes + 1, 3 * bodyPartBytes, 7_654_321])
  test(`a body of ${bytes} bytes is read in parts, byte for byte`, async () => {
    const body = await stored("whole", bytes);
    let parts = 0;
    const read = await bodiesWith(() => void parts++).read("whole", signal);
    assert.ok(read?.equals(body));
    // The first part of a large body is read twice.
    assert.equal(parts, bytes < bodyPartBytes ? 1 : 1 + Math.ceil(bytes / bodyPartBytes));
  });

for (const when of [0, bodyPartBytes, 2 * bodyPartBytes])
  test(`a body that Redis loses before its byte ${when} is read is gone`, async () => {
    await stored("lost", 3 * bodyPartBytes);
    const bodies = bodiesWith(async (at) => {
      if (at === when) await redis.del(keyspace.body("lost"));
    });
    assert.equal(await bodies.read("lost", signal), null);
  });

test("a command that fails is repeated, and the body is whole", async () => {
  const body = await stored("late", 3 * bodyPartBytes);
  let failures = 0;
  const bodies = bodiesWith(() => {
    if (failures++ % 2 === 0) throw timedOut;
  });
  assert.ok((await bodies.read("late", signal))?.equals(body));
});

test("a body that can't be read in time is no lost one: the read fails with the error of Redis", async () => {
  await stored("unread", 10);
  let calls = 0;
  const bodies = bodiesWith(() => {
    calls++;
    time.now += bodySilenceMsMax / 2;
    throw timedOut;
  });
  await assert.rejects(bodies.read("unread", signal), timedOut);
  assert.equal(calls, 2);
});

test("few large bodies are read at once, the others in turn; smaller ones do not wait for them", async () => {
  const ids = ["a", "b", "c", "d", "e"];
  await Promise.all(ids.map((id) => stored(id, 2 * bodyPartBytes)));
  const small = await stored("small", 10);
  const goOn = Promise.withResolvers<void>();
  const second: Promise<void>[] = [];
  const reached = Promise.withResolvers<void>();
  const bodies = bodiesWith((at) => {
    if (at === 0) return undefined;
    if (second.push(goOn.promise) === bodiesReadAtOnceMax) reached.resolve();
    return goOn.promise;
  });
  const left = new AbortController();
  const reads = ids.map((id) => bodies.read(id, id === "e" ? left.signal : signal));
  await reached.promise;
  assert.ok((await bodies.read("small", signal))?.equals(small));
  assert.equal(second.length, bodiesReadAtOnceMax);
  left.abort();
  goOn.resolve();
  const settled = await Promise.allSettled(reads);
  assert.deepEqual(
    settled.map(({ status }) => status),
    ["fulfilled", "fulfilled", "fulfilled", "fulfilled", "rejected"],
  );
  assert.equal(second.length, ids.length - 1);
});
