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

test("a worker takes its least share until its second announcement: those that start with it are unknown before", async () => {
  const catalogue = partOf<Catalogue>({ queues: new Map([["chat", {}]]) });
  const opened: JobWorkerOptions[] = [];
  const announced: SlotAnnouncement[] = [];
  const others = { slots: 0, usedSlots: 0, lastingSlots: 0 };
  const queues = new WorkerQueues({
    capacities: new Map([["chat", 512]]),
    shareFactor: 1,
    now: () => 1_000,
    catalogue: () => catalogue,
    connections: {
      queueWorkerOf(options) {
        opened.push(options);
        const { name, capacity } = options;
        return partOf<SplitWorker>({
          name,
          capacity,
          usedSlots: 0,
          freedSlots: 0,
          openParts: async () => {},
          stop: async () => {},
        });
      },
    },
    slotBoard: partOf<SlotBoard>({
      async announce(_queue: string, announcement: SlotAnnouncement): Promise<QueueLoad> {
        announced.push(announcement);
        const { slots, usedSlots, lastingSlots } = announcement;
        return {
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
    limit: () => 512,
    isBusy: () => false,
    take: () => {},
    onRedisError: (error) => assert.fail(error),
  });
  await queues.start();
  const [queue] = opened as [JobWorkerOptions];
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  await settled();
  assert.deepEqual([announced.length, queue.shareLeft()], [1, shareMin]);
  queues.announce();
  await settled();
  assert.deepEqual([announced.length, queue.shareLeft()], [2, Number.POSITIVE_INFINITY]);
  others.slots = 512;
  for (let heartbeat = 0; heartbeat < 16; heartbeat++) queues.announce();
  await settled();
  assert.equal(queue.shareLeft(), shareMin, "another worker has free slots");
  await queues.stop();
});
