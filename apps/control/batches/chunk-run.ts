/**
 * Runs the lines of a chunk that have no result yet, and stores their results: first in segments,
 * as they come, at the end in the order of the lines. A line whose result is stored never runs
 * again.
 */
import { setTimeout as delay } from "node:timers/promises";
import type { Clock } from "#service/clock.ts";
import { linePauseMs, orderedBytesMax, segmentBytesMax, segmentEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import {
  addSegment,
  type Batch,
  type BatchProgress,
  type Chunk,
  completeChunk,
  keepSegments,
  type LineCounts,
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
import type { SendLine } from "./line-sender.ts";
import type { LineSlots } from "./line-slots.ts";
import { type LineAttempts, type LineVerdict, pauseMsOf, verdictOf } from "./line-verdict.ts";
import type { BatchObjects } from "./ports.ts";

export interface ChunkRunDeps {
  database: Database;
  objects: BatchObjects;
  send: SendLine;
  slots: LineSlots;
  clock: Clock;
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
  pause: BatchPause;
}

/** The run has lost its chunk, or the process stops. */
class RunEnded extends Error {}

export class ChunkRun {
  readonly #deps: ChunkRunDeps;
  readonly #source: ChunkSource;
  readonly #draining = new AbortController();
  readonly #ending = new AbortController();
  #progress: BatchProgress;
  #results: LineResult[] = [];
  #resultBytes = 0;
  #counts = noCounts();
  #segments: string[];
  #flushed: Promise<void> = Promise.resolve();
  #flushTimer: NodeJS.Timeout | undefined;
  /** Lines that have neither begun nor ended. */
  waitingLines = 0;

  constructor(deps: ChunkRunDeps, source: ChunkSource) {
    this.#deps = deps;
    this.#source = source;
    this.#progress = source.batch;
    this.#segments = [...source.chunk.segments];
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
    const stored = await this.#storedPlaces();
    this.waitingLines = chunk.lines - stored.size;
    const running = new Set<Promise<void>>();
    const failures: unknown[] = [];
    const failed = (error: unknown) => void failures.push(error);
    try {
      for (const [place, line] of lines.entries()) {
        if (stored.has(place)) continue;
        const reason = input === undefined ? "lost" : await this.#begin();
        if (--this.waitingLines === 0) this.#deps.wake();
        const one = (
          reason === undefined ? this.#runLine(place, line) : this.#add(place, line, { kind: "unanswered", reason })
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
    if (failure instanceof RunEnded) return;
    if (failure !== undefined) throw failure;
    await this.#complete(batch, chunk);
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
  async #begin(earliest = Number.NEGATIVE_INFINITY): Promise<UnansweredReason | undefined> {
    const { pause } = this.#source;
    const { slots, clock } = this.#deps;
    const { signal } = this.#draining;
    for (;;) {
      signal.throwIfAborted();
      const reason = this.#unansweredReason();
      if (reason !== undefined) return reason;
      const waitMs = Math.max(pause.until, earliest) - clock.now();
      if (waitMs > 0) {
        await delay(Math.min(waitMs, linePauseMs), undefined, { signal }).catch(() => undefined);
        continue;
      }
      await slots.take();
      const mayBegin = !signal.aborted && pause.until <= clock.now() && this.#unansweredReason() === undefined;
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
  async #runLine(place: number, line: ChunkLine): Promise<void> {
    const { pause, batch } = this.#source;
    const { slots, clock, database } = this.#deps;
    const attempts: LineAttempts = { failures: 0, breaks: 0, waits: 0 };
    for (;;) {
      const verdict = await this.#send(place, line, attempts);
      if (verdict.kind === "result") {
        if (verdict.stops !== undefined) pause.stopReason = verdict.stops;
        slots.answered();
      }
      const until = clock.now() + ("pauseMs" in verdict ? verdict.pauseMs : 0);
      if ("concerns" in verdict && verdict.concerns === "batch") pause.until = Math.max(pause.until, until);
      if ("isBusy" in verdict && verdict.isBusy) slots.reduce();
      // Only now, so that the next line knows all this.
      slots.free();
      if (verdict.kind === "unanswered") return await this.#add(place, line, verdict);
      if (verdict.kind === "result") {
        await this.#add(place, line, { ...verdict.answer, kind: "answered" });
        const { stops } = verdict;
        if (stops !== undefined) await this.#stored(() => stopBatch(database, batch.id, stops));
        return;
      }
      attempts[verdict.kind]++;
      this.waitingLines++;
      const reason = await this.#begin(until);
      this.waitingLines--;
      if (reason !== undefined) return await this.#add(place, line, { kind: "unanswered", reason });
    }
  }

  async #send(place: number, line: ChunkLine, attempts: LineAttempts): Promise<LineVerdict> {
    const { chunk, batch, keyHash } = this.#source;
    const { signal } = this.#ending;
    const request = {
      keyHash,
      batch: batch.id,
      path: batch.endpoint,
      body: line.body,
      generationId: `gen_${lineIdOf(batch.id, chunk.first_line + place)}`,
      receivedAt: chunk.started_at?.getTime() ?? 0,
      sends: (chunk.runs - 1) * sendsPerRun + Math.min(attempts.failures + attempts.breaks, sendsPerRun - 1),
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
    this.#results.push({ place, kind, bytes });
    this.#resultBytes += bytes.length;
    this.#counts[countOf(outcome)]++;
    this.#flushTimer ??= setTimeout(() => void this.#flush().catch(() => this.end()), segmentEveryMs);
    if (this.#resultBytes >= segmentBytesMax) await this.#flush();
  }

  /** Stores the results so far. */
  #flush(): Promise<void> {
    this.#flushed = this.#flushed.then(async () => {
      clearTimeout(this.#flushTimer);
      this.#flushTimer = undefined;
      if (this.#results.length === 0) return;
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
      if (!isAdded) throw new RunEnded();
      this.#segments.push(segment);
    });
    return this.#flushed;
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

  /**
   * Segments that runs before this one may have written, but not added, before they were killed:
   * the next one of theirs, and those in order.
   */
  #abandonedSegments(orderedCount: number): string[] {
    const runOf = (segment: string) => Number.parseInt(segment, 10);
    return Array.from({ length: this.#source.chunk.runs - 1 }, (_, index) => index + 1).flatMap((run) => [
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
