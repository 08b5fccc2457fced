/**
 * The consumer's end of a queue of BullMQ. A job ends when its owners have bound all its
 * generations, so few jobs are active at a time and no lock is ever renewed. One fetch at a time
 * brings as many jobs as there are slots for, and ends those that are over. While no job waits, it
 * also gives the worker credit for a moment: a job that is added then is sent to the worker at
 * once. One that the worker would not fetch is put back.
 *
 *   stopped ─ start ─▶ fetching ◀─ jobs come ────────────────────────────────┐
 *      ▲                 │ ├─ the queue is empty ─▶ drained: the fetch waits ─┤
 *      │                 │ ├─ drained, and in reserve ─▶ waits to be woken ───┤
 *      │                 │ ├─ above its share ─────────▶ lets others fetch ───┤
 *      │                 │ ├─ not ready, or paused ────▶ tries again later ───┤
 *      │                 │ ├─ no slot is free ─────────▶ resumes on release ──┤
 *      └───── stop ──────┘ └─ Redis fails ─────────────▶ tries again later ───┘
 */
import { setTimeout as delay } from "node:timers/promises";
import { Worker } from "bullmq";
import { openShardedChannel, type ShardedChannel } from "#service/channel.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { type Redis, restoreTimeLimits, withStartupTimeLimits } from "#service/redis.ts";
import {
  completeMs,
  creditMax,
  fetchedJobsMax,
  fetchesStopMs,
  fetchRetryMs,
  fetchWaitSeconds,
  generationsPerJobMax,
  jobLockMs,
  reserveWaitSeconds,
  shareReportFactor,
  yieldMs,
} from "../bounds.ts";
import { decodeJob, type GenerationJob } from "../job.ts";
import type { JobSlot, JobWorker } from "../ports.ts";
import { blockingOptionsOf, JobWait } from "./bullmq-internals.ts";
import { decodeSentJob, type FetchedJob, JobScripts } from "./job-scripts.ts";

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
  /**
   * Whether the event loop has little time left. Then jobs come by fetches alone, which bring
   * several at a time.
   */
  isBusy(): boolean;
  /**
   * How many more generations this worker takes before others do; infinite where it has no share.
   */
  shareLeft(): number;
  /** Learns how much runs now, unless it has just done so or has little itself. Never rejects. */
  refreshShare(): Promise<void>;
  take(slot: JobSlot): void;
  /** Shared by those that share a capacity; by default no other. */
  kept?: KeptSlots;
  /**
   * Slots are free again. By default this worker fetches for them; those that share a capacity take
   * turns, each by `resume`.
   */
  onFree?(): void;
  onError(error: Error): void;
}

/** Slots for the jobs that fetches under way may bring. */
export interface KeptSlots {
  count: number;
}

export interface JobWorkerConnections {
  /** For the purpose `patient`, of the worker alone, which disconnects it when it closes. */
  redis: Redis;
  /** For the purpose `subscribe`. Other channels of the process share it. */
  subscriber: Redis;
}

/** Rejects when Redis does not answer. */
export async function openJobWorker(
  options: JobWorkerOptions,
  { redis, subscriber }: JobWorkerConnections,
  keyspace: Keyspace,
): Promise<JobWorker> {
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
  return new BullmqJobWorker(options, worker, { redis, subscriber });
}

class BullmqJobWorker implements JobWorker {
  readonly name: string;
  readonly capacity: number;
  readonly #options: JobWorkerOptions;
  readonly #worker: Worker;
  readonly #redis: Redis;
  readonly #scripts: JobScripts;
  readonly #wait: JobWait;
  readonly #sentJobs: ShardedChannel;
  readonly #kept: KeptSlots;
  readonly #onFree: () => void;
  #hearsSentJobs = false;
  /** Generations that may come without a fetch, and as of how many the credit is renewed. */
  #credit = 0;
  #renewAt = 0;
  #usedSlots = 0;
  #freedSlots = 0;
  #isFetching = false;
  /** No job waits on the queue, so the next fetch waits for one. */
  #isDrained = false;
  #isStopped = true;
  /** Jobs that are over and still on the queue. */
  #overJobs: string[] = [];
  #retry: NodeJS.Timeout | undefined;
  #completion: NodeJS.Timeout | undefined;
  #onLastFetch: (() => void) | undefined;

