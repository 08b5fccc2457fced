/**
 * The way off a queue. A job is a dispatch: it ends when its owner has bound it, so the active set stays tiny and no lock is ever renewed.
 * Jobs are fetched by hand rather than by BullMQ's own loop, which awaits one fetch at a time, and looks twice in vain after each job that comes alone.
 */
import { setImmediate as afterThisTurn } from "node:timers/promises";
import { Job, type JobJson, Worker } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { type GenerationJob, generationsIn, generationsPerJobMax, sizeOf } from "./job.ts";

/** A job lies locked for this long after it was fetched; the dispatch ends well within it. */
const lockMs = 90_000;
/** Fetches of one queue on their way at once at most: it takes a burst to get there, so that an idle queue costs one blocked command. */
const fetchesMax = 16;
const retryMs = 250;
/** How long a fetch waits for a job at once. */
const waitSeconds = 1;
/** How long a stop waits for fetches on their way; with Redis away they do not come back. */
const stopMs = 2_500;

/**
 * Takes BullMQ's marker off a queue that nothing waits on. It wakes those who wait for a job; a fetch leaves it behind, for there might be more.
 * KEYS: the prioritized set, the waiting list, the marker. 1 if nothing waits.
 */
const quieten = scriptOf(`
if redis.call("ZCARD", KEYS[1]) > 0 or redis.call("LLEN", KEYS[2]) > 0 then return 0 end
redis.call("DEL", KEYS[3])
return 1`);

/** A place for a generation, from the fetch until `release`. */
export interface JobSlot {
  readonly queue: string;
  readonly job: GenerationJob;
  /** How many places are free beside it. */
  readonly freeSlots: number;
  /** Ends the dispatch: with the last of its job, that is taken off the queue, with the next one in the same breath if there is room. Once. */
  dispatched(): void;
  /** The generation is over, its place free. Once, after `handedOver`. */
  release(): void;
}

export interface JobWorker {
  readonly name: string;
  readonly capacity: number;
  /** Places taken. */
  readonly held: number;
  start(): void;
  /** Takes no further job; settles when no fetch is on its way, or when it is clear that none will come back. */
  stop(): Promise<void>;
  /** After `stop` and the last `release`. */
  close(): Promise<void>;
}

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
  const backend = worker.getBackend();
  const waitingKeys = ["prioritized", "wait", "marker"].map((key) => worker.toKey(key));

  let held = 0;
  let fetching = 0;
  /** Nothing waits on the queue: the next fetch waits for a job. */
  let drained = false;
  let fetchesWorthwhile = 1;
  let stopping = true;
  let retry: NodeJS.Timeout | undefined;
  let settleStop: (() => void) | undefined;
  let counter = 0;

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
      const woken = waits && (await wasWoken());
      if (!stopping || woken) {
        const coming = next();
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

  /** Waits until there may be a job: true, or until `waitSeconds` are over. */
  const wasWoken = async (): Promise<boolean> => {
    try {
      return (await backend.waitForJob(waitSeconds)) !== null;
    } catch (error) {
      await backend.reconnectBlocking().catch(onError);
      throw error;
    }
  };

  /** Asked behind a fetch that was sent in this turn. */
  const nothingWaits = async (): Promise<boolean> => {
    await afterThisTurn();
    return runScript(redis, quieten, waitingKeys, []).then(
      (reply) => reply === 1,
      () => false,
    );
  };

  /** The next job on the queue, by the same step that takes an ended one off it. */
  const next = async (before?: Job): Promise<Job | undefined> => {
    const token = before?.token ?? `${worker.id}:${++counter}`;
    const reply =
      before === undefined ? await backend.moveToActive(token) : await before.moveToCompleted("", token, true);
    const [data, id] = (reply ?? []) as [JobJson | null | undefined, string | undefined];
    if (!data || id === undefined) return undefined;
    const job = Job.fromJSON(worker, data, id) as Job;
    job.token = token;
    return job;
  };

  const hold = (job: Job) => {
    // Its worker died with it: BullMQ puts it back with a failure, for its own loop to end it by. Its owner has long begun another attempt.
    if (job.deferredFailure !== undefined) {
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
    if (stopping || drained || !mayFetch() || !options.isReady())
      job.moveToCompleted("", job.token as string, false).catch(onError);
    else {
      fetching++;
      next(job).then((following) => {
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
