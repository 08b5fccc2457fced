import assert from "node:assert/strict";
import { after, test } from "node:test";
import { announce, withdraw } from "#relay/redis/queue-slots.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startRedis } from "../../../support/redis.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "patient");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

const keyOf = (queue: string) => keyspaceOf("test").queueSlots(queue);
const worker = (slots: number, held = 0) => ({ slots, held, running: 0 });
const ingress = (running: number) => ({ slots: 0, held: 0, running });
/** What an ingress learns. */
const ofIngress = async (key: string, name: string, running: number) => {
  const load = await announce(redis, key, name, ingress(running));
  return { slots: load.slots, running: load.running };
};

test("an ingress learns the slots of all workers and the running generations of the other ingresses", async () => {
  const key = keyOf("chat");
  await announce(redis, key, "worker-1", worker(512));
  await announce(redis, key, "worker-2", worker(8));
  assert.deepEqual(await ofIngress(key, "ingress-1", 5), { slots: 520, running: 0 });
  assert.deepEqual(await ofIngress(key, "ingress-2", 7), { slots: 520, running: 5 });
  await withdraw(redis, key, "worker-2");
  assert.deepEqual(await ofIngress(key, "ingress-1", 6), { slots: 512, running: 7 });
  assert.deepEqual(await ofIngress(keyOf("image"), "ingress-1", 1), { slots: 0, running: 0 });
});

test("announcements expire, and so does a queue's hash without processes", async () => {
  const key = keyOf("brief");
  await announce(redis, key, "worker-1", worker(4));
  const [slots, running, lapses] = String(await redis.hget(key, "worker-1")).split(" ");
  await redis.hset(key, "worker-1", `${slots} ${running} ${Number(lapses) - 5_001}`);
  assert.deepEqual(await ofIngress(key, "ingress-1", 0), { slots: 0, running: 0 });
  assert.deepEqual(Object.keys(await redis.hgetall(key)), ["ingress-1"]);
  const life = await redis.pttl(key);
  assert.ok(life > 0 && life <= 10_000, String(life));
});

test("an invalid announcement is removed", async () => {
  const key = keyOf("odd");
  await redis.hset(key, "worker-1", "many", "worker-2", "");
  assert.deepEqual(await ofIngress(key, "ingress-1", 0), { slots: 0, running: 0 });
});

test("a worker learns how much runs, and the slots of the workers before it", async () => {
  const key = keyOf("audio");
  await announce(redis, key, "worker-b", worker(100, 40));
  await announce(redis, key, "worker-a", worker(50, 5));
  assert.deepEqual(await announce(redis, key, "worker-c", worker(10, 1)), {
    slots: 160,
    held: 46,
    slotsBefore: 150,
    running: 0,
  });
  assert.equal((await announce(redis, key, "worker-a", worker(50, 5))).slotsBefore, 0);
});
