/**
 * Everything that depends on how BullMQ works inside: its keys, the fields of its jobs, and calls
 * that it does not document. test/libs/relay/redis/bullmq-internals.test.ts fails when a new
 * version of BullMQ changes any of it.
 */
import type { Queue, Worker } from "bullmq";
import type { Redis } from "#service/redis.ts";
import { fetchOverdueMs } from "../bounds.ts";
import type { JobState } from "../owner.ts";

/**
 * Entries of a queue's event stream. BullMQ always writes it and keeps 10,000 entries unless it is
 * told otherwise.
 */
const eventsMax = 0;

export const eventStreamSettings = { events: { maxLen: eventsMax } };

/** BullMQ writes the settings of a queue only when it opens the queue; this writes them again. */
export const restoreEventStreamSettings = (queue: Queue, redis: Redis): Promise<unknown> =>
  redis.hset(queue.toKey("meta"), "opts.maxLenEvents", eventsMax);

/**
 * The states of jobs by two fields of each job's hash: the cost does not depend on the queue's
 * length. Rejects while Redis is away.
 */
export async function jobStatesOf(
  queue: Queue,
  redis: Redis,
  ids: ReadonlySet<string>,
): Promise<Map<string, JobState>> {
  const pipeline = redis.pipeline();
  for (const id of ids) pipeline.hmget(queue.toKey(id), "timestamp", "processedOn");
  const replies = (await pipeline.exec()) ?? [];
  return new Map(
    [...ids].map((id, index) => {
      const [error, fields] = replies[index] ?? [new Error("no reply")];
      if (error) throw error;
      const [timestamp, processedOn] = fields as [string | null, string | null];
      return [id, timestamp === null ? "missing" : processedOn === null ? "waiting" : "active"] as const;
    }),
  );
}

/**
 * A key of our own beside BullMQ's marker: it wakes a worker in reserve. No job has this id, so the
 * key is none of a job.
 */
export const reserveMarker = "reserve";

/** The parts of BullMQ's connection for blocked fetches that it does not export. */
interface BlockingConnection {
  blockingConnection?: {
    client: Promise<{ bzpopmin(key: string, seconds: number): Promise<unknown>; options?: object }>;
  };
}

const blockingClientOf = (worker: Worker) => (worker.getBackend() as BlockingConnection).blockingConnection?.client;

/** The options of the connection for blocked fetches, which BullMQ copies from the worker's. */
export async function blockingOptionsOf(worker: Worker): Promise<object> {
  return (await blockingClientOf(worker))?.options ?? {};
}

/** The result of the promise; rejects if it takes longer. */
async function inTime<Value>(promise: Promise<Value>, ms: number): Promise<Value> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => late.reject(new Error(`the connection for fetches took more than ${ms} ms`)), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

export interface JobWaitOptions {
  seconds: number;
  isReserve?: boolean;
  onError(error: Error): void;
}

/** Waits for jobs, without BullMQ's own loop, which fetches one job at a time. */
export class JobWait {
  readonly #worker: Worker;
  #isInterrupted = false;

  constructor(worker: Worker) {
    this.#worker = worker;
  }

  /**
   * Blocks until there may be a job (true), or until the time is over (false). Takes the queue's
   * marker: the fetch that follows puts it back if jobs still wait. A worker in reserve waits for
   * the other marker. Rejects when the connection is lost, or does not answer in time: BullMQ opens
   * it again itself then, and waits for ioredis' `connect`, which never settles if a cluster is
   * found while it is not whole.
   */
  async untilJob({ seconds, isReserve = false, onError }: JobWaitOptions): Promise<boolean> {
    const backend = this.#worker.getBackend();
    const marked = isReserve ? this.#untilReserveMarker(seconds) : backend.waitForJob(seconds);
    try {
      return (await inTime(marked, 1_000 * seconds + fetchOverdueMs)) != null;
    } catch (error) {
      if (!this.#isInterrupted) await inTime(backend.reconnectBlocking(), fetchOverdueMs).catch(onError);
      throw error;
    }
  }

  async #untilReserveMarker(seconds: number): Promise<unknown> {
    return (await blockingClientOf(this.#worker))?.bzpopmin(this.#worker.toKey(reserveMarker), seconds);
  }

  /** Ends a blocked `untilJob`, which rejects, and all that follow. */
  async interrupt(): Promise<void> {
    this.#isInterrupted = true;
    await this.#worker.getBackend().disconnectBlocking(false);
  }
}
