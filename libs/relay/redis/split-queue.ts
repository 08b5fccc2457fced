/**
 * A queue in several parts, each with keys of its own, so that a cluster spreads them over its servers: for a queue that needs more than one core of Redis. An
 * ingress takes the parts in turn, a worker serves all of them. The first part has the queue's own name.
 */
import { partNamesOf } from "#service/keyspace.ts";
import type { JobState } from "../owner.ts";
import type { JobQueue, JobWorker, Queued } from "../ports.ts";
import type { RedisJobQueue } from "./job-queue.ts";
import type { JobWorkerOptions } from "./job-worker.ts";

/** The producer's end. `open` opens one part by its name. */
export async function openSplitQueue(
  name: string,
  parts: number,
  open: (part: string) => Promise<RedisJobQueue>,
): Promise<RedisJobQueue> {
  const queues = await Promise.all(partNamesOf(name, parts).map(open));
  const [first] = queues as [RedisJobQueue];
  if (parts === 1) return first;
  const partOf = new WeakMap<Queued, JobQueue>();
  let turn = 0;
  return {
    name,
    bulls: queues.flatMap(({ bulls }) => bulls),
    add(generation, failed) {
      const queue = queues[turn++ % parts] as JobQueue;
      const queued = queue.add(generation, failed);
      partOf.set(queued, queue);
      return queued;
    },
    async remove(queued) {
      await partOf.get(queued)?.remove(queued);
    },
    async statesOf(all) {
      const states = new Map<Queued | undefined, JobState>();
      for (const queue of queues) {
        const own = all.filter((queued) => queued !== undefined && partOf.get(queued) === queue);
        if (own.length === 0) continue;
        for (const [index, state] of (await queue.statesOf(own)).entries()) states.set(own[index], state);
      }
      return all.map((queued) => states.get(queued) ?? "missing");
    },
    async depth() {
      const depths = await Promise.all(queues.map((queue) => queue.depth()));
      const sumOf = (state: "waiting" | "active") => depths.reduce((sum, depth) => sum + depth[state], 0);
      return { waiting: sumOf("waiting"), active: sumOf("active") };
    },
    restoreSettings: () => Promise.all(queues.map((queue) => queue.restoreSettings())),
    setFreeSlots(slots) {
      for (const queue of queues) queue.setFreeSlots(slots / parts);
    },
    async close() {
      await Promise.all(queues.map((queue) => queue.close()));
    },
  };
}

export interface SplitWorker extends JobWorker {
  /** Opens and starts the parts that are missing. Those that there are more stay open, for jobs may still wait there. */
  openParts(parts: number): Promise<void>;
}

type PartOptions = Omit<JobWorkerOptions, "redisUrl" | "keyspace">;

/** The consumer's end, without parts at first. `open` opens one part. Its parts share the capacity. */
export function splitWorkerOf(options: PartOptions, open: (part: PartOptions) => Promise<JobWorker>): SplitWorker {
  const { name, capacity, room, take } = options;
  const workers: JobWorker[] = [];
  let isStopping = false;
  const held = () => workers.reduce((sum, worker) => sum + worker.held, 0);
  const resume = () => {
    for (const worker of workers) worker.resume();
  };
  const all = async (act: (worker: JobWorker) => Promise<void>) => {
    await Promise.all(workers.map(act));
  };
  return {
    name,
    capacity,
    get held() {
      return held();
    },
    async openParts(parts) {
      for (const part of partNamesOf(name, parts).slice(workers.length)) {
        const worker = await open({
          ...options,
          name: part,
          room: () => Math.min(room(), capacity - held()),
          take: (slot) =>
            take({
              ...slot,
              queue: name,
              release() {
                slot.release();
                resume();
              },
            }),
        });
        if (isStopping) return worker.close();
        workers.push(worker);
        worker.start();
      }
    },
    start() {
      for (const worker of workers) worker.start();
    },
    resume,
    async stop() {
      isStopping = true;
      await all((worker) => worker.stop());
    },
    async close() {
      isStopping = true;
      await all((worker) => worker.close());
    },
  };
}
