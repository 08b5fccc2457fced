/**
 * Runs the lines of a chunk that have no result yet, and stores their results: first in segments,
 * as they come, at the end in the order of the lines. A line whose result is stored never runs
 * again.
 */
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { Clock } from "#service/clock.ts";
import type { VendorBatchAnswer, VendorBatchCall } from "#service/vendor-batch.ts";
import {
  linePauseMs,
  orderedBytesMax,
  segmentBytesMax,
  segmentEveryMs,
  vendorFindMs,
  vendorReadsMax,
  vendorReserveMs,
  vendorSubmissionsMax,
} from "../bounds.ts";
import type { Database } from "../database/database.ts";
import {
  addSegment,
  type Batch,
  type BatchProgress,
  type Chunk,
  completeChunk,
  hasSegment,
  keepSegments,
  type LineCounts,
  postponeChunk,
  setVendorBatch,
  stopBatch,
} from "./batch-rows.ts";
import {
  type ChunkLine,
  decodeInput,
  decodeResults,
  encodeResults,
  type LineResult,
  lineIdOf,
  objectNames,
  objectsOf,
} from "./chunk-format.ts";
import { isSuccess, type LineOutcome, type UnansweredReason } from "./format.ts";
import { batchFormats } from "./formats.ts";
import type { SendLine, VendorLine } from "./line-sender.ts";
import type { LineSlots } from "./line-slots.ts";
import { type LineAttempts, type LineVerdict, pauseMsOf, verdictOf } from "./line-verdict.ts";
import type { BatchObjects } from "./ports.ts";
import type { VendorBatch, VendorBatches } from "./vendor-batch.ts";

export interface ChunkRunDeps {
  database: Database;
  objects: BatchObjects;
  send: SendLine;
  vendors: VendorBatches;
  slots: LineSlots;
  clock: Clock;
  log: Logger;
  /** Called when a vendor's batch has left lines unanswered. */
  vendorFailed(): void;
  /** Called when no line waits any more. */
  wake(): void;
}

/** The state of a batch that all its chunks in this process share. */
export interface BatchPause {
  /** No line is sent before this time, on the process's clock. */
  until: number;
  /** Why no further line is sent. */
  stopReason?: UnansweredReason;
}

export interface ChunkSource {
  chunk: Chunk;
  batch: Batch;
  keyHash: string;
  /** Neither expired nor revoked when the chunk was taken, nor its account disabled. */
  isKeyLive: boolean;
  pause: BatchPause;
}

/** The run has lost its chunk, or the process stops. */
class RunEnded extends Error {}

export class ChunkRun {
  readonly #deps: ChunkRunDeps;
  readonly #source: ChunkSource;
  readonly #draining = new AbortController();
  readonly #ending = new AbortController();
  /** The lines with results. */
  readonly #done = new Set<number>();
  /** The lines that wait for the vendor's batch, until it has them. */
  #deferred: number[] = [];
  #vendor: VendorBatch | null;
  #progress: BatchProgress;
  #results: LineResult[] = [];
  #resultBytes = 0;
  #counts = noCounts();
  #segments: string[];
  #flushed: Promise<void> = Promise.resolve();
  #flushTimer: NodeJS.Timeout | undefined;
  /** When results were last stored, or the run began. */
  #flushedAt: number;
  /** Lines that have neither begun nor ended. */
  waitingLines = 0;

  constructor(deps: ChunkRunDeps, source: ChunkSource) {
    this.#deps = deps;
    this.#source = source;
    this.#progress = source.batch;
    this.#segments = [...source.chunk.segments];
    this.#vendor = source.chunk.vendor_batch;
    this.#flushedAt = deps.clock.now();
    this.waitingLines = source.chunk.lines;
  }

  get chunk(): Chunk {
    return this.#source.chunk;
  }

  /** Undefined for a run that has lost its chunk: it ends. */
  follow(progress: BatchProgress | undefined): void {
    if (progress === undefined) this.#ending.abort(new RunEnded());
    else this.#progress = progress;
  }

  /** Begins no further line. */
  drain(): void {
    this.#draining.abort(new RunEnded());
  }

  /** Gives up the lines that run. */
  end(): void {
    this.#draining.abort(new RunEnded());
    this.#ending.abort(new RunEnded());
  }

