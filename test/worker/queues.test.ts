/** How much a worker takes of its queues, by the announcements of all workers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import pino from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { QueueLoad, SlotAnnouncement, SlotBoard, SplitWorker } from "#relay/ports.ts";
import type { JobWorkerOptions } from "#relay/redis/job-worker.ts";
import { shareMin } from "../../apps/worker/bounds.ts";
import { WorkerQueues } from "../../apps/worker/queues.ts";
import { partOf } from "../support/part-of.ts";

const settled = () => new Promise((resolve) => setImmediate(resolve));

/** A worker of one queue with 512 slots, whose share is what is fair, beside others. */
async function startWorker() {
  const catalogue = partOf<Catalogue>({ queues: new Map([["chat", {}]]) });
  const opened: JobWorkerOptions[] = [];
  const announced: SlotAnnouncement[] = [];
  const others = { slots: 0, usedSlots: 0, lastingSlots: 0, openWorkers: 0, openLastingSlots: 0 };
  const own = { usedSlots: 0, isBusy: false };
  const queues = new WorkerQueues({
    capacities: new Map([["chat", 512]]),
    shareFactor: 1,
    now: () => 1_000,
    catalogue: () => catalogue,
    openQueue(options) {
      opened.push(options);
      const { name, capacity } = options;
      return partOf<SplitWorker>({
        name,
        capacity,
        get usedSlots() {
          return own.usedSlots;
        },
        freedSlots: 0,
        openParts: async () => {},
        stop: async () => {},
      });
    },
    slotBoard: partOf<SlotBoard>({
      async announce(_queue: string, announcement: SlotAnnouncement): Promise<QueueLoad> {
        announced.push(announcement);
        const { slots, usedSlots, lastingSlots } = announcement;
        return {
          ...others,
          slots: slots + others.slots,
          usedSlots: usedSlots + others.usedSlots,
          lastingSlots: lastingSlots + others.lastingSlots,
          workersBefore: 0,
          slotsBefore: 0,
          running: 0,
        };
      },
      withdraw: async () => {},
    }),
    log: pino({ level: "silent" }),
    isReady: () => true,
    isPaused: () => false,
    limit: () => (own.isBusy ? 32 : 512),
    isBusy: () => own.isBusy,
    take: () => {},
    onRedisError: (error) => assert.fail(error),
  });
  await queues.start();
  await settled();
  const [queue] = opened as [JobWorkerOptions];
  return {
    queue,
    announced,
    others,
    own,
    /** Until an announcement: while nothing changes, not each heartbeat has one. */
    async announce() {
      const before = announced.length;
      while (announced.length === before) queues.announce();
      await settled();
    },
    [Symbol.asyncDispose]: () => queues.stop(),
  };
}

test("a worker takes its least share until its second announcement: those that start with it are unknown before", async () => {
  await using worker = await startWorker();
  const { queue, announced, others } = worker;
  assert.deepEqual([announced.length, queue.shareLeft()], [1, shareMin]);
  await worker.announce();
  assert.deepEqual([announced.length, queue.shareLeft()], [2, Number.POSITIVE_INFINITY]);
  Object.assign(others, { slots: 512, openWorkers: 1 });
  await worker.announce();
  assert.equal(queue.shareLeft(), shareMin, "another worker has free slots");
});

test("a worker's share is the mean of the workers with free slots, however busy it or they are", async () => {
  await using worker = await startWorker();
  const { queue, announced, others, own } = worker;
  const open = { usedSlots: 80, lastingSlots: 80, openWorkers: 2, openLastingSlots: 60 };
  for (const slots of [2 * 512 + 20, 2 * 32 + 20])
    for (const isBusy of [false, true]) {
      Object.assign(others, open, { slots });
      Object.assign(own, { usedSlots: 30, isBusy });
      await worker.announce();
      assert.equal(announced.at(-1)?.slots, isBusy ? 32 : 512);
      assert.equal(queue.shareLeft(), 0);
    }
});

test("a worker has no share where no other worker has free slots", async () => {
  await using worker = await startWorker();
  Object.assign(worker.others, { slots: 80, usedSlots: 80, lastingSlots: 80 });
  worker.own.usedSlots = 100;
  await worker.announce();
  assert.equal(worker.queue.shareLeft(), Number.POSITIVE_INFINITY);
});
