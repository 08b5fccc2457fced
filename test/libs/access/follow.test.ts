import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { pino } from "pino";
import { authenticate } from "#access/authenticate.ts";
import { KeyFollower } from "#access/follow.ts";
import { createKey, hashOf } from "#access/key.ts";
import { addRecord, noticeOf, projectRecords, readRecords, restoreRecords, revokeRecord } from "#access/projection.ts";
import type { KeyRecord } from "#access/record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { connectRedis } from "#service/redis.ts";
import { startRedis, type TestRedis } from "../../support/redis.ts";
import { within } from "../../support/time.ts";

const keyspace = keyspaceOf("test");
const log = pino({ level: "silent" });

async function serverFor(t: TestContext): Promise<TestRedis> {
  const server = await startRedis();
  t.after(() => server[Symbol.asyncDispose]());
  return server;
}

async function connectionFor(
  t: TestContext,
  server: TestRedis,
  purpose: "request" | "patient" = "patient",
): Promise<Redis> {
  const redis = await connectRedis(server.url, purpose);
  redis.on("error", () => {});
  t.after(() => redis.disconnect());
  return redis;
}

async function followerFor(t: TestContext, server: TestRedis) {
  const [redis, subscriber] = [await connectionFor(t, server, "request"), await connectionFor(t, server)];
  const follower = await KeyFollower.open({ redis, subscriber, keyspace, log });
  t.after(() => follower.close());
  return Object.assign(follower, { redis, subscriber });
}

let made = 0;
function keyWith(fields: Partial<KeyRecord> = {}) {
  const { key, hash, hint } = createKey();
  const record: KeyRecord = {
    id: `key_${++made}`,
    name: "test",
    group: "default",
    hint,
    createdAt: Date.now(),
    ...fields,
  };
  return { key, hash, record };
}

/** The time within which a change arrives. */
const withinSecond = (redis: Redis, what: string, holds: () => boolean) =>
  within(1_000, what, holds, () => redis.ping());

test("every follower sees existing, new and revoked keys within a second", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [early, late] = [keyWith({ models: ["a"] }), keyWith()];
  await addRecord(writer, keyspace, early.hash, early.record);

  const followers = [await followerFor(t, server), await followerFor(t, server)];
  for (const follower of followers) assert.deepEqual(follower.find(early.hash), early.record);

  await addRecord(writer, keyspace, late.hash, late.record);
  await withinSecond(writer, "new key", () =>
    followers.every((keys) => authenticate([late.key], keys, Date.now()).kind === "admitted"),
  );

  const revoked = await revokeRecord(writer, keyspace, late.hash, 5);
  assert.equal(revoked?.revokedAt, 5);
  await withinSecond(writer, "revocation", () =>
    followers.every((keys) => authenticate([late.key], keys, Date.now()).kind === "refused"),
  );
  assert.equal((await revokeRecord(writer, keyspace, late.hash, 9))?.revokedAt, 5);
  assert.equal(await revokeRecord(writer, keyspace, hashOf("unknown"), 9), undefined);
});

test("while Redis' memory is full, revocations reach every follower within a second and lost keys are restored", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [abused, other] = [keyWith(), keyWith()];
  for (const { hash, record } of [abused, other]) await addRecord(writer, keyspace, hash, record);
  const followers = [await followerFor(t, server), await followerFor(t, server)];
  await writer.config("SET", "maxmemory", "1kb");
  await assert.rejects(writer.set("anything", "x"), /^ReplyError: OOM/);

  await revokeRecord(writer, keyspace, abused.hash, 5);
  await withinSecond(writer, "revocation", () => followers.every((keys) => keys.find(abused.hash)?.revokedAt === 5));
  await writer.del(keyspace.keys);
  for (const { redis } of followers) redis.disconnect(true);
  await within(
    5_000,
    "written back",
    async () => (await readRecords(writer, keyspace)).get(abused.hash)?.revokedAt === 5,
  );
});

test("a lost notice is noticed within a second", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [first, second] = [keyWith(), keyWith()];
  await addRecord(writer, keyspace, first.hash, first.record);
  const follower = await followerFor(t, server);
  await follower.subscriber.unsubscribe(keyspace.keysChanged);

  await revokeRecord(writer, keyspace, first.hash, 1);
  await addRecord(writer, keyspace, second.hash, second.record);
  await withinSecond(
    writer,
    "missed changes",
    () => follower.find(first.hash)?.revokedAt === 1 && follower.find(second.hash) !== undefined,
  );
});

test("a gap between two notices is noticed at once", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const follower = await followerFor(t, server);
  const [unannounced, announced] = [keyWith(), keyWith()];
  await writer.hset(keyspace.keys, unannounced.hash, JSON.stringify(unannounced.record));
  await writer.incr(keyspace.keysVersion);
  await addRecord(writer, keyspace, announced.hash, announced.record);
  await withinSecond(
    writer,
    "both keys",
    () => follower.find(unannounced.hash) !== undefined && follower.find(announced.hash) !== undefined,
  );
});