  /** Resolves when the chunk is complete, or the run has ended before. */
  async run(): Promise<void> {
    const { chunk, batch } = this.#source;
    const input = await this.#read(objectNames.input(batch.id, batch.input_run, chunk.place));
    const lines: ChunkLine[] =
      input === undefined
        ? Array.from({ length: chunk.lines }, () => ({ customId: undefined, body: Buffer.alloc(0) }))
        : decodeInput(input);
    for (const place of await this.#storedPlaces()) this.#done.add(place);
    try {
      const waitMs = await this.#runToEnd(lines, input === undefined);
      await this.#flush();
      if (waitMs === undefined) await this.#complete(batch, chunk);
      else await this.#postpone(waitMs);
    } catch (error) {
      if (!(error instanceof RunEnded)) throw error;
    }
  }

  /** Resolves to how long the chunk waits for its vendor; undefined once all lines have results. */
  async #runToEnd(lines: readonly ChunkLine[], isLost: boolean): Promise<number | undefined> {
    const { batch, chunk } = this.#source;
    const name = `${batch.id}-${chunk.place}-${chunk.runs}`;
    for (;;) {
      const vendor = this.#vendor;
      if (vendor !== null && !vendor.isOver) {
        const waitMs = await this.#followVendor(vendor, lines);
        if (waitMs !== undefined) return waitMs;
        continue;
      }
      const all = lines.keys();
      const mayDefer =
        vendor === null && !isLost && this.#leftMs > 2 * vendorReserveMs && this.#deps.vendors.arePossible();
      await this.#runLines(lines, all, mayDefer ? { name } : undefined, isLost ? "lost" : undefined);
      if (this.#deferred.length === 0) return undefined;
      await this.#deferTo(name);
    }
  }

  /** Runs these lines, as far as they have no result. Rejects when one cannot be run now. */
  async #runLines(
    lines: readonly ChunkLine[],
    places: Iterable<number>,
    vendorLine: Omit<VendorLine, "place"> | undefined,
    lostReason?: UnansweredReason,
  ): Promise<void> {
    const left = [...places].filter((place) => !this.#done.has(place));
    const isAnswered = vendorLine?.answeredBy !== undefined;
    this.waitingLines = left.length;
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    const failed = (error: unknown) => void failures.push(error);
    try {
      for (const place of left) {
        const line = lines[place] as ChunkLine;
        const reason = lostReason ?? (await this.#begin({ isAnswered }));
        if (--this.waitingLines === 0) this.#deps.wake();
        const one = (
          reason === undefined
            ? this.#runLine(place, line, vendorLine && { ...vendorLine, place })
            : this.#add(place, line, { kind: "unanswered", reason })
        ).catch(failed);
        running.add(one);
        void one.then(() => running.delete(one));
        if (reason !== undefined) await one;
        if (failures.length > 0) break;
      }
    } catch (error) {
      failed(error);
    }
    await Promise.all(running);
    await this.#flush().catch(failed);
    const [failure] = failures;
    if (failure !== undefined) throw failure;
  }

  /** The lines with a stored result. A line whose result the object store has lost runs again. */
  async #storedPlaces(): Promise<Set<number>> {
    const { chunk } = this.#source;
    const places = new Set<number>();
    const segments: string[] = [];
    for (const segment of this.#segments) {
      const results = await this.#read(objectNames.segment(chunk.batch_id, chunk.place, segment));
      if (results === undefined) continue;
      segments.push(segment);
      for (const { place } of decodeResults(results)) places.add(place);
    }
    if (segments.length < this.#segments.length) {
      const isKept = await this.#stored(() => keepSegments(this.#deps.database, chunk, segments, places.size));
      if (!isKept) throw new RunEnded();
      this.#segments = segments;
    }
    return places;
  }

  /**
   * Waits for the end of a pause and for a slot. Resolves to why the line is not executed;
   * undefined if it has a slot now. `earliest` is on the process's clock.
   */
  async #begin({
    earliest = Number.NEGATIVE_INFINITY,
    isAnswered = false,
  }: {
    earliest?: number;
    /** The vendor has answered it, so it is executed. */
    isAnswered?: boolean;
  }): Promise<UnansweredReason | undefined> {
    const { pause } = this.#source;
    const { slots, clock } = this.#deps;
    const { signal } = this.#draining;
    for (;;) {
      signal.throwIfAborted();
      const reason = isAnswered ? undefined : this.#unansweredReason();
      if (reason !== undefined) return reason;
      const waitMs = Math.max(pause.until, earliest) - clock.now();
      if (waitMs > 0) {
        await delay(Math.min(waitMs, linePauseMs), undefined, { signal }).catch(() => undefined);
        continue;
      }
      await slots.take();
      const isDue = !signal.aborted && pause.until <= clock.now();
      const mayBegin = isDue && (isAnswered || this.#unansweredReason() === undefined);
      if (mayBegin) return undefined;
      slots.free();
    }
  }

  /** Why lines that have not begun are not executed. */
  #unansweredReason(): UnansweredReason | undefined {
    const { state, expires_at, stop_reason } = this.#progress;
    if (state === "cancelling") return "cancelled";
    const stopReason = this.#source.pause.stopReason ?? stop_reason;
    if (stopReason !== null) return stopReason;
    return expires_at.getTime() <= this.#deps.clock.epoch() ? "expired" : undefined;
  }

  /** Runs a line that has a slot until it has a result. */
  async #runLine(place: number, line: ChunkLine, vendorLine: VendorLine | undefined): Promise<void> {
    const { pause, batch } = this.#source;
    const { slots, clock, database } = this.#deps;
    const attempts: LineAttempts = { failures: 0, breaks: 0, waits: 0 };
    for (;;) {
      const verdict = await this.#send(place, line, { attempts, vendorLine });
      if (verdict.kind === "result") {
        if (verdict.stops !== undefined) pause.stopReason = verdict.stops;
        slots.answered();
      }
      const until = clock.now() + ("pauseMs" in verdict ? verdict.pauseMs : 0);
      if ("concerns" in verdict && verdict.concerns === "batch") pause.until = Math.max(pause.until, until);
      if ("isBusy" in verdict && verdict.isBusy) slots.reduce();
      // Only now, so that the next line knows all this.
      slots.free();
      if (verdict.kind === "deferred") return void this.#deferred.push(place);
      if (verdict.kind === "unanswered") return await this.#add(place, line, verdict);
      if (verdict.kind === "result") {
        await this.#add(place, line, { ...verdict.answer, kind: "answered" });
        const { stops } = verdict;
        if (stops !== undefined) await this.#stored(() => stopBatch(database, batch.id, stops));
        return;
      }
      attempts[verdict.kind]++;
      this.waitingLines++;
      const reason = await this.#begin({ earliest: until, isAnswered: vendorLine?.answeredBy !== undefined });
      this.waitingLines--;
      if (reason !== undefined) return await this.#add(place, line, { kind: "unanswered", reason });
    }
  }

  async #send(
    place: number,
    line: ChunkLine,
    { attempts, vendorLine }: { attempts: LineAttempts; vendorLine: VendorLine | undefined },
  ): Promise<LineVerdict> {
    const { chunk, batch, keyHash } = this.#source;
    const { signal } = this.#ending;
    const runs = chunk.runs - 1 - (this.#vendor?.waits ?? 0);
    const request = {
      keyHash,
      batch: batch.id,
      path: batch.endpoint,
      body: line.body,
      generationId: `gen_${lineIdOf(batch.id, chunk.first_line + place)}`,
      receivedAt: chunk.started_at?.getTime() ?? 0,
      sends: runs * sendsPerRun + Math.min(attempts.failures + attempts.breaks, sendsPerRun - 1),
      vendorLine,
    };
    try {
      return verdictOf(await this.#deps.send(request, signal), attempts);
    } catch (error) {
      this.#deps.slots.free();
      signal.throwIfAborted();
      throw error;
    }
  }

  async #add(place: number, line: ChunkLine, outcome: LineOutcome): Promise<void> {
    const { batch, chunk } = this.#source;
    const format = batchFormats[batch.dialect];
    const bytes = format.write(line, lineIdOf(batch.id, chunk.first_line + place), outcome);
    const kind = format.hasErrorFile && !isSuccess(outcome) ? "error" : "output";
    this.#done.add(place);
    this.#results.push({ place, kind, bytes });
    this.#resultBytes += bytes.length;
    this.#counts[countOf(outcome)]++;
    this.#flushTimer ??= setTimeout(() => void this.#flush().catch(() => this.end()), this.#flushDelayMs);
    if (this.#resultBytes >= segmentBytesMax) await this.#flush();
  }

  /** A result that comes alone is stored at once; of several, those of an interval together. */
  get #flushDelayMs(): number {
    return Math.max(0, this.#flushedAt + segmentEveryMs - this.#deps.clock.now());
  }

  /** Stores the results so far. */
  #flush(): Promise<void> {
    this.#flushed = this.#flushed.then(async () => {
      clearTimeout(this.#flushTimer);
      this.#flushTimer = undefined;
      if (this.#results.length === 0) return;
      this.#flushedAt = this.#deps.clock.now();
      const { chunk, batch } = this.#source;
      const [results, counts] = [this.#results, this.#counts];
      this.#results = [];
      this.#resultBytes = 0;
      this.#counts = noCounts();
      const segment = `${chunk.runs}-${this.#segments.length}`;
      await this.#stored(() =>
        this.#deps.objects.write(
          batch.account,
          objectNames.segment(batch.id, chunk.place, segment),
          encodeResults(results),
        ),
      );
      const isAdded = await this.#stored(() => addSegment(this.#deps.database, chunk, segment, counts));
      if (!isAdded) {
        await this.#deleteUnlisted(segment);
        throw new RunEnded();
      }
      this.#segments.push(segment);
    });
    return this.#flushed;
  }

  /** Deletes a segment that its chunk does not have: the run had lost it. */
  async #deleteUnlisted(segment: string): Promise<void> {
    const { objects, database } = this.#deps;
    const { batch, chunk } = this.#source;
    if (await hasSegment(database, chunk, segment)) return;
    await objects.delete(batch.account, [objectNames.segment(batch.id, chunk.place, segment)]);
  }

  /** Repeats a change while the storage is away: its lines would run again otherwise. */
  async #stored<Result>(change: () => Promise<Result>): Promise<Result> {
    for (let attempt = 0; ; attempt++)
      try {
        return await change();
      } catch (error) {
        if (this.#ending.signal.aborted) throw error;
        await delay(pauseMsOf(attempt), undefined, { signal: this.#ending.signal }).catch(() => undefined);
      }
  }

  /** Puts the results in order, as many bytes at once as memory is meant for. */
  async #complete(batch: Batch, chunk: Chunk): Promise<void> {
    const { objects, database } = this.#deps;
    const { account, id } = batch;
    const names: string[] = [];
    for await (const results of this.#ordered()) {
      const name = `${chunk.runs}-ordered-${names.length}`;
      await this.#stored(() => objects.write(account, objectNames.segment(id, chunk.place, name), results));
      names.push(name);
    }
    const outdated = [...this.#segments, ...this.#abandonedSegments(names.length)];
    if (!(await this.#stored(() => completeChunk(database, chunk, names, outdated)))) return;
    await objects.delete(account, objectsOf(batch, { ...chunk, segments: outdated })).catch(() => undefined);
  }

  /** The time until the end of the completion window. */
  get #leftMs(): number {
    return this.#progress.expires_at.getTime() - this.#deps.clock.epoch();
  }

  /** The vendor's batch must not go on. */
  get #endsVendor(): boolean {
    const { isKeyLive } = this.#source;
    return !isKeyLive || this.#unansweredReason() !== undefined || this.#leftMs < vendorReserveMs;
  }

  /** There is time for the vendor, and then for lines that run one by one. */
  get #mayWait(): boolean {
    return this.#leftMs > vendorReserveMs / 2;
  }

  /** The lines that the gateway has deferred are a batch of the vendor. */
  async #deferTo(name: string): Promise<void> {
    const places = this.#deferred;
    this.#deferred = [];
    const target = await this.#stored(() => this.#deps.vendors.targetOf(name));
    await this.#setVendor({
      ...{ name, places, submissions: 0, submittedAt: 0, id: null, waits: 0, lastWaitingRun: 0 },
      target: target ?? { upstream: "", credential: null, path: "", model: "", headers: {} },
      isOver: target === undefined,
    });
  }

  /**
   * The next step of the vendor's batch. Resolves to how long it is waited for; undefined if there
   * is more to do now.
   */
  async #followVendor(vendor: VendorBatch, lines: readonly ChunkLine[]): Promise<number | undefined> {
    if (vendor.id !== null) return this.#readVendor(vendor, vendor.id, lines);
    return vendor.submissions === 0 ? this.#submit(vendor) : this.#find(vendor);
  }

  async #submit(vendor: VendorBatch): Promise<number | undefined> {
    const { vendors, clock } = this.#deps;
    const submitted = { ...vendor, submissions: vendor.submissions + 1, submittedAt: clock.epoch() };
    // First, so that it is looked for if this process or the worker ends now.
    await this.#setVendor(submitted);
    const answer = await this.#callVendor({ ...vendor, action: "submit" });
    if (answer.kind === "refused") await this.#giveUp(submitted, answer.reason);
    if (answer.kind === "submitted") await this.#setVendor({ ...submitted, id: answer.id });
    if (answer.kind === "refused") return undefined;
    return answer.kind === "submitted" ? vendors.pollMs : vendorFindMs;
  }

  /** Looks for a batch whose submission had no result. */
  async #find(vendor: VendorBatch): Promise<number | undefined> {
    const waitMs = vendor.submittedAt + vendorFindMs - this.#deps.clock.epoch();
    if (waitMs > 0) return waitMs;
    const answer = await this.#callVendor({ ...vendor, action: "find" });
    const isVain = !this.#mayWait || (answer.kind === "unclear" && this.#endsVendor);
    if (answer.kind === "submitted") await this.#setVendor({ ...vendor, id: answer.id });
    else if (answer.kind === "absent" && vendor.submissions < vendorSubmissionsMax) return this.#submit(vendor);
    else if (answer.kind === "absent" || answer.kind === "refused" || isVain)
      await this.#giveUp(vendor, "reason" in answer ? answer.reason : `it is ${answer.kind} at the vendor`);
    else return this.#deps.vendors.pollMs;
    return undefined;
  }

  /** Takes the vendor's answers once its batch is over. */
  async #readVendor(vendor: VendorBatch, id: string, lines: readonly ChunkLine[]): Promise<number | undefined> {
    const {
      name,
      target: { upstream, model },
    } = vendor;
    const { pollMs } = this.#deps.vendors;
    for (;;) {
      const places = vendor.places.filter((place) => !this.#done.has(place));
      const answer = await this.#callVendor({ ...vendor, action: "read", id, places, cancels: this.#endsVendor });
      const failedReads = (this.#vendor?.failedReads ?? 0) + 1;
      const isUnreadable = answer.kind === "unknown" && answer.isOver === true;
      const isOpen = answer.kind === "running" || answer.kind === "unknown";
      if (isOpen && this.#mayWait && !(isUnreadable && failedReads >= vendorReadsMax)) {
        if (!isUnreadable) return pollMs;
        await this.#setVendor({ ...vendor, failedReads });
        return pollMs * 2 ** failedReads;
      }
      if (answer.kind === "ended") {
        await this.#runLines(lines, answer.places, { name, answeredBy: { upstream, model } });
        if (!answer.isWhole && answer.places.length > 0) {
          await this.#setVendor({ ...vendor, failedReads: 0 });
          continue;
        }
      }
      // Files that are left here are deleted by the vendor in time.
      await this.#callVendor({ ...vendor, action: "delete", id });
      if ("reason" in answer && answer.reason !== undefined) await this.#giveUp(vendor, answer.reason);
      else await this.#setVendor({ ...vendor, isOver: true });
      return undefined;
    }
  }

  /** The lines that the vendor has not answered run one by one. */
  async #giveUp(vendor: VendorBatch, reason: string): Promise<void> {
    const { log, vendorFailed } = this.#deps;
    const { batch, chunk } = this.#source;
    const { upstream } = vendor.target;
    log.warn({ batch: batch.id, chunk: chunk.place, upstream, reason }, "a vendor's batch has left lines unanswered");
    vendorFailed();
    await this.#setVendor({ ...vendor, isOver: true });
  }

  /** Rejects when the run ends. */
  async #callVendor(call: VendorBatchCall): Promise<VendorBatchAnswer> {
    const { signal } = this.#draining;
    signal.throwIfAborted();
    const over = new AbortController();
    const ended = once(signal, "abort", { signal: over.signal }).then(() => Promise.reject(signal.reason));
    const answer = this.#deps.vendors.call(call).catch(
      (error): VendorBatchAnswer => ({
        kind: "unknown",
        reason: String((error as { code?: unknown }).code ?? "Redis is away"),
      }),
    );
    return Promise.race([answer, ended]).finally(() => over.abort());
  }

  async #setVendor(vendor: VendorBatch): Promise<void> {
    if (!(await this.#stored(() => setVendorBatch(this.#deps.database, this.chunk, vendor)))) throw new RunEnded();
    this.#vendor = vendor;
  }

  /** Gives the chunk back until its vendor is asked again. */
  async #postpone(waitMs: number): Promise<void> {
    const { database, objects } = this.#deps;
    const { batch, chunk } = this.#source;
    const segments = this.#abandonedSegments(0);
    await objects.delete(
      batch.account,
      segments.map((segment) => objectNames.segment(batch.id, chunk.place, segment)),
    );
    if (this.#vendor !== null)
      await this.#setVendor({ ...this.#vendor, waits: this.#vendor.waits + 1, lastWaitingRun: chunk.runs });
    await this.#stored(() => postponeChunk(database, chunk, waitMs));
  }

  /**
   * Segments that runs before this one may have written, but not added, before they were killed:
   * the next one of theirs, and those in order.
   */
  #abandonedSegments(orderedCount: number): string[] {
    const runOf = (segment: string) => Number.parseInt(segment, 10);
    const first = (this.#vendor?.lastWaitingRun ?? 0) + 1;
    const runs = Array.from({ length: Math.max(0, this.#source.chunk.runs - first) }, (_, index) => first + index);
    return runs.flatMap((run) => [
      `${run}-${this.#segments.filter((segment) => runOf(segment) <= run).length}`,
      ...Array.from({ length: orderedCount }, (_, place) => `${run}-ordered-${place}`),
    ]);
  }

  async *#ordered(): AsyncGenerator<Buffer> {
    const sizes = new Map<number, number>();
    for await (const segment of this.#storedSegments())
      for (const { place, bytes } of decodeResults(segment)) sizes.set(place, bytes.length);
    const places = [...sizes.keys()].sort((one, other) => one - other);
    for (let from = 0, to = 0; from < places.length; from = to) {
      for (let bytes = 0; to < places.length && (to === from || bytes <= orderedBytesMax); to++)
        bytes += sizes.get(places[to] as number) ?? 0;
      const window = new Map<number, LineResult | undefined>(places.slice(from, to).map((place) => [place, undefined]));
      for await (const segment of this.#storedSegments())
        for (const result of decodeResults(segment)) if (window.has(result.place)) window.set(result.place, result);
      yield encodeResults([...window.values()].filter((result) => result !== undefined));
    }
  }

  async *#storedSegments(): AsyncGenerator<Buffer> {
    const { chunk } = this.#source;
    for (const segment of this.#segments) {
      const results = await this.#read(objectNames.segment(chunk.batch_id, chunk.place, segment));
      // The next run finds out which ones.
      if (results === undefined) throw new Error("the object store has lost results of a batch");
      yield results;
    }
  }

  /** Undefined for an object that is lost. */
  #read(name: string): Promise<Buffer | undefined> {
    return this.#stored(() => this.#deps.objects.read(this.#source.batch.account, name));
  }
}

/** Sends of one run that have ranks of their own in the ledger. */
const sendsPerRun = 4;

const noCounts = (): LineCounts => ({ succeeded: 0, errored: 0, cancelled: 0, expired: 0 });

const countOf = (outcome: LineOutcome): keyof LineCounts => {
  if (isSuccess(outcome)) return "succeeded";
  return outcome.kind === "unanswered" && (outcome.reason === "cancelled" || outcome.reason === "expired")
    ? outcome.reason
    : "errored";
};
