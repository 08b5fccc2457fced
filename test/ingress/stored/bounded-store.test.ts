import assert from "node:assert/strict";
import { after, beforeEach, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { BoundedStore, type BoundedStoreOptions } from "../../../apps/ingress/stored/bounded-store.ts";
import { startRedis } from "../../support/redis.ts";
import { until } from "../../support/time.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
const keyspace = keyspaceOf("test");
let hasSpace = true;
const storeWith = (more: Partial<BoundedStoreOptions> = {}) =>
  new BoundedStore({
    redis,
    keyspace,
    space: { hasSpace: async () => hasSpace },
    lifeMs: 60_000,
    keyBytesMax: 100,
    bytesMax: 200,
    ...more,
  });
const store = storeWith();
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});
beforeEach(async () => {
  hasSpace = true;
  await redis.flushall();
});

const value = (bytes: number) => Buffer.alloc(bytes, "x");
const put = (keyId: string, id: string, bytes: number) => store.put(keyId, { id, value: value(bytes) });
const stored = async (keyId: string, ...ids: string[]) =>
  (await store.read(keyId, ids)).map((entry) => entry !== undefined);
const total = async () => Number((await redis.get(`${keyspace.stored}:total`)) ?? 0);

test("a value is read with its version, by its id and its aliases", async () => {
  assert.equal(await store.put("key", { id: "one", value: value(10), aliases: ["a", "b"] }), 1);
  assert.deepEqual(await store.read("key", ["one", "two"]), [{ value: value(10), version: 1 }, undefined]);
  assert.deepEqual(await store.idsOf("key", ["b", "c", "a"]), ["one", undefined, "one"]);
  assert.deepEqual(await store.idsOf("other", ["a"]), [undefined]);
  assert.deepEqual(await store.read("other", ["one"]), [undefined]);
});

test("a detail is read by itself, and stays when its value changes", async () => {
  await store.put("key", { id: "one", value: value(10), detail: value(20) });
  assert.equal(await store.bytesOf("key", ["one", "two"], { hasDetails: true }), 30);
  assert.equal(await store.bytesOf("key", ["one"], { hasDetails: false }), 10);
  await store.put("key", { id: "one", value: value(15), replaces: 1 });
  assert.deepEqual(await store.details("key", ["two", "one"]), [undefined, value(20)]);
  assert.equal(await total(), 35);
});

test("a change replaces only the version that it was made from", async () => {
  await put("key", "one", 10);
  assert.equal(await store.put("key", { id: "one", value: value(20), replaces: 0 }), "conflict");
  assert.equal(await store.put("key", { id: "one", value: value(20), replaces: 1 }), 2);
  assert.equal(await total(), 20);
});

test("a claimed alias has one value, and another takes it only from the value that it names", async () => {
  const claim = (id: string, from?: string) =>
    store.put("key", { id, value: value(10), replaces: 0, claim: { alias: "name", from } });
  const holder = async () => (await store.idsOf("key", ["name"]))[0];
  assert.equal(await claim("one"), 1);
  for (const from of [undefined, "none"]) assert.equal(await claim("two", from), "conflict");
  assert.deepEqual([await holder(), await stored("key", "two")], ["one", [false]]);
  assert.equal(await claim("two", "one"), 1);
  assert.equal(await claim("three", "one"), "conflict");
  await store.remove("key", "one");
  assert.equal(await holder(), "two");
  await redis.del(keyspace.storedEntry("key", "two"));
  assert.equal(await claim("three"), 1);
  await store.remove("key", "three");
  assert.equal(await holder(), undefined);
});

test("a key loses the values that it has used least recently", async () => {
  for (const [place, id] of ["one", "two", "three"].entries())
    await storeWith({ lifeMs: 10_000 * (place + 1) }).put("key", { id, value: value(30) });
  await store.read("key", ["one"]);
  await until("its use is noted", async () => {
    const [first] = await redis.zrange(`${keyspace.stored}:order:key`, "0", "0");
    return first === "two 30";
  });
  assert.equal(await put("key", "four", 30), 1);
  assert.deepEqual(await stored("key", "one", "two", "three", "four"), [true, false, true, true]);
  assert.equal(await total(), 90);
});

test("where all keys together store too much, the largest one loses values", async () => {
  await put("small", "one", 20);
  await put("large", "one", 50);
  await put("large", "two", 50);
  await put("next", "one", 60);
  assert.equal(await put("small", "two", 30), 1);
  assert.deepEqual(await stored("small", "one", "two"), [true, true]);
  assert.deepEqual(await stored("next", "one"), [true]);
  assert.deepEqual(await stored("large", "one", "two"), [false, true]);
  assert.equal(await total(), 160);
});