test("while Redis is dead or frozen the copy stays in use, and later changes arrive within a second of its return", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [first, second] = [keyWith(), keyWith()];
  await addRecord(writer, keyspace, first.hash, first.record);
  const follower = await followerFor(t, server);

  server.pause();
  await assert.rejects(follower.redis.get("anything"), /timed out/);
  assert.ok(follower.find(first.hash));
  server.resume();
  const fresh = await connectionFor(t, server);
  await addRecord(fresh, keyspace, second.hash, second.record);
  await withinSecond(fresh, "new key after the frost", () => follower.find(second.hash) !== undefined);

  await server.kill();
  await within(1_000, "connection lost", () => follower.redis.status !== "ready");
  assert.ok(follower.find(first.hash) && follower.find(second.hash));
});

test("an empty Redis gets every key back from the copies, and no caller is refused meanwhile", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const keys = Array.from({ length: 2_500 }, () => keyWith());
  await restoreRecords(
    writer,
    keyspace,
    keys.map(({ hash, record }) => [hash, record] as const),
    0,
  );
  await revokeRecord(writer, keyspace, keys[0]!.hash, 7);
  const followers = [await followerFor(t, server), await followerFor(t, server), await followerFor(t, server)];
  const lockedOut = () => followers.some((follower) => keys.some(({ hash }) => follower.find(hash) === undefined));
  assert.equal(lockedOut(), false);

  await server.restartEmpty();
  const early = keyWith();
  const fresh = await connectionFor(t, server);
  await addRecord(fresh, keyspace, early.hash, early.record);

  await within(
    5_000,
    "all keys at every follower",
    () => {
      assert.equal(lockedOut(), false);
      return followers.every((keys) => keys.find(early.hash) !== undefined);
    },
    () => fresh.ping(),
  );
  await within(5_000, "all keys in Redis", async () => (await readRecords(fresh, keyspace)).size === 2_501);
  assert.equal((await readRecords(fresh, keyspace)).get(keys[0]!.hash)?.revokedAt, 7);

  const later = keyWith();
  await addRecord(fresh, keyspace, later.hash, later.record);
  await withinSecond(fresh, "a key made afterwards", () =>
    followers.every((keys) => keys.find(later.hash) !== undefined),
  );
});

test("flushed or outdated data in Redis is restored from the copies without a lost connection", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [kept, revoked, late] = [keyWith(), keyWith(), keyWith()];
  await addRecord(writer, keyspace, kept.hash, kept.record);
  await addRecord(writer, keyspace, revoked.hash, revoked.record);
  const past = await writer.hgetall(keyspace.keys);
  await revokeRecord(writer, keyspace, revoked.hash, 3);
  await addRecord(writer, keyspace, late.hash, late.record);
  const followers = [await followerFor(t, server), await followerFor(t, server)];

  await writer.multi().flushall().hset(keyspace.keys, past).set(keyspace.keysVersion, 2).exec();
  const isWhole = async () => {
    const records = await readRecords(writer, keyspace);
    return records.size === 3 && records.get(revoked.hash)?.revokedAt === 3;
  };
  await within(2_000, "healed", isWhole);
  for (const follower of followers) {
    assert.equal(follower.find(revoked.hash)?.revokedAt, 3);
    assert.ok(follower.find(late.hash));
  }

  await writer.flushall();
  await within(2_000, "healed again", isWhole);
});

test("an invalid record is skipped and does not cause endless reads", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [good, spoilt] = [keyWith(), keyWith()];
  await addRecord(writer, keyspace, good.hash, good.record);
  await addRecord(writer, keyspace, spoilt.hash, spoilt.record);
  const follower = await followerFor(t, server);
  await writer.hset(keyspace.keys, spoilt.hash, '{"id":1}');
  await writer.hset(keyspace.keys, hashOf("other"), "{");
  const version = await writer.incr(keyspace.keysVersion);
  await writer.publish(keyspace.keysChanged, `${version} ${spoilt.hash}`);
  await writer.publish(keyspace.keysChanged, "nonsense");

  const late = keyWith();
  await addRecord(writer, keyspace, late.hash, late.record);
  await withinSecond(writer, "the next key", () => follower.find(late.hash) !== undefined);
  assert.ok(follower.find(good.hash) && follower.find(spoilt.hash));
  assert.equal(Number(await writer.get(keyspace.keysVersion)), version + 1);
});

test("a follower handles 20,000 keys: at the start, when added, and when revoked", {
  timeout: 60_000,
}, async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [before, during] = [
    Array.from({ length: 10_000 }, () => keyWith()),
    Array.from({ length: 10_000 }, () => keyWith()),
  ];
  await restoreRecords(
    writer,
    keyspace,
    before.map(({ hash, record }) => [hash, record] as const),
    0,
  );
  const follower = await followerFor(t, server);
  assert.equal(follower.count(), 10_000);
  for (let start = 0; start < during.length; start += 500) {
    await Promise.all(
      during.slice(start, start + 500).map(({ hash, record }) => addRecord(writer, keyspace, hash, record)),
    );
  }
  await withinSecond(writer, "all keys", () => follower.count() === 20_000);
  assert.ok(during.every(({ hash, record }) => follower.find(hash)?.id === record.id));
  await revokeRecord(writer, keyspace, before[9_999]!.hash, 1);
  await withinSecond(writer, "revocation", () => follower.find(before[9_999]!.hash)?.revokedAt === 1);
});

