/**
 * The way onto a lane, which is a BullMQ queue. Jobs are prioritized, all alike: the same price as plain ones, and taking one out of a long
 * queue stays cheap.
 */
import { Queue } from "bullmq";
import type { Redis } from "ioredis";
import type { Keyspace } from "#service/keyspace.ts";
import { type GenerationJob, jobIdOf } from "./job.ts";
import type { JobState } from "./owner.ts";

/** Jobs of one pipeline at most. */
const bulkMax = 64;
const jobName = "generation";
const priority = 1;

export interface LaneQueue {
  readonly name: string;
  readonly queue: Queue;
  /**
   * Adds a job with the others of this turn; `failed` is called when the lane refused it, or when nobody knows: then also for those that
   * gathered meanwhile, so that no caller waits for more than one time limit.
   */
  add(job: GenerationJob, failed: () => void): void;
  /** Takes a job off the lane if it still waits there; a job that runs is not touched. Never throws. */
  remove(generation: string, attempt: number): Promise<void>;
  /** The states of jobs, in order. Throws when Redis is away. */
  statesOf(jobs: { generation: string; attempt: number }[]): Promise<JobState[]>;
  close(): Promise<void>;
}

/** `redis` is a connection of the `request` kind, which the caller closes. */
export async function openLaneQueue(name: string, redis: Redis, keyspace: Keyspace, onError: (error: Error) => void): Promise<LaneQueue> {
  const queue = new Queue(name, {
    connection: redis,
    prefix: keyspace.queuePrefix,
    skipWaitingForReady: true,
    streams: { events: { maxLen: 0 } },
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1, priority },
  });
  queue.on("error", onError);
  await queue.waitUntilReady();
  let gathered: { job: GenerationJob; failed: () => void }[] = [];
  let busy = false;

  const flush = async () => {
    while (gathered.length > 0) {
      const batch = gathered.splice(0, bulkMax);
      try {
        await queue.addBulk(batch.map(({ job }) => ({ name: jobName, data: job, opts: { jobId: jobIdOf(job.generation, job.attempt) } })));
      } catch {
        for (const { failed } of [...batch, ...gathered.splice(0)]) failed();
      }
    }
    busy = false;
  };

  return {
    name,
    queue,
    add(job, failed) {
      if (redis.status !== "ready") {
        queueMicrotask(failed);
        return;
      }
      gathered.push({ job, failed });
      if (busy) return;
      busy = true;
      setImmediate(flush);
    },
    async remove(generation, attempt) {
      gathered = gathered.filter(({ job }) => job.generation !== generation || job.attempt !== attempt);
      if (redis.status !== "ready") return;
      await queue.remove(jobIdOf(generation, attempt)).catch(() => undefined);
    },
    async statesOf(jobs) {
      const pipeline = redis.pipeline();
      for (const { generation, attempt } of jobs) pipeline.hmget(queue.toKey(jobIdOf(generation, attempt)), "timestamp", "processedOn");
      const replies = (await pipeline.exec()) ?? [];
      return jobs.map((_job, index) => {
        const [error, fields] = replies[index] ?? [new Error("no reply")];
        if (error) throw error;
        const [timestamp, processedOn] = fields as [string | null, string | null];
        return timestamp === null ? "missing" : processedOn === null ? "waiting" : "active";
      });
    },
    async close() {
      gathered = [];
      await queue.close();
    },
  };
}
