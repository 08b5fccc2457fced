/**
 * The consumer's end of a queue, with BullMQ. A job ends when its owners have bound all its
 * generations, so few jobs are active at a time and no lock is ever renewed. Jobs are fetched
 * without BullMQ's own loop (see bullmq-internals.ts).
 *
 *   stopped ─ start ─▶ fetching ◀─ a job comes ──────────────────────────────┐
 *      ▲                 │ ├─ the queue is empty ─▶ drained: one fetch blocks ┤
 *      │                 │ ├─ drained, and in reserve ─▶ looks again later ───┤
 *      │                 │ ├─ not ready, or paused ────▶ tries again later ───┤
 *      │                 │ ├─ no slot is free ─────────▶ resumes on release ──┤
 *      └───── stop ──────┘ └─ Redis fails ─────────────▶ tries again later ───┘
 */
import { setImmediate as afterThisTurn } from "node:timers/promises";
import { type Job, Worker } from "bullmq";
import type { Keyspace } from "#service/keyspace.ts";
import { type Redis, restoreTimeLimits, withStartupTimeLimits } from "#service/redis.ts";
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
  /**
   * Concurrent generations. Jobs are taken whole, so there may be up to `generationsPerJobMax - 1`
   * more.
   */
  capacity: number;
  /** Whether this process can serve now. While it cannot, no job is fetched. */
  isReady(): boolean;
  /** Whether an operator paused the queue. No worker takes jobs meanwhile. */
  isPaused(): boolean;
  /** How many more generations this process takes, on all its queues. */
  freeSlots(): number;
  /**
   * Whether other workers have slots enough. Then this one takes only jobs that they leave for a
   * moment, so that few workers have much to do: frames for the same ingress share a message.
   */
  isReserve(): boolean;
  take(slot: JobSlot): void;
  onError(error: Error): void;
}

/**
 * `redis` is a connection of its own for the purpose `patient`; the worker disconnects it when it
 * closes. Rejects when Redis does not answer.
 */
export async function openJobWorker(options: JobWorkerOptions, redis: Redis, keyspace: Keyspace): Promise<JobWorker> {
  const worker = await withStartupTimeLimits(redis, async () => {
    const opened = new Worker(options.name, null, {
      connection: redis,
      prefix: keyspace.queuePrefix(options.name),
      autorun: false,
      lockDuration: jobLockMs,
      stalledInterval: jobLockMs,
      maxStalledCount: 0,
    });
    opened.on("error", options.onError);
    await opened.waitUntilReady();
    return opened;
  });
  restoreTimeLimits(redis, await blockingOptionsOf(worker));
  await worker.startStalledCheckTimer();
  return new BullmqJobWorker(options, worker, redis);
}

class BullmqJobWorker implements JobWorker {
  readonly name: string;
  readonly capacity: number;
  readonly #options: JobWorkerOptions;
  readonly #worker: Worker;
  readonly #redis: Redis;
  readonly #fetcher: JobFetcher;
  #usedSlots = 0;
  #fetches = 0;
  /** As many fetches at a time as the queue has brought jobs for. */
  #fetchesWorthwhile = 1;
  /** No job waits on the queue, so the next fetch blocks. */
  #isDrained = false;
  #isStopped = true;
  #retry: NodeJS.Timeout | undefined;
  #onLastFetch: (() => void) | undefined;

  constructor(options: JobWorkerOptions, worker: Worker, redis: Redis) {
    this.name = options.name;
    this.capacity = options.capacity;
    this.#options = options;
    this.#worker = worker;
    this.#redis = redis;
    this.#fetcher = new JobFetcher(worker, redis);
  }

  get usedSlots(): number {
    return this.#usedSlots;
  }

  start(): void {
    this.#isStopped = false;
    this.#pump();
  }

  resume(): void {
    if (!this.#isStopped) this.#pump();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#retry);
    await this.#worker.pause(true);
    await this.#fetcher.interrupt();
    await new Promise<void>((resolve) => {
      const timeout = setTimeout(resolve, fetchesStopMs);
      this.#onLastFetch = () => {
        clearTimeout(timeout);
        resolve();
      };
      this.#pump();
    });
  }

  async close(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#retry);
    await this.#worker.close(true);
    this.#redis.disconnect();
  }