  constructor(options: JobWorkerOptions, worker: Worker, { redis, subscriber }: JobWorkerConnections) {
    this.name = options.name;
    this.capacity = options.capacity;
    this.#options = options;
    this.#worker = worker;
    this.#redis = redis;
    this.#kept = options.kept ?? { count: 0 };
    this.#onFree = options.onFree ?? (() => this.#pump());
    this.#scripts = new JobScripts(worker, redis);
    this.#wait = new JobWait(worker);
    this.#sentJobs = openShardedChannel(subscriber, this.#scripts.sentJobsOf(worker.id), (message) =>
      this.#takeSent(decodeSentJob(message.toString())),
    );
  }

  get usedSlots(): number {
    return this.#usedSlots;
  }

  get freedSlots(): number {
    return this.#freedSlots;
  }

  start(): void {
    this.#isStopped = false;
    this.#pump();
    // Without the permission for the channel, every job takes a fetch.
    this.#sentJobs.subscribe().then(() => {
      this.#hearsSentJobs = true;
    }, this.#options.onError);
  }

  resume(): void {
    if (!this.#isStopped) this.#pump();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#retry);
    await this.#worker.pause(true);
    await this.#wait.interrupt();
    await new Promise<void>((resolve) => {
      const timeout = setTimeout(resolve, fetchesStopMs);
      const lastFetch = new Promise<void>((returned) => {
        this.#onLastFetch = returned;
      });
      this.#pump();
      Promise.all([lastFetch, this.#refuseSentJobs()]).then(() => {
        clearTimeout(timeout);
        resolve();
      });
    });
  }

  /**
   * Takes back the credit, with the jobs that are over, and puts back what was sent before. Never
   * rejects.
   */
  async #refuseSentJobs(): Promise<void> {
    await this.#renew();
    await this.#sentJobs.close();
  }

  async close(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#retry);
    clearTimeout(this.#completion);
    await this.#worker.close(true);
    this.#redis.disconnect();
  }

  get #mayServe(): boolean {
    return !this.#isStopped && this.#options.isReady() && !this.#options.isPaused();
  }

  get #freeSlots(): number {
    return Math.min(this.capacity - this.#usedSlots, this.#options.freeSlots());
  }

  /** Free, and for no fetch under way. */
  get #openSlots(): number {
    return this.#freeSlots - this.#kept.count;
  }

  #pump(): void {
    if (this.#isStopped) {
      if (!this.#isFetching) this.#onLastFetch?.();
    } else if (!this.#mayServe) {
      // A job that was on the queue before a pause still is, and the marker of a later one may be
      // gone.
      if (this.#options.isPaused()) this.#isDrained = false;
      this.#pumpAfter(fetchRetryMs);
    } else if (this.#isFetching || this.#openSlots <= 0) return;
    else void this.#fetch();
  }

  #pumpAfter(ms: number): void {
    this.#retry ??= setTimeout(() => {
      this.#retry = undefined;
      this.#pump();
    }, ms);
  }

  async #fetch(): Promise<void> {
    this.#isFetching = true;
    try {
      if (await this.#untilJob()) {
        await this.#options.refreshShare();
        if (this.#options.shareLeft() <= 0) await this.#letOthersFetch();
        await this.#exchange(this.#slotsToFetch);
      }
    } catch (error) {
      // The outcome of the fetch is unknown, and the marker that woke it may be gone.
      this.#isDrained = false;
      if (!this.#isStopped) {
        this.#options.onError(error as Error);
        await delay(fetchRetryMs);
      }
    }
    this.#isFetching = false;
    this.#pump();
  }

  /** Whether a fetch should follow. */
  async #untilJob(): Promise<boolean> {
    if (!this.#isDrained) return !this.#isStopped;
    const { onError } = this.#options;
    const isReserve = this.#options.isReserve();
    const seconds = isReserve && this.#usedSlots > 0 ? reserveWaitSeconds : fetchWaitSeconds;
    if (await this.#wait.untilJob({ seconds, isReserve, onError })) return true;
    // Redis may have failed when jobs were over, and a worker that took the marker may have died
    // before its fetch.
    return !this.#isStopped && (this.#overJobs.length > 0 || (await this.#scripts.hasWaitingJobs()));
  }

  /** Puts the marker back, also for those in reserve, and leaves them the time for a fetch. */
  async #letOthersFetch(): Promise<void> {
    await this.#exchange(0, { wakesReserve: true });
    if (!this.#isDrained) await delay(yieldMs);
  }

  /** For the jobs of a fetch; none if this process may take none: it only puts the marker back. */
  get #slotsToFetch(): number {
    if (!this.#mayServe || this.#openSlots <= 0) return 0;
    return Math.max(1, Math.min(this.#openSlots, this.#options.shareLeft()) - this.#credit);
  }

  /** Half of the slots, so that a fetch has the others while jobs are sent. */
  get #creditMax(): number {
    const { isBusy, isReserve } = this.#options;
    if (!this.#mayServe || !this.#hearsSentJobs || isBusy() || isReserve()) return 0;
    const slots = Math.min(this.#openSlots, this.#options.shareLeft());
    return Math.max(0, Math.min(creditMax, Math.floor(slots / 2)));
  }

  /** Ends the jobs that are over, and takes further ones. */
  async #exchange(slots: number, { wakesReserve = false } = {}): Promise<void> {
    const over = this.#overJobs.splice(0);
    const jobsMax = Math.min(slots, fetchedJobsMax, Math.max(1, Math.floor(slots / generationsPerJobMax)));
    const fetch = { jobsMax, over, wakesReserve, creditMax: this.#creditMax };
    const keptSlots = Math.min(slots, jobsMax * generationsPerJobMax);
    this.#kept.count += keptSlots;
    try {
      const { jobs, isDrained, credit } = await this.#scripts.fetch(this.#worker.id, fetch).catch((error) => {
        this.#overJobs.push(...over);
        throw error;
      });
      this.#isDrained = isDrained;
      this.#credit = credit;
      this.#renewAt = credit / 4;
      for (const job of jobs) this.#take(job);
    } finally {
      this.#kept.count -= keptSlots;
      if (keptSlots > 0) this.#onFree();
    }
  }

  /** Renews the credit before it ends, which takes it back when no slot is free. */
  #takeSent(job: FetchedJob): void {
    if (!this.#mayServe || this.#openSlots <= 0) {
      this.#credit = 0;
      this.#scripts.putBack(this.#worker.id, job.id).catch(this.#options.onError);
      return;
    }
    const usedBefore = this.#usedSlots;
    this.#take(job);
    const left = this.#credit - (this.#usedSlots - usedBefore);
    const isRenewed = this.#credit > 0 && (left <= this.#renewAt || this.#freeSlots <= 0);
    this.#credit = isRenewed ? 0 : left;
    if (isRenewed) void this.#renew();
  }

  #take({ id, data, isAbandoned }: FetchedJob): void {
    // The worker of an abandoned job died. Its owner has started another attempt long ago.
    const generations = isAbandoned ? [] : this.#validGenerationsOf(id, data);
    if (generations.length === 0) {
      this.#jobOver(id);
      return;
    }
    let pending = generations.length;
    this.#usedSlots += pending;
    // Without the limit of the process, which is low while the event loop is busy: jobs of one
    // generation each would keep it busy. The share bounds them, so that one job exceeds it little.
    const slotsOfShare = shareReportFactor * this.#options.shareLeft();
    const freeSlots = Math.max(0, Math.min(this.capacity - this.#usedSlots, slotsOfShare));
    for (const generation of generations)
      this.#options.take({
        queue: this.name,
        job: generation,
        freeSlots,
        dispatched: () => {
          if (--pending === 0) this.#jobOver(id);
        },
        release: () => {
          this.#usedSlots--;
          this.#freedSlots++;
          this.#onFree();
        },
      });
  }

  #validGenerationsOf(id: string, text: string): GenerationJob[] {
    const { generations, isValid } = decodeJob(text);
    if (!isValid)
      this.#options.onError(
        new Error(`the job ${id} has generations that are not valid; they were removed from the queue`),
      );
    return generations;
  }

  /** The next fetch takes the job off the queue; if none comes soon, a script of its own does. */
  #jobOver(id: string): void {
    this.#overJobs.push(id);
    if (this.#isStopped) void this.#renew();
    else
      this.#completion ??= setTimeout(() => {
        this.#completion = undefined;
        if (this.#overJobs.length > 0) void this.#renew();
      }, completeMs);
  }

  /** Ends the jobs that are over, and renews the credit, if any is due. Never rejects. */
  async #renew(): Promise<void> {
    await this.#exchange(0).catch(this.#options.onError);
  }
}
