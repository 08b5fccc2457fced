/**
 * A process's copy of the key records, kept current so that authentication needs no round trip.
 * Changes arrive as notices on pub/sub. Notices can be lost, so the copy compares its version with
 * Redis often enough to know each change within a second.
 *
 *   opening ─▶ current ─ a notice ─▶ reads the records of the notices ─▶ current
 *                 └─ a gap, a connection that was lost, another version ─▶ stale ─ reads all ─▶ current
 *
 * A stale copy stays in use while Redis is away. Redis may restart without its data, or with older
 * data. The copy then writes back every record that Redis lacks, or of which it has an earlier
 * version. Several processes may do so at once, because the later version wins in any order.
 * Control writes what no copy has from its database.
 */
import type { Logger } from "pino";
import { type Channel, openChannel } from "#service/channel.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { compareEveryMs, noticeLatenessMs, noticesMax } from "./bounds.ts";
import { type Notice, noticeOf, readRecords, readSome, readVersion, restoreRecords } from "./projection.ts";
import { isLater, type KeyRecord } from "./record.ts";

export interface FollowOptions {
  /** Has the purpose `request`. */
  redis: Redis;
  /**
   * A shared connection in subscriber mode with the purpose `patient`. The caller closes both
   * connections, after the follower.
   */
  subscriber: Redis;
  keyspace: Keyspace;
  log: Logger;
}

export class KeyFollower {
  readonly #redis: Redis;
  readonly #subscriber: Redis;
  readonly #keyspace: Keyspace;
  readonly #log: Logger;
  #records = new Map<string, KeyRecord>();
  /** The successor of a record that was replaced, while somebody has that. */
  readonly #successors = new WeakMap<KeyRecord, KeyRecord>();
  /** The ids of revoked keys, and of those whose account is disabled. */
  #endedIds = new Set<string>();
  #origins = new Set<string>();
  /** The version of `#records`. */
  #version = 0;
  #isStale = false;
  #notices: Notice[] = [];
  /** Only one read runs at a time. True until the first one is over. */
  #isReading = true;
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #notified: Channel | undefined;
  /** A change may have been missed. */
  readonly #onReady = () => this.#invalidate();

  private constructor({ redis, subscriber, keyspace, log }: FollowOptions) {
    this.#redis = redis;
    this.#subscriber = subscriber;
    this.#keyspace = keyspace;
    this.#log = log;
  }

  /**
   * Resolves when the copy is complete; rejects when Redis does not answer. The follower itself
   * never throws.
   */
  static async open(options: FollowOptions): Promise<KeyFollower> {
    const follower = new KeyFollower(options);
    try {
      await follower.#start();
    } catch (error) {
      follower.close();
      throw error;
    }
    return follower;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    this.#redis.off("ready", this.#onReady);
    this.#notified?.close();
  }

  count(): number {
    return this.#records.size;
  }

  /**
   * The origins of all keys' records. The origins of a key that was revoked since the last complete
   * read may be among them.
   */
  origins(): ReadonlySet<string> {
    return this.#origins;
  }

  /** Grows with each change. */
  get version(): number {
    return this.#version;
  }

  /** The record that replaced this one, or it itself. */
  latestOf(record: KeyRecord): KeyRecord {
    let latest = record;
    for (let next = this.#successors.get(latest); next !== undefined; next = this.#successors.get(latest))
      latest = next;
    return latest;
  }

  find(hash: string): KeyRecord | undefined {
    return this.#records.get(hash);
  }

  /**
   * Asks Redis for a record that the copy lacks: its notice may be on the way. Rejects when Redis
   * does not answer.
   */
  async look(hash: string): Promise<KeyRecord | undefined> {
    const [record] = this.#records.has(hash) ? [] : await readSome(this.#redis, this.#keyspace, [hash]);
    // A notice that came meanwhile may have brought a later one.
    if (record !== undefined && !this.#records.has(hash)) this.#put(hash, record);
    return this.#records.get(hash);
  }

  /**
   * Whether this copy knows that the key with this record id is revoked, or its account disabled.
   */
  isRevoked(id: string): boolean {
    return this.#endedIds.has(id);
  }

  async #start(): Promise<void> {
    this.#notified = openChannel(this.#subscriber, this.#keyspace.keysChanged, (message) =>
      this.#notice(noticeOf(message.toString())),
    );
    await this.#notified.subscribed;
    await this.#readAll();
    this.#isReading = false;
    void this.#read();
    this.#redis.on("ready", this.#onReady);
    this.#compareLater();
  }

