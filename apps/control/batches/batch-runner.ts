/**
 * Runs the batches of all accounts: checks their inputs, runs their lines and ends them. Several
 * control processes share the work by leases in the database.
 */
import type { Logger } from "pino";
import { PeriodicTask } from "#service/periodic-task.ts";
import {
  batchDelayMsMax,
  batchEveryMs,
  batchesSweptEveryMs,
  batchRenewEveryMs,
  batchYieldEveryMs,
  chunksRunningMax,
  lineDrainMs,
} from "../bounds.ts";
import { takeFile } from "./batch-intake.ts";
import { endBatch, sweepBatches } from "./batch-results.ts";
import {
  type Batch,
  claimBatch,
  claimChunk,
  finishBatches,
  releaseChunks,
  renewBatches,
  renewChunks,
} from "./batch-rows.ts";
import { type BatchPause, ChunkRun } from "./chunk-run.ts";
import type { BatchContext } from "./context.ts";
import type { SendLine } from "./line-sender.ts";
import { LineSlots } from "./line-slots.ts";
import type { BatchState } from "./state.ts";
import type { VendorBatches } from "./vendor-batch.ts";

export interface BatchRunnerOptions extends BatchContext {
  send: SendLine;
  vendors: VendorBatches;
  /** Lines that this process has under way at most. */
  concurrency: number;
  /** How late ingresses and workers do what is due: milliseconds, the 99th percentile. */
  delayMs(): Promise<number>;
  log: Logger;
}

/** The share of lines that goes on where processes are late. */
const yieldShare = 0.7;
/** The share of all lines that may run that always does. */
const leastShare = 1 / 8;

export class BatchRunner {
  readonly #options: BatchRunnerOptions;
  readonly #slots: LineSlots;
  readonly #runs = new Map<ChunkRun, Promise<void>>();
  readonly #pauses = new Map<string, BatchPause>();
  readonly #batches = new Map<Batch, Promise<void>>();
  readonly #tasks: PeriodicTask[];
  readonly #main: PeriodicTask;
  /** Vendors' batches that have left lines unanswered, for metrics. */
  vendorFailures = 0;
  #isClosing = false;
  #isWoken = false;

