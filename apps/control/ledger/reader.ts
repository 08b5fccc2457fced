/**
 * Reads usage records from the Redis stream into the ledger. Several control processes share the
 * work as one consumer group. An entry is confirmed after its records are in the database; what was
 * not confirmed is delivered again. Confirmed entries are removed some minutes later, and those
 * that are left are inserted again at start, because the embedded database may lose its last writes
 * in a power cut.
 */

import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { decodeUsageRecord, encodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { OutageLog } from "#service/outage-log.ts";
import type { Redis } from "#service/redis.ts";
import {
  abandonedEntryMs,
  entriesReadMax,
  forgottenReaderMs,
  invalidRecordsMax,
  keptBytesMax,
  keptEntriesMs,
  keptEntriesMsMin,
  readBlockMs,
  readEveryMs,
  retryMs,
  tidyEveryMs,
} from "../bounds.ts";

export interface LedgerReaderOptions {
  /** A connection of its own with the purpose `patient`, because reads block; `close` closes it. */
  redis: Redis;
  /** A connection of the purpose `request`. */
  commands: Redis;
  keyspace: Keyspace;
  /** Inserts records, each once. Rejects when the database cannot take them now. */
  insert(records: readonly UsageRecord[]): Promise<number>;
  clock: Clock;
  log: Logger;
}

type Entry = [id: string, fields: string[] | null];

const group = "ledger";

export class LedgerReader {
  readonly #options: LedgerReaderOptions;
  readonly #consumer = randomUUID();
  readonly #closing = new AbortController();
  readonly #outage: OutageLog;
  #isAbandoned = false;
  #running: Promise<void> | undefined;
  #tidiedAt = 0;
  #readAt = 0;
  #caughtUpAt = 0;
  #inserted = 0;
  #invalid = 0;

  constructor(options: LedgerReaderOptions) {
    this.#options = options;
    this.#outage = new OutageLog({
      log: options.log,
      level: "warn",
      failed: "usage records could not be stored; they stay in the stream",
      works: "usage records are stored again",
    });
  }

  /**
   * Records that were inserted or replaced, records that were not valid, and when the stream was
   * last read to its end or from it.
   */
  get counts(): { inserted: number; invalid: number; readAt: number } {
    return { inserted: this.#inserted, invalid: this.#invalid, readAt: this.#readAt };
  }

  /**
   * The ledger has everything that entered the stream before this time (epoch milliseconds),
   * whichever process read it. Rejects when Redis does not answer.
   */
  async caughtUpAt(): Promise<number> {
    const { commands, keyspace } = this.#options;
    const own = this.#caughtUpAt;
    const [count, oldest] = (await commands.xpending(keyspace.usage, group)) as [count: number, oldest: string | null];
    return count === 0 || oldest === null ? own : Math.min(own, Number(oldest.split("-", 1)[0]) - 1);
  }

  start(): void {
    this.#options.redis.on("ready", this.#reconnected);
    this.#running = this.#run();
  }

  /** Stops after the entries that were read are in the database. */
  async close(): Promise<void> {
    const { redis } = this.#options;
    this.#closing.abort();
    redis.off("ready", this.#reconnected);
    // Ends a read that waits for new entries.
    redis.disconnect();
    // While Redis is away a read never settles, not even when its connection is closed.
    const giveUp = new AbortController();
    await Promise.race([this.#running, delay(2 * readBlockMs, undefined, { signal: giveUp.signal })]);
    giveUp.abort();
    this.#isAbandoned = true;
  }

  readonly #reconnected = () => {
    this.#tidiedAt = 0;
  };

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    let isReplayed = false;
    while (!signal.aborted) {
      try {
        if (!isReplayed) await this.#replay();
        isReplayed = true;
        await this.#readNew();
        // After a failure at once, so what it left is stored before the end of the outage.
        if (this.#options.clock.epoch() - this.#tidiedAt > tidyEveryMs) await this.#tidy();
        this.#outage.worked();
      } catch (error) {
        if (signal.aborted) break;
        this.#tidiedAt = 0;
        if ((error as Error).message.startsWith("NOGROUP")) {
          isReplayed = false;
          continue;
        }
        this.#outage.failed(error);
        await this.#pause(retryMs);
      }
    }
    await this.#readDelivered().catch(() => undefined);
  }

  /** `close` ends it early. */
  #pause(ms: number): Promise<void> {
    return delay(ms, undefined, { signal: this.#closing.signal }).catch(() => undefined);
  }

  /** Everything that was ever delivered and that the stream still has. */
  async #replay(): Promise<void> {
    const { commands, keyspace } = this.#options;
    await commands.xgroup("CREATE", keyspace.usage, group, "0", "MKSTREAM").catch((error: Error) => {
      if (!error.message.startsWith("BUSYGROUP")) throw error;
    });
    const delivered = await this.#lastDelivered();
    for (let from = "-"; ; ) {
      const entries: Entry[] = await commands.xrange(keyspace.usage, from, delivered, "COUNT", entriesReadMax);
      await this.#insert(entries);
      const last = entries.at(-1);
      if (last === undefined || entries.length < entriesReadMax) return;
      from = `(${last[0]}`;
    }
  }

  async #readNew(): Promise<void> {
    const { clock } = this.#options;
    const [startedAt, since] = [clock.epoch(), clock.now()];
    const count = await this.#read(this.#options.redis, ">");
    this.#readAt = this.#options.clock.epoch();
    if (count === entriesReadMax) return;
    this.#caughtUpAt = startedAt;
    if (count > 0) await this.#pause(Math.max(0, since + readEveryMs - clock.now()));
  }

  /** Stores and confirms what Redis delivers from this id on. Resolves to the number of entries. */
  async #read(redis: Redis, from: ">" | "0"): Promise<number> {
    const { keyspace } = this.#options;
    const read = (await redis.xreadgroup(
      "GROUP",
      group,
      this.#consumer,
      "COUNT",
      entriesReadMax,
      "BLOCK",
      readBlockMs,
      "STREAMS",
      keyspace.usage,
      from,
    )) as [stream: string, entries: Entry[]][] | null;
    // After a while, another reader takes these entries over.
    if (this.#isAbandoned) return 0;
    const entries = read?.[0]?.[1] ?? [];
    await this.#store(entries);
    return entries.length;
  }

  async #store(entries: readonly Entry[]): Promise<void> {
    if (entries.length === 0) return;
    const { commands, keyspace } = this.#options;
    await this.#insert(entries);
    await commands.xack(keyspace.usage, group, ...entries.map(([id]) => id));
  }

  /** Reads again what Redis delivered to this reader over a connection that broke or was closed. */
  async #readDelivered(): Promise<void> {
    while ((await this.#read(this.#options.commands, "0")) > 0);
  }

  /**
   * Takes over the entries of lost connections and of dead readers, and removes what everybody has
   * confirmed a while ago.
   */
  async #tidy(): Promise<void> {
    const { commands, keyspace } = this.#options;
    this.#tidiedAt = this.#options.clock.epoch();
    await this.#readDelivered();
    const [, claimed] = (await commands.xautoclaim(
      keyspace.usage,
      group,
      this.#consumer,
      abandonedEntryMs,
      "0",
      "COUNT",
      entriesReadMax,
    )) as [next: string, entries: Entry[]];
    await this.#store(claimed);
    await this.#trim();
    await this.#forgetReaders();
  }

  /**
   * The embedded database may lose what it wrote last, so confirmed entries stay for a while, or
   * until they take much memory.
   */
  async #trim(): Promise<void> {
    const { commands, keyspace } = this.#options;
    // In this order: what another reader is given after the first answer is not below it, and what
    // it was given before is pending in the second.
    const delivered = await this.#lastDelivered();
    const [pending, oldest] = (await commands.xpending(keyspace.usage, group)) as [
      count: number,
      oldest: string | null,
    ];
    for (let keptMs = keptEntriesMs; keptMs >= keptEntriesMsMin; keptMs /= 4) {
      const kept = `${this.#options.clock.epoch() - Math.round(keptMs)}-0`;
      const bounds = [kept, delivered, ...(pending > 0 && oldest !== null ? [oldest] : [])];
      const least = bounds.reduce((least, id) => (isBefore(id, least) ? id : least));
      await commands.xtrim(keyspace.usage, "MINID", least);
      if (least !== kept) return;
      if (Number(await commands.memory("USAGE", keyspace.usage, "SAMPLES", 0)) < keptBytesMax) return;
    }
  }

  /** Every start makes a new reader. */
  async #forgetReaders(): Promise<void> {
    const { commands, keyspace } = this.#options;
    const readers = (await commands.xinfo("CONSUMERS", keyspace.usage, group)) as unknown[][];
    for (const { name, pending, idle } of readers.map(fieldsOf))
      if (pending === 0 && Number(idle) > forgottenReaderMs && name !== this.#consumer)
        await commands.xgroup("DELCONSUMER", keyspace.usage, group, String(name));
  }

  /** Entries after it were not read by anybody. */
  async #lastDelivered(): Promise<string> {
    const groups = (await this.#options.commands.xinfo("GROUPS", this.#options.keyspace.usage)) as unknown[][];
    const own = groups.map(fieldsOf).find(({ name }) => name === group);
    return String(own?.["last-delivered-id"] ?? "0-0");
  }

  async #insert(entries: readonly Entry[]): Promise<void> {
    const records: UsageRecord[] = [];
    const invalid: string[] = [];
    for (const [, fields] of entries)
      for (const line of fields?.[1]?.split("\n") ?? []) {
        const record = recordOf(line);
        if (record === undefined) invalid.push(line);
        else records.push(record);
      }
    this.#inserted += await this.#insertValid(records, invalid);
    if (invalid.length > 0) await this.#keepInvalid(invalid);
  }

  /**
   * A record that the database cannot represent is added to `invalid`, so that it does not hold up
   * the others for ever.
   */
  async #insertValid(records: readonly UsageRecord[], invalid: string[]): Promise<number> {
    try {
      return await this.#options.insert(records);
    } catch (error) {
      if (!isDataFault(error)) throw error;
      const [record] = records;
      if (record !== undefined && records.length === 1) {
        invalid.push(encodeUsageRecord(record));
        return 0;
      }
      const middle = records.length >> 1;
      const first = await this.#insertValid(records.slice(0, middle), invalid);
      return first + (await this.#insertValid(records.slice(middle), invalid));
    }
  }

  /** Neither what cannot be read nor a Redis that is full may hold up the other records. */
  async #keepInvalid(lines: readonly string[]): Promise<void> {
    const { commands, keyspace, log } = this.#options;
    this.#invalid += lines.length;
    log.error({ count: lines.length }, "usage records are not valid; they are in the stream of invalid records");
    for (const line of lines)
      await commands
        .xadd(keyspace.usageInvalid, "MAXLEN", "~", invalidRecordsMax, "*", "r", line)
        .catch((error: unknown) => log.error({ err: error }, "an invalid usage record could not be kept"));
  }
}

/**
 * Class 22 of https://www.postgresql.org/docs/current/errcodes-appendix.html: a value that no retry
 * makes valid.
 */
const isDataFault = (error: unknown): boolean => String((error as { code?: unknown }).code).startsWith("22");

function recordOf(line: string): UsageRecord | undefined {
  try {
    return decodeUsageRecord(JSON.parse(line));
  } catch {
    return undefined;
  }
}

const fieldsOf = (flat: unknown[]): Record<string, unknown> =>
  Object.fromEntries(flat.flatMap((name, index) => (index % 2 === 0 ? [[String(name), flat[index + 1]]] : [])));

/** Ids of entries: "<milliseconds>-<number>". */
function isBefore(id: string, other: string): boolean {
  const [ms = 0, number = 0] = id.split("-").map(Number);
  const [otherMs = 0, otherNumber = 0] = other.split("-").map(Number);
  return ms < otherMs || (ms === otherMs && number < otherNumber);
}