test("repeated writes are harmless, and one key's record never replaces another's", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const key = keyWith();
  await addRecord(writer, keyspace, key.hash, key.record);
  await addRecord(writer, keyspace, key.hash, key.record);
  assert.equal(await writer.get(keyspace.keysVersion), "1");
  await assert.rejects(addRecord(writer, keyspace, key.hash, { ...key.record, id: "key_other" }), /another record/);
});

test("a follower opens only if Redis answers, and close leaves the shared subscriber usable", async (t) => {
  const server = await serverFor(t);
  const follower = await followerFor(t, server);
  const heard: string[] = [];
  await follower.subscriber.subscribe("other");
  follower.subscriber.on("messageBuffer", (_channel: Buffer, message: Buffer) => heard.push(message.toString()));
  follower.close();
  const writer = await connectionFor(t, server);
  await writer.publish("other", "still here");
  await withinSecond(writer, "another's message", () => heard.includes("still here"));
  assert.equal(follower.subscriber.listenerCount("messageBuffer"), 1);

  const [redis, subscriber] = [await connectionFor(t, server, "request"), await connectionFor(t, server)];
  redis.disconnect();
  await assert.rejects(KeyFollower.open({ redis, subscriber, keyspace, log }));
  assert.equal(subscriber.listenerCount("messageBuffer"), 0);
});

test("a notice is parsed, and any other message is refused", () => {
  const hash = hashOf("x");
  assert.deepEqual(noticeOf(`12 ${hash}`), { version: 12, hash });
  assert.deepEqual(noticeOf("12 *"), { version: 12 });
  for (const text of ["", "12", "x *", `-1 ${hash}`, `12 ${hash}0`, "12 abc"])
    assert.equal(noticeOf(text), undefined, text);
});

test("a follower closed during a comparison starts no further comparison", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const [redis, subscriber] = [await connectionFor(t, server, "request"), await connectionFor(t, server)];
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const follower = await KeyFollower.open({ redis, subscriber, keyspace, log });
  const comparesIn = async (ms: number) => {
    await writer.config("RESETSTAT");
    t.mock.timers.tick(ms);
    await redis.ping();
    return /cmdstat_get:/.test(await writer.info("commandstats"));
  };
  assert.deepEqual([await comparesIn(699), await comparesIn(1)], [false, true]);
  await new Promise((resolve) => setImmediate(resolve));
  t.mock.timers.tick(700);
  follower.close();
  await redis.ping();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(await comparesIn(3_000), false);
});

test("an edit wins over older copies: after Redis loses it, when it comes back outdated, and when it arrives late", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const { hash, record } = keyWith({ version: 1 });
  await projectRecords(writer, keyspace, [[hash, record]]);
  const [edited, revoked] = [
    { ...record, version: 2, group: "narrow" },
    { ...record, version: 3, revokedAt: 7 },
  ];
  const outdated = await followerFor(t, server);
  outdated.subscriber.disconnect();
  assert.equal(await projectRecords(writer, keyspace, [[hash, edited]]), 1);
  const followers = [await followerFor(t, server), await followerFor(t, server)];
  assert.equal(await projectRecords(writer, keyspace, [[hash, record]]), 0);
  await restoreRecords(writer, keyspace, [[hash, record]], 1);
  await writer.hset(keyspace.keys, hash, JSON.stringify(record));
  await writer.incr(keyspace.keysVersion);
  await within(5_000, "the edit is written back", async () =>
    [...(await readRecords(writer, keyspace)).values()].every(({ group }) => group === "narrow"),
  );
  for (const follower of followers) assert.equal(follower.find(hash)?.group, "narrow");

  await projectRecords(writer, keyspace, [[hash, revoked]]);
  assert.equal(await projectRecords(writer, keyspace, [[hash, { ...edited, version: 9 }]]), 0);
  await withinSecond(writer, "revocation", () => followers.every((keys) => keys.find(hash)?.revokedAt === 7));
});

test("keys of a disabled account are refused until it is enabled", async (t) => {
  const server = await serverFor(t);
  const writer = await connectionFor(t, server);
  const { key, hash, record } = keyWith({ version: 1 });
  await projectRecords(writer, keyspace, [[hash, record]]);
  const keys = await followerFor(t, server);
  const kind = () => authenticate([key], keys, Date.now()).kind;
  await projectRecords(writer, keyspace, [[hash, { ...record, version: 2, disabledAt: 5 }]]);
  await withinSecond(writer, "disabled", () => kind() === "refused" && keys.isRevoked(record.id));
  await projectRecords(writer, keyspace, [[hash, { ...record, version: 3 }]]);
  await withinSecond(writer, "enabled", () => kind() === "admitted" && !keys.isRevoked(record.id));
});
