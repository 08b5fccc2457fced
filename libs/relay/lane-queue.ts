/**
 * The way onto a lane, which is a BullMQ queue. Jobs are prioritized, all alike: the same price as plain ones, and taking one out of a long
 * queue stays cheap. While workers have many places free, generations that are put on the lane together go as one job: what a job costs is paid once.
 */
import { Queue } from "bullmq";
import type { Redis } from "ioredis";
import type { Keyspace } from "#service/keyspace.ts";
import { type GenerationJob, generationsPerJobMax, jobBodiesMax, jobIdOf, type LaneJob } from "./job.ts";
import type { JobState } from "./owner.ts";

/** Jobs of one pipeline at most. */
const bulkMax = 64;
const jobName = "generation";
const priority = 1;
/** What a worker said of its free places holds for so long; and a job may take this part of them. */
const roomLifeMs = 1_000;
const roomShare = 1 / 16;

/** A generation on its way to a worker. */
export interface Queued {
  readonly generation: GenerationJob;
  readonly failed: () => void;
  /** Undefined until it is put on the lane. */
  job: { id: string; generations: number; left: number } | undefined;
}

export interface LaneQueue {
  readonly name: string;
  readonly queue: Queue;
  /**
   * Puts a generation on the lane with the others of this turn; `failed` is called when the lane refused it, or when nobody knows: then also for those
   * that gathered meanwhile, so that no caller waits for more than one time limit.
   */
  add(generation: GenerationJob, failed: () => void): Queued;
  /** Takes a generation off the lane if it still waits there, with its job if the others of that left too; a job that runs is not touched. Never throws. */
  remove(queued: Queued): Promise<void>;
  /** The states of their jobs, in order; what is not on the lane yet is missing. Throws when Redis is away. */
  statesOf(all: readonly (Queued | undefined)[]): Promise<JobState[]>;
  /** A worker has so many free places. */
  hasRoom(places: number): void;
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
  let gathered: Queued[] = [];
  let busy = false;
  let room = 0;
  let roomHeardAt = 0;

  const flush = async () => {
    while (gathered.length > 0) {
      const sizeMax = performance.now() - roomHeardAt > roomLifeMs ? 1 : Math.max(1, Math.min(generationsPerJobMax, Math.floor(room * roomShare)));
      const jobs: Queued[][] = [];
      while (jobs.length < bulkMax && gathered.length > 0) jobs.push(gathered.splice(0, fittingIn(gathered, sizeMax)));
      try {
        const [first, ...others] = jobs.map(bulkJobOf) as [BulkJob, ...BulkJob[]];
        if (others.length === 0) await queue.add(first.name, first.data, first.opts);
        else await queue.addBulk([first, ...others]);
      } catch {
        for (const { failed } of [...jobs.flat(), ...gathered.splice(0)]) failed();
      }
    }
    busy = false;
  };

  return {
    name,
    queue,
    add(generation, failed) {
      const queued: Queued = { generation, failed, job: undefined };
      if (redis.status !== "ready") {
        queueMicrotask(failed);
        return queued;
      }
      gathered.push(queued);
      if (!busy) {
        busy = true;
        setImmediate(flush);
      }
      return queued;
    },
    async remove(queued) {
      const { job } = queued;
      if (job === undefined) gathered = gathered.filter((other) => other !== queued);
      else if (++job.left === job.generations && redis.status === "ready") await queue.remove(job.id).catch(() => undefined);
    },
    async statesOf(all) {
      const pipeline = redis.pipeline();
      const ids = new Set(all.flatMap((queued) => queued?.job?.id ?? []));
      for (const id of ids) pipeline.hmget(queue.toKey(id), "timestamp", "processedOn");
      const replies = (await pipeline.exec()) ?? [];
      const states = new Map(
        [...ids].map((id, index) => {
          const [error, fields] = replies[index] ?? [new Error("no reply")];
          if (error) throw error;
          const [timestamp, processedOn] = fields as [string | null, string | null];
          return [id, timestamp === null ? "missing" : processedOn === null ? "waiting" : "active"] as const;
        }),
      );
      return all.map((queued) => states.get(queued?.job?.id ?? "") ?? "missing");
    },
    hasRoom(places) {
      room = places;
      roomHeardAt = performance.now();
    },
    async close() {
      gathered = [];
      await queue.close();
    },
  };
}

/** How many of the first ones go in one job. */
function fittingIn(gathered: readonly Queued[], sizeMax: number): number {
  let bodies = gathered[0]?.generation.body?.length ?? 0;
  let count = 1;
  while (count < Math.min(sizeMax, gathered.length)) {
    bodies += gathered[count]?.generation.body?.length ?? 0;
    if (bodies > jobBodiesMax) break;
    count++;
  }
  return count;
}

interface BulkJob {
  name: string;
  data: LaneJob;
  opts: { jobId: string };
}

function bulkJobOf(members: readonly Queued[]): BulkJob {
  const generations = members.map(({ generation }) => generation);
  const job = { id: jobIdOf(generations[0] as GenerationJob), generations: members.length, left: 0 };
  for (const member of members) member.job = job;
  return { name: jobName, data: { generations }, opts: { jobId: job.id } };
}