  constructor(options: BatchRunnerOptions) {
    this.#options = options;
    this.#slots = new LineSlots(options.concurrency, options.clock);
    const { log } = options;
    const task = { log, level: "warn", works: "batches run again" } as const;
    this.#main = new PeriodicTask({
      ...task,
      everyMs: batchEveryMs,
      run: () => this.#work(),
      failed: "batches could not be run",
    });
    this.#tasks = [
      this.#main,
      new PeriodicTask({
        ...task,
        everyMs: batchRenewEveryMs,
        run: () => this.#renew(),
        failed: "the leases of batches could not be renewed",
      }),
      new PeriodicTask({
        ...task,
        everyMs: batchesSweptEveryMs,
        run: () => sweepBatches(options),
        failed: "outdated batches could not be deleted",
      }),
      new PeriodicTask({
        ...task,
        everyMs: batchYieldEveryMs,
        run: () => this.#yield(),
        failed: "the delays of processes could not be read",
      }),
    ];
  }

  /** The number of lines under way, for status and metrics. */
  get linesRunning(): number {
    return this.#slots.taken;
  }

  /** There is more to do: a batch was created, or lines are missing. */
  readonly wake = (): void => {
    this.#isWoken = true;
    if (!this.#isClosing) void this.#main.run();
  };

  /** Lets running lines end, if they do so in time. */
  async close(): Promise<void> {
    this.#isClosing = true;
    for (const task of this.#tasks) task.close();
    for (const run of this.#runs.keys()) run.drain();
    const timer = setTimeout(() => {
      for (const run of this.#runs.keys()) run.end();
    }, lineDrainMs);
    const chunks = [...this.#runs.keys()].map(({ chunk }) => chunk);
    // The task first: it may be taking a batch.
    await this.#main.idle();
    await Promise.all([...this.#runs.values(), ...this.#batches.values()]);
    clearTimeout(timer);
    await releaseChunks(this.#options.database, chunks).catch(() => undefined);
  }

  async #work(): Promise<void> {
    const { database, clock } = this.#options;
    do {
      this.#isWoken = false;
      await this.#takeBatch(["validating"], takeFile);
      await this.#takeChunks();
      await finishBatches(database, new Date(clock.epoch()));
      await this.#takeBatch(["finalizing"], endBatch);
    } while (this.#isWoken && !this.#isClosing);
  }

  /** One batch of each state at a time. */
  async #takeBatch(states: BatchState[], work: (context: BatchContext, batch: Batch) => Promise<void>): Promise<void> {
    const isBusy = [...this.#batches.keys()].some(({ state }) => states.includes(state));
    if (this.#isClosing || isBusy) return;
    const batch = await claimBatch(this.#options.database, states);
    if (batch === undefined) return;
    const working = work(this.#options, batch)
      .catch((error) => this.#options.log.error({ err: error, batch: batch.id }, "a batch could not be worked on"))
      .then(() => {
        this.#batches.delete(batch);
        this.wake();
      });
    this.#batches.set(batch, working);
  }

  /** Takes chunks while further lines could begin. */
  async #takeChunks(): Promise<void> {
    while (!this.#isClosing && this.#runs.size < chunksRunningMax && this.#needsLines()) {
      const now = this.#options.clock.now();
      for (const [id, { until }] of this.#pauses)
        if (until <= now && ![...this.#runs.keys()].some(({ chunk }) => chunk.batch_id === id)) this.#pauses.delete(id);
      const paused = [...this.#pauses].filter(([, { until }]) => until > now).map(([id]) => id);
      const claim = await claimChunk(this.#options.database, paused, new Date(this.#options.clock.epoch()));
      if (claim === undefined) return;
      if (this.#isClosing) return await releaseChunks(this.#options.database, [claim.chunk]);
      const pause = this.#pauses.get(claim.batch.id) ?? { until: Number.NEGATIVE_INFINITY };
      this.#pauses.set(claim.batch.id, pause);
      const run = new ChunkRun(
        { ...this.#options, slots: this.#slots, wake: this.wake, vendorFailed: () => this.vendorFailures++ },
        { ...claim, pause },
      );
      const running = run
        .run()
        .catch((error) =>
          this.#options.log.error({ err: error, batch: claim.batch.id }, "lines of a batch could not be run"),
        )
        .then(() => {
          this.#runs.delete(run);
          this.wake();
        });
      this.#runs.set(run, running);
    }
  }

  /**
   * Whether the lines of running chunks do not fill the slots. Those of a paused batch do not
   * count.
   */
  #needsLines(): boolean {
    const now = this.#options.clock.now();
    const waiting = [...this.#runs.keys()]
      .filter(({ chunk }) => (this.#pauses.get(chunk.batch_id)?.until ?? 0) <= now)
      .reduce((sum, { waitingLines }) => sum + waitingLines, 0);
    return waiting < this.#slots.limit;
  }

  /**
   * Other requests are slow where processes are late, so fewer lines run; some always do, because
   * their time is limited.
   */
  async #yield(): Promise<void> {
    const { concurrency, delayMs } = this.#options;
    if (this.#slots.taken > 0 && (await delayMs()) > batchDelayMsMax)
      this.#slots.reduce(yieldShare, concurrency * leastShare);
  }

  async #renew(): Promise<void> {
    const { database } = this.#options;
    const runs = [...this.#runs.keys()];
    const progress = await renewChunks(
      database,
      runs.map(({ chunk: { batch_id, place, runs: number } }) => ({ batch_id, place, runs: number })),
    );
    for (const [index, run] of runs.entries()) run.follow(progress[index]);
    await renewBatches(database, [...this.#batches.keys()]);
  }
}
