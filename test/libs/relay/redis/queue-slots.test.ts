import assert from "node:assert/strict";
import { test } from "node:test";
import type { SlotAnnouncement } from "#relay/ports.ts";
import { RedisSlotBoard } from "#relay/redis/queue-slots.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectTestRedis } from "../../../support/redis.ts";

const redis = await connectTestRedis("patient");

const keyspace = keyspaceOf("test");
const keyOf = (queue: string) => keyspace.queueSlots(queue, 1);
const boardOf = (name: string) => new RedisSlotBoard(redis, keyspace, { self: name, role: "worker" });
const announce = (queue: string, name: string, announcement: SlotAnnouncement) =>
  boardOf(name).announce(queue, announcement);
const worker = (slots: number, usedSlots = 0, lastingSlots = usedSlots) => ({
  ...{ slots, usedSlots, lastingSlots },
  running: 0,
});
const ingress = (running: number) => ({ slots: 0, usedSlots: 0, lastingSlots: 0, running });
/** The load that an ingress learns. */
const ofIngress = async (queue: string, name: string, running: number) => {
  const load = await announce(queue, name, ingress(running));
  return { slots: load.slots, running: load.running };
};

test("an ingress learns the slots of all workers and the running generations of the other ingresses", async () => {
  const queue = "chat";
  await announce(queue, "worker-1", worker(512));
  await announce(queue, "worker-2", worker(8));
  assert.deepEqual(await ofIngress(queue, "ingress-1", 5), { slots: 520, running: 0 });
  assert.deepEqual(await ofIngress(queue, "ingress-2", 7), { slots: 520, running: 5 });
  await boardOf("worker-2").withdraw(queue);
  assert.deepEqual(await ofIngress(queue, "ingress-1", 6), { slots: 512, running: 7 });
  assert.deepEqual(await ofIngress("image", "ingress-1", 1), { slots: 0, running: 0 });
});

test("an ingress learns the slots of the other ingresses' keys, and a worker does not", async () => {
  const queue = "keys";
  await announce(queue, "worker-1", worker(8));
  await announce(queue, "ingress-1", { ...ingress(2), keySlots: "1 key_a:2" });
  await announce(queue, "ingress-2", ingress(1));
  const { running, keySlots } = await announce(queue, "ingress-3", { ...ingress(3), keySlots: "1 key_b:3" });
  assert.deepEqual([running, keySlots], [3, ["1 key_a:2"]]);
  assert.equal((await announce(queue, "worker-1", worker(8))).keySlots, undefined);
});

test("announcements expire, and so does a queue's hash without processes", async () => {
  const queue = "brief";
  const key = keyOf(queue);
  await announce(queue, "worker-1", worker(4));
  const [slots, running, lapses] = String(await redis.hget(key, "worker-1")).split(" ");
  await redis.hset(key, "worker-1", `${slots} ${running} ${Number(lapses) - 5_001}`);
  assert.deepEqual(await ofIngress(queue, "ingress-1", 1), { slots: 0, running: 0 });
  assert.deepEqual(Object.keys(await redis.hgetall(key)), ["ingress-1"]);
  const life = await redis.pttl(key);
  assert.ok(life > 0 && life <= 10_000, String(life));
});

test("a process without slots and running generations reads the load, and leaves no announcement", async () => {
  const queue = "idle";
  await announce(queue, "worker-1", worker(4));
  await ofIngress(queue, "ingress-1", 3);
  assert.deepEqual(await ofIngress(queue, "ingress-1", 0), { slots: 4, running: 0 });
  assert.deepEqual(Object.keys(await redis.hgetall(keyOf(queue))), ["worker-1"]);
});

test("an announcement is valid for as long as its process says", async () => {
  const queue = "calm";
  await announce(queue, "worker-1", { ...worker(4), lifeMs: 20_000 });
  const [, , expiry] = String(await redis.hget(keyOf(queue), "worker-1")).split(" ");
  const [seconds = 0] = (await redis.time()).map(Number);
  assert.ok(Math.abs(Number(expiry) - 1_000 * seconds - 20_000) <= 1_500, expiry);
});

test("an invalid announcement is removed", async () => {
  const queue = "odd";
  await redis.hset(keyOf(queue), "worker-1", "many", "worker-2", "");
  assert.deepEqual(await ofIngress(queue, "ingress-1", 0), { slots: 0, running: 0 });
});

test("a worker learns how much runs, the slots of the workers before it, and which others have free slots", async () => {
  const queue = "audio";
  await announce(queue, "worker-b", worker(100, 40, 30));
  await announce(queue, "worker-a", worker(50, 5));
  await announce(queue, "worker-d", worker(20, 21));
  await announce(queue, "ingress-1", ingress(7));
  assert.deepEqual(await announce(queue, "worker-c", worker(10, 1)), {
    slots: 180,
    usedSlots: 67,
    lastingSlots: 57,
    workersBefore: 2,
    slotsBefore: 150,
    openWorkers: 2,
    openLastingSlots: 35,
    running: 7,
  });
  assert.equal((await announce(queue, "worker-a", worker(50, 5))).slotsBefore, 0);
});
