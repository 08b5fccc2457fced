/**
 * Writes usage records to the Redis stream that the ledger reads. An entry is a batch of records: the field `r` holds them as lines of JSON. A record may
 * arrive more than once; the ledger counts it once.
 *
 * While Redis is away or the stream is full, records go to a file of this process, and to the stream again later. A record is safe once Redis or the file
 * has it: what is younger than `batchMs` dies with the process.
 */
import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import {
  batchMs,
  batchRecordsMax,
  checkEveryMs,
  pendingRecordsMax,
  spoolChunkBytes,
  streamBytesMax,
} from "./bounds.ts";
import { Spool } from "./spool.ts";
import { encodeUsageRecord, type UsageRecord } from "./usage-record.ts";

export interface UsageStreamOptions {
  /** Of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  /** The directory of the file. Files that dead processes left there are sent as well. */
  directory: string;
  log: Logger;
}

export interface UsageStreamCounts {
  /** Records that wait in memory, and bytes that wait in files. */
  readonly pending: number;
  readonly spooledBytes: number;
  readonly written: number;
  readonly lost: number;
}

export class UsageStream {
  readonly #options: UsageStreamOptions;
  readonly #spool: Spool;
  /** Encoded records. */
  #pending: string[] = [];
  #timer: NodeJS.Timeout | undefined;
  readonly #checks: NodeJS.Timeout;
  #flushing: Promise<void> | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isFull = false;
  #isChecking = false;
  #written = 0;
  #lost = 0;

  constructor(options: UsageStreamOptions) {
    this.#options = options;
    this.#spool = new Spool(options.directory);
    this.#checks = setInterval(() => void this.#check(), checkEveryMs);
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
    if (this.#pending.length >= pendingRecordsMax) {
      this.#lost++;
      return;
    }
    this.#pending.push(encodeUsageRecord(record));
    if (this.#pending.length >= batchRecordsMax) void this.flush();
    else this.#timer ??= setTimeout(() => void this.flush(), batchMs);
  }

  /** Resolves when every record so far is in Redis or in the file. Never rejects. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#flushing ??= this.#alone(() => this.#flushAll()).finally(() => {
      this.#flushing = undefined;
    });
    return this.#flushing;
  }

  async close(): Promise<void> {
    clearInterval(this.#checks);
    await this.flush();
    await this.#spool.close();
  }

  /** One at a time writes to the file. */
  #alone(work: () => Promise<void>): Promise<void> {
    const turn = this.#writing.then(work);
    this.#writing = turn.catch(() => undefined);
    return turn;
  }

  async #flushAll(): Promise<void> {
    while (this.#pending.length > 0) {
      const batch = this.#pending.splice(0, batchRecordsMax).join("\n");
      const isSent = !this.#isFull && (await this.#send(batch));
      if (!isSent) await this.#keep(batch);
    }
  }

  /** False if Redis did not take it; it may have done so all the same. */
  async #send(lines: string): Promise<boolean> {
    const { redis, keyspace } = this.#options;
    try {
      await redis.xadd(keyspace.usage, "*", "r", lines);
      this.#written += lines.split("\n").length;
      return true;
    } catch {
      return false;
    }
  }

  async #keep(lines: string): Promise<void> {
    try {
      await this.#spool.append(lines);
    } catch (error) {
      this.#lost += lines.split("\n").length;
      this.#options.log.error({ err: error }, "usage records were lost: neither Redis nor the file took them");
    }
  }

  /** Sends what waits in files, while the stream has space. Never rejects. */
  async #check(): Promise<void> {
    const { redis, keyspace, log } = this.#options;
    if (this.#isChecking) return;
    this.#isChecking = true;
    try {
      if (redis.status !== "ready") return;
      this.#isFull = Number(await redis.memory("USAGE", keyspace.usage, "SAMPLES", 5)) > streamBytesMax;
      if (this.#isFull) return;
      if (this.#spool.bytes > 0) await this.#alone(() => this.#spool.complete());
      await this.#spool.drain(spoolChunkBytes, (lines) => this.#send(lines));
    } catch (error) {
      log.debug({ err: error }, "usage records in files could not be sent");
    } finally {
      this.#isChecking = false;
    }
  }
}
