/**
 * The way off a queue. A job is a dispatch: it ends when its owner has bound it, so the active set stays tiny and no lock is ever renewed.
 * Jobs are fetched by hand rather than by BullMQ's own loop, which awaits one fetch at a time, and looks twice in vain after each job that comes alone.
 */
import { setImmediate as afterThisTurn } from "node:timers/promises";
import { type Job, Worker } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { generationsIn, generationsPerJobMax, sizeOf } from "../job.ts";
import type { JobSlot, JobWorker } from "../ports.ts";
import { JobFetcher } from "./bullmq-internals.ts";

/** A job lies locked for this long after it was fetched; the dispatch ends well within it. */
const lockMs = 90_000;
/** Fetches of one queue on their way at once at most: it takes a burst to get there, so that an idle queue costs one blocked command. */
const fetchesMax = 16;
const retryMs = 250;
/** How long a fetch waits for a job at once. */
const waitSeconds = 1;
/** How long a stop waits for fetches on their way; with Redis away they do not come back. */
const stopMs = 2_500;

export interface JobWorkerOptions {
  name: string;
  /** Generations at once; as a job is taken whole, there may be up to `generationsPerJobMax - 1` more. */
  capacity: number;
  redisUrl: string;
  keyspace: Keyspace;
  /** Can this process serve right now? No job is fetched while it can't. */
  isReady(): boolean;
  take(slot: JobSlot): void;
  onError(error: Error): void;
}

export async function openJobWorker(options: JobWorkerOptions): Promise<JobWorker> {
  const { name, capacity, keyspace, onError } = options;
  const redis = await connectRedis(options.redisUrl, "patient");
  const worker = new Worker(name, null, {
    connection: redis,
    prefix: keyspace.queuePrefix,
    autorun: false,
    lockDuration: lockMs,
    stalledInterval: lockMs,
    maxStalledCount: 0,
  });
  worker.on("error", onError);
  await worker.waitUntilReady();
  await worker.startStalledCheckTimer();
  const fetcher = new JobFetcher(worker, redis);

  let held = 0;
  let fetching = 0;
  /** Nothing waits on the queue: the next fetch waits for a job. */
  let drained = false;
  let fetchesWorthwhile = 1;
  let stopping = true;
  let retry: NodeJS.Timeout | undefined;
  let settleStop: (() => void) | undefined;

  /** Nobody knows how many a fetch brings before it is there. */
  const mayFetch = () => (fetching === 0 ? held < capacity : held + (fetching + 1) * generationsPerJobMax <= capacity);

  const pump = () => {
    if (stopping) {
      if (fetching === 0) settleStop?.();
      return;
    }
    if (!options.isReady()) {
      pumpLater();
      return;
    }
    while (mayFetch() && fetching < fetchesWorthwhile && (fetching === 0 || !drained)) void fetch();
  };

  const pumpLater = () => {
    retry ??= setTimeout(() => {
      retry = undefined;
      pump();
    }, retryMs);
  };

  /** A fetch is over. `empty`: nothing waits on the queue behind what it brought, if it brought anything. */
  const fetched = (brought: boolean, empty: boolean) => {
    fetching--;
    fetchesWorthwhile = !brought || drained ? 1 : Math.min(fetchesMax, fetchesWorthwhile + 1);
    drained = empty;
    pump();
  };

  /** What was on its way may or may not have been done; a marker that woke this fetch is gone. */
  const fetchFailed = (error: Error) => {
    onError(error);
    fetching--;
    drained = false;
    if (stopping) pump();
    else pumpLater();
  };

  const fetch = async () => {
    fetching++;
    const waits = drained;
    let job: Job | undefined;
    let quiet: Promise<boolean> | false = false;
    try {
      const woken = waits && (await fetcher.waitForJob(waitSeconds, onError));
      if (!stopping || woken) {
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

  /** Asked behind a fetch that was sent in this turn. */
  const nothingWaits = async (): Promise<boolean> => {
    await afterThisTurn();
    return fetcher.quieten().catch(() => false);
  };

  const hold = (job: Job) => {
    // Its worker died with it: BullMQ puts it back with a failure, for its own loop to end it by. Its owner has long begun another attempt.
    if (fetcher.isAbandoned(job)) {
      finish(job);
      return;
    }
    const generations = generationsIn(job.data);
    if (generations.length < sizeOf(job.data))
      onError(new Error(`the job ${job.id} is not all ours; the rest of it was taken off the queue`));
    if (generations.length === 0) {
      finish(job);
      return;
    }
    let left = generations.length;
    held += left;
    const freeSlots = Math.max(0, capacity - held);
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

  /** The job is off the queue soon: with the next one in the same breath, if that may be fetched. */
  const finish = (job: Job) => {
    if (stopping || drained || !mayFetch() || !options.isReady()) fetcher.complete(job).catch(onError);
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
    async stop() {
      stopping = true;
      clearTimeout(retry);
      await worker.pause(true);
      await new Promise<void>((resolve) => {
        const timeout = setTimeout(resolve, stopMs);
        settleStop = () => {
          clearTimeout(timeout);
          resolve();
        };
        pump();
      });
    },
    async close() {
      await worker.close(true);
      redis.disconnect();
    },
  };
}