  get #mayServe(): boolean {
    return this.#options.isReady() && !this.#options.isPaused();
  }

  get #freeSlots(): number {
    return Math.min(this.capacity - this.#usedSlots, this.#options.freeSlots());
  }

  /** How many generations a fetch brings is unknown until it returns. */
  get #mayFetch(): boolean {
    return this.#fetches === 0 ? this.#freeSlots > 0 : (this.#fetches + 1) * generationsPerJobMax <= this.#freeSlots;
  }

  #pump(): void {
    if (this.#isStopped) {
      if (this.#fetches === 0) this.#onLastFetch?.();
      return;
    }
    if (!this.#mayServe) {
      // A job that was on the queue before a pause still is, and the marker of a later one may be
      // gone.
      if (this.#options.isPaused()) this.#isDrained = false;
      this.#pumpAfter(fetchRetryMs);
      return;
    }
    if (this.#isDrained && this.#options.isReserve()) {
      if (this.#fetches === 0) this.#pumpAfter(reserveFetchMs, { asksDrainedQueue: true });
      return;
    }
    while (this.#mayFetch && this.#fetches < this.#fetchesWorthwhile && (this.#fetches === 0 || !this.#isDrained))
      void this.#fetch();
  }

  #pumpAfter(ms: number, { asksDrainedQueue = false } = {}): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      if (asksDrainedQueue) this.#isDrained = false;
      this.#pump();
    }, ms);
  }

  async #fetch(): Promise<void> {
    this.#fetches++;
    const blocks = this.#isDrained;
    let job: Job | undefined;
    let isQuiet: Promise<boolean> | false = false;
    try {
      const isWoken = blocks && (await this.#fetcher.waitForJob(fetchWaitSeconds, this.#options.onError));
      if ((!this.#isStopped || isWoken) && !this.#options.isPaused()) {
        const next = this.#fetcher.next();
        isQuiet = blocks && this.#nothingWaits();
        job = await next;
      }
    } catch (error) {
      this.#fetchFailed(error as Error);
      return;
    }
    if (job !== undefined) this.#take(job);
    this.#fetchEnded(job !== undefined, job === undefined || (await isQuiet));
  }

  /**
   * Sent after a fetch of the same turn of the event loop, so that it sees the queue without that
   * job.
   */
  async #nothingWaits(): Promise<boolean> {
    await afterThisTurn();
    return this.#fetcher.quieten().catch(() => false);
  }

  #fetchEnded(hasJob: boolean, isDrained: boolean): void {
    this.#fetches--;
    this.#fetchesWorthwhile = !hasJob || this.#isDrained ? 1 : Math.min(fetchesMax, this.#fetchesWorthwhile + 1);
    this.#isDrained = isDrained;
    this.#pump();
  }

  /** The outcome of the fetch is unknown, and the marker that woke it is gone. */
  #fetchFailed(error: Error): void {
    this.#fetches--;
    this.#isDrained = false;
    if (this.#isStopped) {
      this.#pump();
      return;
    }
    this.#options.onError(error);
    this.#pumpAfter(fetchRetryMs);
  }

  #take(job: Job): void {
    // The worker of an abandoned job died. Its owner has started another attempt long ago.
    const generations = this.#fetcher.isAbandoned(job) ? [] : this.#validGenerationsOf(job);
    if (generations.length === 0) {
      this.#finish(job);
      return;
    }
    let pending = generations.length;
    this.#usedSlots += pending;
    // Without the limit of the process, which is low while the event loop is busy: jobs of one
    // generation each would keep it busy.
    const freeSlots = Math.max(0, this.capacity - this.#usedSlots);
    for (const generation of generations)
      this.#options.take({
        queue: this.name,
        job: generation,
        freeSlots,
        dispatched: () => {
          if (--pending === 0) this.#finish(job);
        },
        release: () => {
          this.#usedSlots--;
          this.#pump();
        },
      });
  }

  #validGenerationsOf({ id, data }: Job) {
    const generations = generationsIn(data);
    if (generations.length < sizeOf(data))
      this.#options.onError(
        new Error(`the job ${id} has generations that are not valid; they were removed from the queue`),
      );
    return generations;
  }

  /** Completes the job, and fetches the next one in the same step if there is capacity. */
  #finish(job: Job): void {
    if (this.#isStopped || this.#isDrained || !this.#mayFetch || !this.#mayServe) {
      this.#fetcher.complete(job).catch(this.#options.onError);
      return;
    }
    this.#fetches++;
    this.#fetcher.next(job).then(
      (next) => {
        if (next !== undefined) this.#take(next);
        this.#fetchEnded(next !== undefined, next === undefined);
      },
      (error) => this.#fetchFailed(error),
    );
  }
}
