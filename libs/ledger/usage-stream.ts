/**
 * Writes usage records to the Redis stream that the ledger reads. An entry is a batch of records:
 * the field `r` holds them as lines of JSON. A record may arrive more than once; the ledger counts
 * it once.
 *
 * Redis replicates asynchronously: a server that takes its place may lack what was accepted in the
 * last seconds, so that is sent again then.
 *
 * While Redis is away or the stream is full, records go to a file of this process, and to the
 * stream again later. A record is safe once Redis or the file has it: what has not left dies with
 * the process. A record leaves at once, or `batchMs` after the last ones.
 */

import type { Logger } from "pino";
import { type Clock, systemClock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { OutageLog } from "#service/outage-log.ts";
import { type Redis, runIdsOf } from "#service/redis.ts";
import {
  batchesTogetherMax,
  batchMs,
  batchRecordsMax,
  checkEveryMs,
  pendingRecordsMax,
  sentKeptMax,
  sentKeptMs,
  spoolChunkBytes,
  streamBytesMax,
  unmeasuredBytesMax,
} from "./bounds.ts";
import { Spool } from "./spool.ts";
import { encodeUsageRecord, type UsageRecord } from "./usage-record.ts";

export interface UsageStreamOptions {
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  /** The directory of the file. Files that dead processes left there are sent as well. */
  directory: string;
  log: Logger;
  /** Sends what Redis must have before the records. */
  beforeSend?(): void;
  /** For tests: smaller bounds than those of `bounds.ts`. */
  bounds?: Partial<UsageStreamBounds>;
  clock?: Clock;
}

export interface UsageStreamBounds {
  streamBytesMax: number;
  unmeasuredBytesMax: number;
  pendingRecordsMax: number;
  checkEveryMs: number;
}

export interface UsageStreamCounts {
  /** Records that wait in memory, and bytes that wait in files. */
  readonly pending: number;
  readonly spooledBytes: number;
  /** Records that the stream took. */
  readonly written: number;
  /**
   * Records that were dropped, because too many waited in memory or the process ended while neither
   * Redis nor the file took them.
   */
  readonly lost: number;
}

/**
 * Lines of JSON as bytes: thousands of strings that live for seconds would keep V8's collector
 * busy.
 */
interface SentBatch {
  readonly at: number;
  readonly text: Buffer;
  readonly count: number;
}

export class UsageStream {
  readonly #options: UsageStreamOptions;
  readonly #clock: Clock;
  readonly #bounds: UsageStreamBounds;
  readonly #spool: Spool;
  readonly #outage: OutageLog;
  /** Encoded records. They leave it when Redis or the file has them. */
  #pending: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #checks: NodeJS.Timeout;
  #flushedAt = Number.NEGATIVE_INFINITY;
  #flushing: Promise<void> | undefined;
  #checking: Promise<void> | undefined;
  #writing: Promise<unknown> = Promise.resolve();
  #isFull = false;
  #isClosed = false;
  /** Bytes from files that entered the stream since its size was read. */
  #unmeasuredBytes = 0;
  /** Whether the stream's size was read since the last check began. An idle process reads none. */
  #isSizeKnown = false;
  /** `#written` when the size was read; -1 before the first time. */
  #measuredWritten = -1;
  /** The batches that Redis took in the last seconds, oldest first. */
  #sent: SentBatch[] = [];
  #sentCount = 0;
  /** The servers that took it; undefined until they are known. */
  #servers: string | undefined;
  #written = 0;
  #lost = 0;
  #reportedLost = 0;

  constructor(options: UsageStreamOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#bounds = { streamBytesMax, unmeasuredBytesMax, pendingRecordsMax, checkEveryMs, ...options.bounds };
    this.#spool = new Spool(options.directory, options.clock);
    this.#outage = new OutageLog({
      log: options.log,
      level: "error",
      failed: "usage records wait in memory: neither Redis nor the file takes them",
      works: "usage records leave memory again",
    });
    this.#checks = setInterval(() => this.#check(), this.#bounds.checkEveryMs);
  }

  get counts(): UsageStreamCounts {
    return {
      pending: this.#pending.length,
      spooledBytes: this.#spool.bytes,
      written: this.#written,
      lost: this.#lost,
    };
  }

  /** Never throws. */
  write(record: UsageRecord): void {
    if (this.#pending.length >= this.#bounds.pendingRecordsMax) {
      this.#lost++;
      return;
    }
    this.#pending.push(encodeUsageRecord(record));
    if (this.#flushing !== undefined) return;
    if (this.#pending.length >= batchRecordsMax) void this.flush();
    else
      this.#timer ??= setTimeout(() => void this.flush(), Math.max(0, this.#flushedAt + batchMs - this.#clock.now()));
  }

  /**
   * Resolves when the records so far are in Redis or in the file, or neither takes them now. Never
   * rejects.
   */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushedAt = this.#clock.now();
    this.#flushing ??= this.#alone(() => this.#flushAll()).then((isStored) => {
      this.#flushing = undefined;
      if (isStored) this.#outage.worked();
      if (this.#pending.length > 0)
        this.#timer ??= setTimeout(() => void this.flush(), isStored ? batchMs : this.#bounds.checkEveryMs);
    });
    return this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#checks);
    this.#isClosed = true;
    await this.#checking;
    // A flush that runs may have taken its last look.
    await this.#flushing;
    await this.flush();
    clearTimeout(this.#timer);
    await this.#alone(() => this.#spool.close()).catch(() => undefined);
    this.#lost += this.#pending.length;
    this.#pending = [];
    this.#reportLost();
  }

  /** One at a time writes to the file. */
  #alone<Result>(work: () => Promise<Result>): Promise<Result> {
    const turn = this.#writing.then(work);
    this.#writing = turn.catch(() => undefined);
    return turn;
  }

  /** False if neither Redis nor the file takes records now; they stay in memory. */
  async #flushAll(): Promise<boolean> {
    while (this.#pending.length > 0) {
      const taken = this.#pending.slice(0, batchesTogetherMax * batchRecordsMax);
      const rest = this.#isFull ? taken : await this.#sendAll(taken);
      const isStored = rest.length === 0 || (await this.#keep(rest));
      this.#pending.splice(0, taken.length, ...(isStored ? [] : rest));
      if (!isStored) return false;
    }
    return true;
  }

  /** Resolves to the lines that Redis did not take; it may have taken them all the same. */
  async #sendAll(lines: readonly string[]): Promise<string[]> {
    this.#options.beforeSend?.();
    const batches: string[][] = [];
    for (let start = 0; start < lines.length; start += batchRecordsMax)
      batches.push(lines.slice(start, start + batchRecordsMax));
    const areSent = await Promise.all(batches.map((batch) => this.#send(batch)));
    return batches.filter((_, index) => !areSent[index]).flat();
  }

  async #send(batch: readonly string[]): Promise<boolean> {
    const { redis, keyspace } = this.#options;
    try {
      const text = Buffer.from(batch.join("\n"));
      await redis.xadd(keyspace.usage, "*", "r", text);
      this.#written += batch.length;
      this.#sent.push({ at: this.#clock.now(), text, count: batch.length });
      this.#sentCount += batch.length;
      while (this.#sentCount > sentKeptMax) this.#forgetSent();
      return true;
    } catch {
      return false;
    }
  }

  async #keep(lines: readonly string[]): Promise<boolean> {
    try {
      await this.#spool.append(lines.join("\n"));
      return true;
    } catch (error) {
      this.#outage.failed(error);
      return false;
    }
  }

  #check(): void {
    this.#reportLost();
    this.#checking ??= this.#followServers()
      .then(() => this.#sendFiles())
      .catch((error: unknown) => this.#options.log.debug({ err: error }, "usage records in files could not be sent"))
      .finally(() => {
        this.#checking = undefined;
      });
  }

  /**
   * While Redis does not answer, nothing is forgotten. Without sent records there is nothing to
   * send again, and the servers of an earlier look are the right ones to compare with later.
   */
  async #followServers(): Promise<void> {
    const { redis } = this.#options;
    if (redis.status !== "ready" || (this.#servers !== undefined && this.#sent.length === 0)) return;
    const servers = await runIdsOf(redis);
    const before = this.#servers;
    this.#servers = servers;
    if (before === undefined || before === servers) {
      const since = this.#clock.now() - sentKeptMs;
      while (this.#sent[0] !== undefined && this.#sent[0].at < since) this.#forgetSent();
      return;
    }
    const lines = this.#sent.flatMap(({ text }) => text.toString().split("\n"));
    this.#sent = [];
    this.#sentCount = 0;
    this.#pending.push(...lines);
    if (lines.length > 0) void this.flush();
  }

  #forgetSent(): void {
    this.#sentCount -= this.#sent.shift()?.count ?? 0;
  }

  #reportLost(): void {
    const count = this.#lost - this.#reportedLost;
    this.#reportedLost = this.#lost;
    if (count > 0) this.#options.log.error({ count }, "usage records were lost");
  }

  /**
   * Sends what waits in files while the stream has space. The current file is sent last, so that a
   * Redis that refuses does not make many small ones.
   */
  async #sendFiles(): Promise<void> {
    if (this.#options.redis.status !== "ready") return;
    this.#isSizeKnown = false;
    if (this.#isFull || this.#written !== this.#measuredWritten || this.#spool.bytes > 0) await this.#measure();
    if (this.#isFull) return;
    const send = (lines: string) => this.#sendAgain(lines);
    if (!(await this.#spool.drain(spoolChunkBytes, send)) || this.#spool.bytes === 0) return;
    await this.#alone(() => this.#spool.complete());
    await this.#spool.drain(spoolChunkBytes, send);
  }

  async #sendAgain(text: string): Promise<boolean> {
    if (!this.#isSizeKnown || this.#unmeasuredBytes > this.#bounds.unmeasuredBytesMax) await this.#measure();
    if (this.#isFull || this.#isClosed) return false;
    this.#unmeasuredBytes += text.length;
    return (await this.#sendAll(text.split("\n"))).length === 0;
  }

  /**
   * Counts every entry, because a sample of the first ones may differ tenfold from the rest: 0.4 to
   * 4 ms of Redis for a full stream.
   */
  async #measure(): Promise<void> {
    const { redis, keyspace } = this.#options;
    const written = this.#written;
    const bytes = Number(await redis.memory("USAGE", keyspace.usage, "SAMPLES", 0));
    this.#unmeasuredBytes = 0;
    this.#isSizeKnown = true;
    this.#measuredWritten = written;
    this.#isFull = bytes > this.#bounds.streamBytesMax;
  }
}
