import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { JobSlot } from "#relay/ports.ts";
import { openJobQueue } from "#relay/redis/job-queue.ts";
import { openJobWorker } from "#relay/redis/job-worker.ts";
import { openSplitQueue, splitWorkerOf } from "#relay/redis/split-queue.ts";
import { keyspaceOf, partNamesOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { jobOf } from "../../../support/jobs.ts";
import { startRedis } from "../../../support/redis.ts";
import { until } from "../../../support/time.ts";

const keyspace = keyspaceOf("split-test");
const server = await startRedis();
const redis = await connectRedis(server.url, "request");
const subscriber = await connectRedis(server.url, "subscribe");
after(async () => {
  redis.disconnect();
  subscriber.disconnect();
  await server[Symbol.asyncDispose]();
});

const refused = () => assert.fail("the queue refused a job");

test("each part has keys of its own, generations are spread over them, and a worker takes all of them within its capacity", async () => {
  const queue = await openSplitQueue("chat", { count: 3, protocol: 1 }, (part) =>
    openJobQueue(part, redis, keyspace, () => {}),
  );
  const all = Array.from({ length: 9 }, (_, index) => queue.add(jobOf(`gen_${index}`), refused));
  await until("all wait", async () => (await queue.depth()).waiting >= 9);
  for (const part of partNamesOf("chat", 3, 1))
    assert.equal(await redis.zcard(`${keyspace.queuePrefix(part)}:${part}:prioritized`), 3);
  assert.deepEqual(await queue.statesOf([...all, undefined]), [...Array(9).fill("waiting"), "missing"]);

  await queue.remove(all[0] as (typeof all)[number]);
  assert.deepEqual((await queue.statesOf(all))[0], "missing");

  const slots: JobSlot[] = [];
  let [done, most] = [0, 0];
  const options = {
    name: "chat",
    capacity: 2,
    isReady: () => true,
    isPaused: () => false,
    freeSlots: () => Number.POSITIVE_INFINITY,
    isReserve: () => false,
    isBusy: () => false,
    shareLeft: () => Number.POSITIVE_INFINITY,
    refreshShare: async () => {},
    take: (slot: JobSlot) => {
      most = Math.max(most, slots.push(slot) - done);
    },
    onError: () => {},
  };
  const worker = splitWorkerOf(options, keyspace.protocols, async (part) =>
    openJobWorker(part, { redis: await connectRedis(server.url, "patient"), subscriber }, keyspace),
  );
  await worker.openParts(1);
  await until("one part is taken", () => slots.length >= 2);
  await worker.openParts(3);
  while (done < 8) {
    await until("the capacity is used, or all are taken", () => slots.length - done >= 2 || slots.length === 8);
    for (const slot of slots.slice(done)) {
      done++;
      slot.dispatched();
      slot.release();
    }
  }
  assert.deepEqual([slots.length, most], [8, 2]);
  const partsInOrder = slots.map(({ job }) => Number(job.generation.slice("gen_".length)) % 3).join("");
  assert.doesNotMatch(partsInOrder, /(.)\1\1/, "parts with jobs take turns");
  for (const slot of slots) assert.equal(slot.queue, "chat");
  await until("nothing is left", async () => (await queue.depth()).active === 0);
  await worker.stop();
  await worker.close();
  await queue.close();
});
