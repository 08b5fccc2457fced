/**
 * The consumer's end of a queue, with BullMQ. A job ends when its owners have bound all its generations, so few jobs are active at a time and no lock is ever
 * renewed. Jobs are fetched without BullMQ's own loop (see bullmq-internals.ts).
 */

import { setImmediate as afterThisTurn } from "node:timers/promises";
import { type Job, Worker } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import { connectRedis, hurryAgain, unhurried } from "#service/redis.ts";
import {
  fetchesMax,
  fetchesStopMs,
  fetchRetryMs,
  fetchWaitSeconds,
  generationsPerJobMax,
  jobLockMs,
  reserveFetchMs,
} from "../bounds.ts";
import { generationsIn, sizeOf } from "../job.ts";
import type { JobSlot, JobWorker } from "../ports.ts";
import { blockingOptionsOf, JobFetcher } from "./bullmq-internals.ts";

export interface JobWorkerOptions {
  name: string;
  /** Concurrent generations. Jobs are taken whole, so there may be up to `generationsPerJobMax - 1` more. */
  capacity: number;
  redisUrl: string;
  keyspace: Keyspace;
  /** Whether this process can serve now. While it cannot, no job is fetched. */
  isReady(): boolean;
  /** Whether an operator paused the queue. No worker takes jobs meanwhile. */
  isPaused(): boolean;
  /** How many more generations this process takes, on all its queues. */
  room(): number;
  /** Whether other workers have slots enough. Then it takes only jobs that they leave for a moment, so that few workers have much to do: frames for the same ingress share a message. */
  isReserve(): boolean;
  take(slot: JobSlot): void;
  onError(error: Error): void;
}

export async function openJobWorker(options: JobWorkerOptions): Promise<JobWorker> {
  const { name, capacity, keyspace, onError } = options;
  const redis = await connectRedis(options.redisUrl, "patient");
  const worker = await unhurried(redis, async () => {
    const opened = new Worker(name, null, {
      connection: redis,
      prefix: keyspace.queuePrefix(name),
      autorun: false,
      lockDuration: jobLockMs,
      stalledInterval: jobLockMs,
      maxStalledCount: 0,
    });
    opened.on("error", onError);
    await opened.waitUntilReady();
    return opened;
  });
  hurryAgain(redis, await blockingOptionsOf(worker));
  await worker.startStalledCheckTimer();
  const fetcher = new JobFetcher(worker, redis);

  let held = 0;
  let fetching = 0;
  /** No job waits on the queue, so the next fetch blocks. */
  let drained = false;
  let fetchesWorthwhile = 1;
  let stopping = true;
  let retry: NodeJS.Timeout | undefined;
  let settleStop: (() => void) | undefined;

  /** How many generations a fetch brings is unknown until it returns. */
  const mayFetch = () => {
    const slots = Math.min(capacity - held, options.room());
    return fetching === 0 ? slots > 0 : (fetching + 1) * generationsPerJobMax <= slots;
  };

  const pump = () => {
    if (stopping) {
      if (fetching === 0) settleStop?.();
      return;
    }
    if (!options.isReady() || options.isPaused()) {
      // What was on the queue before the pause still is, and the marker of a job that came since may be gone.
      if (options.isPaused()) drained = false;
      pumpAfter(fetchRetryMs);
      return;
    }
    if (drained && options.isReserve()) {
      if (fetching === 0) pumpAfter(reserveFetchMs, true);
      return;
    }
    while (mayFetch() && fetching < fetchesWorthwhile && (fetching === 0 || !drained)) void fetch();
  };

  /** `looks`: even a drained queue is asked then. */
  const pumpAfter = (ms: number, looks = false) => {
    retry ??= setTimeout(() => {
      retry = undefined;
      if (looks) drained = false;
      pump();
    }, ms);
  };

  /** A fetch is over. `empty`: no further job waits on the queue. */
  const fetched = (brought: boolean, empty: boolean) => {
    fetching--;
    fetchesWorthwhile = !brought || drained ? 1 : Math.min(fetchesMax, fetchesWorthwhile + 1);
    drained = empty;
    pump();
  };

  /** The outcome of the fetch is unknown, and the marker that woke it is gone. */
  const fetchFailed = (error: Error) => {
    fetching--;
    drained = false;
    if (stopping) {
      pump();
      return;
    }
    onError(error);
    pumpAfter(fetchRetryMs);
  };

  const fetch = async () => {
    fetching++;
    const waits = drained;
    let job: Job | undefined;
    let quiet: Promise<boolean> | false = false;
    try {
      const woken = waits && (await fetcher.waitForJob(fetchWaitSeconds, onError));
      if ((!stopping || woken) && !options.isPaused()) {
        const coming = fetcher.next();
        quiet = waits && nothingWaits();
        job = await coming;
      }
    } catch (error) {
      fetchFailed(error as Error);
      return;
    }
    if (job !== undefined) hold(job);
    fetched(job !== undefined, job === undefined || (await quiet));
  };

  /** Sent after a fetch of the same turn of the event loop, so that it sees the queue without that job. */
  const nothingWaits = async (): Promise<boolean> => {
    await afterThisTurn();
    return fetcher.quieten().catch(() => false);
  };

  const hold = (job: Job) => {
    // The worker of this job died. Its owner has started another attempt long ago.
    if (fetcher.isAbandoned(job)) {
      finish(job);
      return;
    }
    const generations = generationsIn(job.data);
    if (generations.length < sizeOf(job.data))
      onError(new Error(`the job ${job.id} has generations that are not valid; they were removed from the queue`));
    if (generations.length === 0) {
      finish(job);
      return;
    }
    let left = generations.length;
    held += left;
    const freeSlots = Math.max(0, Math.min(capacity - held, options.room()));
    for (const generation of generations)
      options.take({
        queue: name,
        job: generation,
        freeSlots,
        dispatched() {
          if (--left === 0) finish(job);
        },
        release() {
          held--;
          pump();
        },
      });
  };

  /** Completes the job, and fetches the next one in the same step if there is capacity. */
  const finish = (job: Job) => {
    if (stopping || drained || !mayFetch() || !options.isReady() || options.isPaused())
      fetcher.complete(job).catch(onError);
    else {
      fetching++;
      fetcher.next(job).then((following) => {
        if (following !== undefined) hold(following);
        fetched(following !== undefined, following === undefined);
      }, fetchFailed);
    }
  };

  return {
    name,
    capacity,
    get held() {
      return held;
    },
    start() {
      stopping = false;
      pump();
    },
    resume() {
      if (!stopping) pump();
    },
    async stop() {
      stopping = true;
      clearTimeout(retry);
      await worker.pause(true);
      await fetcher.interrupt();
      await new Promise<void>((resolve) => {
        const timeout = setTimeout(resolve, fetchesStopMs);
        settleStop = () => {
          clearTimeout(timeout);
          resolve();
        };
        pump();
      });
    },
    async close() {
      stopping = true;
      clearTimeout(retry);
      await worker.close(true);
      redis.disconnect();
    },
  };
}
