/**
 * The way off a lane. A job is a hand-over: it ends when its owner has bound it, so the active set stays tiny and no lock is ever renewed.
 * Jobs are fetched by hand rather than by BullMQ's own loop, which awaits one fetch at a time.
 */
import { type ConnectionOptions, Job, type JobJson, Worker } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import { redisOptionsOf } from "#service/redis.ts";
import { type GenerationJob, generationsIn, generationsPerJobMax, sizeOf } from "./job.ts";

/** A job lies locked for this long after it was fetched; the hand-over ends well within it. */
const lockMs = 90_000;
/** Fetches of one lane on their way at once at most: it takes a burst to get there, so that an idle lane costs one blocked command. */
const fetchesMax = 16;
const retryMs = 250;
/** How long a stop waits for fetches on their way; with Redis away they do not come back. */
const stopMs = 2_500;

/** A place for a generation, from the fetch until `release`. */
export interface Place {
  readonly lane: string;
  readonly job: GenerationJob;
  /** How many places are free beside it. */
  readonly room: number;
  /** Ends the hand-over: with the last of its job, that is taken off the lane, with the next one in the same breath if there is room. Once. */
  handedOver(): void;
  /** The generation is over, its place free. Once, after `handedOver`. */
  release(): void;
}

export interface LaneWorker {
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

export interface LaneWorkerOptions {
  name: string;
  /** Generations at once; as a job is taken whole, there may be up to `generationsPerJobMax - 1` more. */
  capacity: number;
  redisUrl: string;
  keyspace: Keyspace;
  /** Can this process serve right now? No job is fetched while it can't. */
  isReady(): boolean;
  take(place: Place): void;
  onError(error: Error): void;
}

export async function openLaneWorker(options: LaneWorkerOptions): Promise<LaneWorker> {
  const { name, capacity, keyspace, onError } = options;
  const worker = new Worker(name, null, {
    connection: redisOptionsOf(options.redisUrl, "patient") as ConnectionOptions,
    prefix: keyspace.queuePrefix,
    autorun: false,
    lockDuration: lockMs,
    stalledInterval: lockMs,
    maxStalledCount: 0,
    drainDelay: 1,
  });
  worker.on("error", onError);
  await worker.waitUntilReady();
  await worker.startStalledCheckTimer();

  let held = 0;
  let fetching = 0;
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

  const fetched = (job: Job | undefined) => {
    fetching--;
    fetchesWorthwhile = job === undefined || drained ? 1 : Math.min(fetchesMax, fetchesWorthwhile + 1);
    drained = job === undefined;
    if (job !== undefined) hold(job);
    pump();
  };

  const pumpLater = () => {
    retry ??= setTimeout(() => {
      retry = undefined;
      pump();
    }, retryMs);
  };

  const fetch = async () => {
    fetching++;
    let job: Job | undefined;
    try {
      job = (await worker.getNextJob(`${worker.id}:${++counter}`)) as Job | undefined;
    } catch (error) {
      onError(error as Error);
      fetching--;
      if (stopping) pump();
      else pumpLater();
      return;
    }
    fetched(job);
  };

  const hold = (job: Job) => {
    const generations = generationsIn(job.data);
    if (generations.length < sizeOf(job.data)) onError(new Error(`the job ${job.id} is not all ours; the rest of it was taken off the lane`));
    if (generations.length === 0) {
      finish(job);
      return;
    }
    let left = generations.length;
    held += left;
    const room = Math.max(0, capacity - held);
    for (const generation of generations)
      options.take({
        lane: name,
        job: generation,
        room,
        handedOver() {
          if (--left === 0) finish(job);
        },
        release() {
          held--;
          pump();
        },
      });
  };

  /** The job that a finish brought along, as BullMQ's own loop would make it. */
  const jobOf = (next: unknown, token: string): Job | undefined => {
    const [data, id] = (next ?? []) as [JobJson | null | undefined, string | undefined];
    if (!data || id === undefined) return undefined;
    const job = Job.fromJSON(worker, data, id);
    job.token = token;
    return job;
  };

  const finish = (job: Job) => {
    const fetchNext = !stopping && !drained && mayFetch() && options.isReady();
    if (fetchNext) fetching++;
    job.moveToCompleted("", job.token as string, fetchNext).then(
      (next) => {
        if (fetchNext) fetched(jobOf(next, job.token as string));
      },
      (error: Error) => {
        onError(error);
        if (fetchNext) fetched(undefined);
      },
    );
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
    },
  };
}