test("what can't fit is not stored, and takes nothing from others", async () => {
  await put("key", "one", 90);
  assert.equal(await put("key", "two", 101), "full");
  hasSpace = false;
  assert.equal(await put("key", "three", 1), "full");
  assert.deepEqual(await stored("key", "one", "two", "three"), [true, false, false]);
});

test("removed and expired values leave no space taken", async () => {
  await store.put("key", { id: "one", value: value(10), aliases: ["a"] });
  assert.equal(await store.remove("key", "one"), true);
  assert.equal(await store.remove("key", "one"), false);
  assert.deepEqual(await store.idsOf("key", ["a"]), [undefined]);
  assert.equal(await total(), 0);
  await storeWith({ lifeMs: 5 }).put("key", { id: "brief", value: value(10) });
  await until("it expires", async () => (await redis.exists(keyspace.storedEntry("key", "brief"))) === 0);
  await until("its space is released", async () => {
    await store.sweep();
    return (await total()) === 0;
  });
});

test("ids that could be mistaken for others' are neither stored nor found", async () => {
  assert.deepEqual(await store.read("key", ["a b", "", "x".repeat(300), "*"]), [
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  assert.equal(await store.remove("key", "a b"), false);
});

/** The commands that Redis runs for this work, those of scripts included. */
async function commandsOf(work: () => Promise<unknown>): Promise<number> {
  await redis.config("RESETSTAT");
  await work();
  const calls = [...(await redis.info("commandstats")).matchAll(/cmdstat_(\S+?):calls=(\d+)/g)];
  return calls.reduce((sum, [, name = "", count]) => sum + (/^(config|info)/.test(name) ? 0 : Number(count)), 0);
}

test("most parts of a value cost four commands, and the last one leaves the exact count", async () => {
  const store = storeWith({ keyBytesMax: 10_000_000, bytesMax: 20_000_000 });
  await put("key", "log", 10);
  const part = value(300);
  await store.append("key", "log", part, { before: 0 });
  const commands = await commandsOf(async () => {
    for (let parts = 1; parts < 100; parts++)
      assert.equal(await store.append("key", "log", part, { before: parts }), parts + 1);
  });
  assert.ok(commands <= 4 * 99, `${commands} commands`);
  const counted = await total();
  assert.ok(counted >= 10 + 100 * 300 && counted <= 10 + 100 * 300 + 33_000, String(counted));
  assert.equal(await store.append("key", "log", value(5), { before: 100, isLast: true }), 101);
  assert.equal(await total(), 10 + 100 * 300 + 5);
  assert.equal(await store.bytesOf("key", ["log"], { hasDetails: true }), 10 + 100 * 300 + 5);
  assert.equal(await store.remove("key", "log"), true);
  assert.equal(await total(), 0);
});

test("bytes that are counted ahead displace no value, and are there for the next parts", async () => {
  const store = storeWith({ keyBytesMax: 40_000, bytesMax: 80_000 });
  for (const id of ["log", "other"]) await store.put("key", { id, value: value(100) });
  for (let parts = 0; parts < 20; parts++)
    assert.equal(await store.append("key", "log", value(1_000), { before: parts }), parts + 1);
  assert.deepEqual(await stored("key", "other", "log"), [true, true]);
  assert.ok((await total()) <= 40_000);
  for (let parts = 20; parts < 39; parts++)
    assert.equal(await store.append("key", "log", value(1_000), { before: parts }), parts + 1);
  assert.equal(await store.append("key", "log", value(1), { before: 39, isLast: true }), 40);
  assert.ok((await total()) <= 40_000);
});

test("a value grows by parts, in order and within its key's space", async () => {
  await storeWith({ lifeMs: 10_000 }).put("key", { id: "other", value: value(30) });
  await put("key", "log", 10);
  assert.equal(await store.append("key", "log", value(20), { before: 0 }), 1);
  assert.equal(await store.append("key", "log", value(30), { before: 0 }), 1);
  assert.equal(await store.append("key", "log", value(30), { before: 1 }), 2);
  assert.deepEqual(await store.parts("key", "log", 1, 10), [value(30)]);
  assert.equal(await total(), 90);
  // The oldest value gives way first, and in the end the log itself.
  assert.equal(await store.append("key", "log", value(20), { before: 2 }), 3);
  assert.deepEqual(await stored("key", "other", "log"), [false, true]);
  assert.equal(await store.append("key", "log", value(90), { before: 3 }), -1);
  assert.equal(await store.parts("key", "log", 0, 10), undefined);
  assert.equal(await total(), 0);
});