  #compareLater(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(async () => {
      await this.#compare();
      this.#compareLater();
    }, compareEveryMs);
  }

  /** Undefined, for an invalid notice, makes the copy read all records again. */
  #notice(notice: Notice | undefined): void {
    if (!notice || this.#notices.length >= noticesMax) this.#isStale = true;
    else this.#notices.push(notice);
    void this.#read();
  }

  #invalidate(): void {
    this.#isStale = true;
    void this.#read();
  }

  /**
   * Reads all records again if Redis has another version, or if the last read failed. Never
   * rejects.
   */
  async #compare(): Promise<void> {
    try {
      if (this.#isStale) await this.#read();
      const seen = await this.#redisVersion();
      if (seen > this.#version) await new Promise((resolve) => setTimeout(resolve, noticeLatenessMs));
      const isBehindUs = async () => seen < this.#version && (await this.#redisVersion()) >= this.#version;
      if (this.#isReading || seen === this.#version || (await isBehindUs())) return;
      this.#log.info({ seen, copied: this.#version }, "a change of keys was missed; reading them again");
      this.#invalidate();
    } catch (error) {
      this.#log.debug({ err: error }, "reading the version of the keys failed; the copy stays in use");
    }
  }

  #redisVersion(): Promise<number> {
    return readVersion(this.#redis, this.#keyspace);
  }

  async #read(): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#isStale || this.#notices.length > 0) {
        const notices = this.#notices;
        this.#notices = [];
        if (this.#isStale) await this.#readAll();
        await this.#apply(notices);
      }
    } catch (error) {
      this.#isStale = true;
      this.#log.debug({ err: error }, "reading the keys failed; the copy stays in use");
    } finally {
      this.#isReading = false;
    }
  }

  async #readAll(): Promise<void> {
    this.#isStale = false;
    const version = await this.#redisVersion();
    const fresh = await readRecords(this.#redis, this.#keyspace);
    const lost = [...this.#records].filter(([hash, copied]) => isLost(copied, fresh.get(hash)));
    const copied = this.#records;
    this.#records = new Map();
    this.#endedIds = new Set();
    this.#origins = new Set();
    for (const [hash, record] of [...fresh, ...lost]) this.#put(hash, record, copied.get(hash));
    if (lost.length > 0) {
      this.#log.warn({ records: lost.length }, "Redis lost key records; restoring them");
      await restoreRecords(this.#redis, this.#keyspace, lost, Math.max(this.#version, version));
    }
    this.#version = version;
  }

  async #apply(pending: Notice[]): Promise<void> {
    const notices = pending.filter((notice) => notice.version > this.#version);
    const hashes = notices.flatMap(({ hash }) => hash ?? []);
    const isGapless = notices.every((notice, index) => notice.version === this.#version + 1 + index);
    if (!isGapless || hashes.length < notices.length) this.#isStale = true;
    if (this.#isStale || hashes.length === 0) return;
    const changed = await readSome(this.#redis, this.#keyspace, hashes);
    for (const [index, hash] of hashes.entries()) {
      const [record, copied] = [changed[index], this.#records.get(hash)];
      if (record === undefined || (copied && isLost(copied, record))) this.#isStale = true;
      else this.#put(hash, record, copied);
    }
    this.#version += notices.length;
  }

  #put(hash: string, record: KeyRecord, before?: KeyRecord): void {
    this.#records.set(hash, record);
    if (before !== undefined && before !== record) this.#successors.set(before, record);
    if (isEnded(record)) this.#endedIds.add(record.id);
    else this.#endedIds.delete(record.id);
    if (record.revokedAt === undefined) for (const origin of record.origins ?? []) this.#origins.add(origin);
  }
}

const isEnded = ({ revokedAt, disabledAt }: KeyRecord): boolean => revokedAt !== undefined || disabledAt !== undefined;

/** Whether Redis lost this record: it has none, or an earlier one. */
const isLost = (copied: KeyRecord, fresh: KeyRecord | undefined): boolean =>
  fresh === undefined || isLater(copied, fresh);
