/**
 * The way onto a queue, which is a BullMQ queue. Jobs are prioritized, all alike: the same price as plain ones, and taking one out of a long
 * queue stays cheap. While workers have many places free, generations that are put on the queue together go as one job: what a job costs is paid once.
 */
import { type Job, Queue } from "bullmq";
import type { Redis } from "ioredis";
import type { Keyspace } from "#service/keyspace.ts";
import { isRefusal } from "#service/redis.ts";
import { type GenerationJob, generationsPerJobMax, jobCharactersMax, jobIdOf, type QueuedJob } from "./job.ts";
import type { JobState } from "./owner.ts";

/** Jobs of one pipeline at most, and characters of them, but for the last. */
const bulkMax = 64;
const bulkCharactersMax = 1 << 20;
const jobName = "generation";
const priority = 1;
/** Entries of a queue's event stream, which BullMQ can't be told not to write. Without this setting it keeps 10,000. */
const eventsMax = 0;
/** What a worker said of its free places holds for so long; and a job may take this part of them. */
const freeSlotsLifeMs = 1_000;
const freeSlotsShare = 1 / 16;

/** `isRefused`: Redis answered, and took this one job not. Otherwise nobody knows, and it is likely to go for all. */
export type Failed = (isRefused: boolean) => void;

/** A generation on its way to a worker. */
export interface Queued {
  readonly id: string;
  readonly failed: Failed;
  /** Undefined once it is put on the queue. */
  generation: GenerationJob | undefined;
  /** Undefined until then. */
  job: { readonly id: string; readonly size: number; readonly left: Set<string> } | undefined;
}

export interface JobQueue {
  readonly name: string;
  readonly queue: Queue;
  /**
   * Puts a generation on the queue with the others of this turn; `failed` is called when the queue refused it, or when nobody knows: then also for those
   * that gathered meanwhile, so that no caller waits for more than one time limit.
   */
  add(generation: GenerationJob, failed: Failed): Queued;
  /** Takes a generation off the queue if it still waits there; a job that runs is not touched. Never throws. */
  remove(queued: Queued): Promise<void>;
  /** The states of their jobs, in order; what is not on the queue yet is missing. Throws when Redis is away. */
  statesOf(all: readonly (Queued | undefined)[]): Promise<JobState[]>;
  /** Writes the queue's settings anew: a Redis that lost its data has lost them too, and BullMQ writes them only when it opens the queue. Rejects when Redis is away. */
  restoreSettings(): Promise<unknown>;
  /** A worker has so many free places. */
  setFreeSlots(slots: number): void;
  close(): Promise<void>;
}

/** `redis` is a connection of the `request` kind, which the caller closes. */
export async function openJobQueue(
  name: string,
  redis: Redis,
  keyspace: Keyspace,
  onError: (error: Error) => void,
): Promise<JobQueue> {
  const queue = new Queue(name, {
    connection: redis,
    prefix: keyspace.queuePrefix,
    skipWaitingForReady: true,
    streams: { events: { maxLen: eventsMax } },
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true, attempts: 1, priority },
  });
  queue.on("error", onError);
  await queue.waitUntilReady();
  let gathered: Queued[] = [];
  let busy = false;
  let freeSlots = 0;
  let freeSlotsAt = 0;

  const flush = async () => {
    while (gathered.length > 0) {
      const sizeMax =
        performance.now() - freeSlotsAt > freeSlotsLifeMs
          ? 1
          : Math.max(1, Math.min(generationsPerJobMax, Math.floor(freeSlots * freeSlotsShare)));
      const members: Queued[] = [];
      const jobs: BulkJob[] = [];
      for (let characters = 0; jobs.length < bulkMax && characters < bulkCharactersMax && gathered.length > 0; ) {
        const some = gathered.splice(0, fittingIn(gathered, sizeMax));
        for (const queued of some) characters += charactersOf(queued);
        members.push(...some);
        jobs.push(bulkJobOf(some));
      }
      try {
        const [first, ...others] = jobs as [BulkJob, ...BulkJob[]];
        if (others.length === 0) await queue.add(first.name, first.data, first.opts);
        else await queue.addBulk(jobs);
      } catch (error) {
        const refused = isRefusal(error);
        for (const { failed } of refused ? members : [...members, ...gathered.splice(0)]) failed(refused);
      }
    }
    busy = false;
  };

  /** Whoever left in the meantime, too, is written by neither of two at once. */
  const withdraw = async (id: string, left: ReadonlySet<string>) => {
    const job = (await queue.getJob(id)) as Job<QueuedJob> | undefined;
    if (job !== undefined)
      await job.updateData({
        generations: job.data.generations.filter((generation) => !left.has(jobIdOf(generation))),
      });
  };

  return {
    name,
    queue,
    add(generation, failed) {
      const queued: Queued = { id: jobIdOf(generation), failed, generation, job: undefined };
      if (redis.status !== "ready") {
        queueMicrotask(() => failed(false));
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
      if (job === undefined || redis.status !== "ready") return;
      job.left.add(queued.id);
      try {
        if (job.left.size === job.size) await queue.remove(job.id);
        else await withdraw(job.id, job.left);
      } catch {
        // It is active, or gone: whoever runs it asks its owner.
      }
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
    restoreSettings: () => redis.hset(queue.toKey("meta"), "opts.maxLenEvents", eventsMax),
    setFreeSlots(slots) {
      freeSlots = slots;
      freeSlotsAt = performance.now();
    },
    async close() {
      gathered = [];
      await queue.close();
    },
  };
}

/** How many of the first ones go in one job. */
function fittingIn(gathered: readonly Queued[], sizeMax: number): number {
  let characters = charactersOf(gathered[0] as Queued);
  let count = 1;
  while (count < Math.min(sizeMax, gathered.length)) {
    characters += charactersOf(gathered[count] as Queued);
    if (characters > jobCharactersMax) break;
    count++;
  }
  return count;
}

const charactersOf = ({ generation }: Queued): number =>
  (generation?.body?.length ?? 0) + (generation?.delivered?.length ?? 0);

interface BulkJob {
  name: string;
  data: QueuedJob;
  opts: { jobId: string };
}

function bulkJobOf(members: readonly Queued[]): BulkJob {
  const generations = members.map(({ generation }) => generation as GenerationJob);
  const job = { id: (members[0] as Queued).id, size: members.length, left: new Set<string>() };
  for (const member of members) {
    member.job = job;
    member.generation = undefined;
  }
  return { name: jobName, data: { generations }, opts: { jobId: job.id } };
}
