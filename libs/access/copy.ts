/**
 * An in-memory copy of the key records and its synchronization with Redis. follow.ts decides when to synchronize.
 *
 * Redis may restart without its data, or with older data. The copy then writes back every record that Redis lacks, or of which it has an earlier version. Several
 * processes may do so at once, because the later version wins in any order. Control writes what no copy has from its database.
 */
import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { noticeLatenessMs, noticesMax } from "./bounds.ts";
import { type Notice, readRecords, readSome, readVersion, restoreRecords } from "./projection.ts";
import { isLater, type KeyRecord } from "./record.ts";

export interface KeyCopy {
  find(hash: string): KeyRecord | undefined;
  /** Asks Redis for a record that the copy lacks: its notice may be on the way. Rejects when Redis does not answer. */
  look(hash: string): Promise<KeyRecord | undefined>;
  /** Whether this copy knows that the key with this record id is revoked, or its account disabled. */
  isRevoked(id: string): boolean;
  /** The origins of all keys' records. Those of a key that was revoked since the last complete read may be among them. */
  origins(): ReadonlySet<string>;
  count(): number;
  /** Reads all records for the first time; rejects when Redis does not answer. Notices may arrive before. */
  open(): Promise<void>;
  /** Applies a change. Undefined, for an invalid notice, makes the copy read all records again. */
  notice(notice: Notice | undefined): void;
  /** Reads all records again, because a change may have been missed. */
  invalidate(): void;
  /** Reads all records again if Redis has another version, or if the last read failed. Never rejects. */
  compare(): Promise<void>;
}

export function createKeyCopy(redis: Redis, keyspace: Keyspace, log: Logger): KeyCopy {
  let records = new Map<string, KeyRecord>();
  /** The ids of revoked keys, and of those whose account is disabled. */
  let revoked = new Set<string>();
  let origins = new Set<string>();
  /** The version of `records`. */
  let version = 0;
  let isStale = false;
  let notices: Notice[] = [];
  /** Only one read runs at a time. True until `open` resolves. */
  let isWorking = true;

  const readAll = async () => {
    isStale = false;
    const versionBefore = await readVersion(redis, keyspace);
    const fresh = await readRecords(redis, keyspace);
    const lost = [...records].filter(([hash, copied]) => isLost(copied, fresh.get(hash)));
    for (const [hash, copied] of lost) fresh.set(hash, copied);
    records = fresh;
    revoked = new Set([...fresh.values()].flatMap((record) => (isEnded(record) ? [record.id] : [])));
    origins = new Set(
      [...fresh.values()].flatMap((record) => (record.revokedAt === undefined ? record.origins : []) ?? []),
    );
    if (lost.length > 0) {
      log.warn({ records: lost.length }, "Redis lost key records; restoring them");
      await restoreRecords(redis, keyspace, lost, Math.max(version, versionBefore));
    }
    version = versionBefore;
  };

  const put = (hash: string, record: KeyRecord) => {
    records.set(hash, record);
    if (isEnded(record)) revoked.add(record.id);
    else revoked.delete(record.id);
    if (record.revokedAt === undefined) for (const origin of record.origins ?? []) origins.add(origin);
  };

  const apply = async (pending: Notice[]) => {
    const news = pending.filter((notice) => notice.version > version);
    const hashes = news.flatMap(({ hash }) => hash ?? []);
    const isGapless = news.every((notice, index) => notice.version === version + 1 + index);
    if (!isGapless || hashes.length < news.length) isStale = true;
    if (isStale || hashes.length === 0) return;
    const changed = await readSome(redis, keyspace, hashes);
    for (const [index, hash] of hashes.entries()) {
      const [record, copied] = [changed[index], records.get(hash)];
      if (record === undefined || (copied && isLost(copied, record))) isStale = true;
      else put(hash, record);
    }
    version += news.length;
  };

  const work = async () => {
    if (isWorking) return;
    isWorking = true;
    try {
      while (isStale || notices.length > 0) {
        const pending = notices;
        notices = [];
        if (isStale) await readAll();
        await apply(pending);
      }
    } catch (error) {
      isStale = true;
      log.debug({ err: error }, "reading the keys failed; the copy stays in use");
    } finally {
      isWorking = false;
    }
  };

  const invalidate = () => {
    isStale = true;
    void work();
  };

  return {
    find: (hash) => records.get(hash),
    look: async (hash) => {
      const [record] = records.has(hash) ? [] : await readSome(redis, keyspace, [hash]);
      // A notice that came meanwhile may have brought a later one.
      if (record !== undefined && !records.has(hash)) put(hash, record);
      return records.get(hash);
    },
    isRevoked: (id) => revoked.has(id),
    origins: () => origins,
    count: () => records.size,
    open: async () => {
      await readAll();
      isWorking = false;
      void work();
    },
    notice: (notice) => {
      if (!notice || notices.length >= noticesMax) isStale = true;
      else notices.push(notice);
      void work();
    },
    invalidate,
    compare: async () => {
      try {
        if (isStale) await work();
        const seen = await readVersion(redis, keyspace);
        if (seen > version) await new Promise((resolve) => setTimeout(resolve, noticeLatenessMs));
        if (isWorking || seen === version || (seen < version && (await readVersion(redis, keyspace)) >= version))
          return;
        log.info({ seen, copied: version }, "a change of keys was missed; reading them again");
        invalidate();
      } catch (error) {
        log.debug({ err: error }, "reading the version of the keys failed; the copy stays in use");
      }
    },
  };
}

const isEnded = ({ revokedAt, disabledAt }: KeyRecord): boolean => revokedAt !== undefined || disabledAt !== undefined;

/** Whether Redis lost this record: it has none, or an earlier one. */
const isLost = (copied: KeyRecord, fresh: KeyRecord | undefined): boolean =>
  fresh === undefined || isLater(copied, fresh);
