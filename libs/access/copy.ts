/**
 * A copy of the key records and how it catches up with Redis; when to do so is decided in follow.ts.
 *
 * Redis may come back without its data, or with older data. Records are only ever added or revoked, so whatever the copy
 * has over Redis was lost there, and is written back; several processes may do so at once, for the union is right in any order. What
 * remains is a race: a change that no process had heard of when Redis lost it is lost.
 */

import type { Logger } from "pino";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { type Notice, readRecords, readSome, readVersion, restoreRecords } from "./projection.ts";
import type { KeyRecord } from "./record.ts";

/** How long a notice may be under way after the version that it announces was seen. */
const noticeLatenessMs = 50;
/** More notices than this at once are answered by reading the whole. */
const noticesMax = 1_000;

export interface KeyCopy {
  find(hash: string): KeyRecord | undefined;
  /** By a record's id: was the key revoked, as far as this copy knows? */
  isRevoked(id: string): boolean;
  count(): number;
  /** Reads the whole for the first time; rejects when Redis does not answer. Notices may arrive before. */
  open(): Promise<void>;
  /** Takes a change in; undefined for a notice that could not be understood. */
  notice(notice: Notice | undefined): void;
  /** Reads the whole again, because something may have been missed. */
  doubt(): void;
  /** Reads the whole again if Redis' version is not the copy's; also what failed before is tried again. Never rejects. */
  compare(): Promise<void>;
}

export function createKeyCopy(redis: Redis, keyspace: Keyspace, log: Logger): KeyCopy {
  let records = new Map<string, KeyRecord>();
  /** The ids of those that are revoked. */
  let revoked = new Set<string>();
  /** The version of `records`. */
  let version = 0;
  let isDoubtful = false;
  let notices: Notice[] = [];
  /** One thing is done at a time; before `open` is through, all else waits. */
  let isWorking = true;

  const readWhole = async () => {
    isDoubtful = false;
    const versionBefore = await readVersion(redis, keyspace);
    const fresh = await readRecords(redis, keyspace);
    const lost = [...records].filter(([hash, held]) => laterOf(held, fresh.get(hash)) === held);
    for (const [hash, held] of lost) fresh.set(hash, held);
    records = fresh;
    revoked = new Set([...fresh.values()].flatMap(({ id, revokedAt }) => (revokedAt === undefined ? [] : [id])));
    if (lost.length > 0) {
      log.warn({ records: lost.length }, "Redis lost keys: writing them back");
      await restoreRecords(redis, keyspace, lost, Math.max(version, versionBefore));
    }
    version = versionBefore;
  };

  const take = async (taken: Notice[]) => {
    const news = taken.filter((notice) => notice.version > version);
    const hashes = news.flatMap(({ hash }) => hash ?? []);
    const isGapless = news.every((notice, index) => notice.version === version + 1 + index);
    if (!isGapless || hashes.length < news.length) isDoubtful = true;
    if (isDoubtful || hashes.length === 0) return;
    const changed = await readSome(redis, keyspace, hashes);
    for (const [index, hash] of hashes.entries()) {
      const [record, held] = [changed[index], records.get(hash)];
      if (record === undefined || (held && laterOf(held, record) === held)) isDoubtful = true;
      else {
        records.set(hash, record);
        if (record.revokedAt !== undefined) revoked.add(record.id);
      }
    }
    version += news.length;
  };

  const work = async () => {
    if (isWorking) return;
    isWorking = true;
    try {
      while (isDoubtful || notices.length > 0) {
        const taken = notices;
        notices = [];
        if (isDoubtful) await readWhole();
        await take(taken);
      }
    } catch (error) {
      isDoubtful = true;
      log.debug({ err: error }, "keys could not be read; the copy serves");
    } finally {
      isWorking = false;
    }
  };

  const doubt = () => {
    isDoubtful = true;
    void work();
  };

  return {
    find: (hash) => records.get(hash),
    isRevoked: (id) => revoked.has(id),
    count: () => records.size,
    open: async () => {
      await readWhole();
      isWorking = false;
      void work();
    },
    notice: (notice) => {
      if (!notice || notices.length >= noticesMax) isDoubtful = true;
      else notices.push(notice);
      void work();
    },
    doubt,
    compare: async () => {
      try {
        if (isDoubtful) await work();
        const seen = await readVersion(redis, keyspace);
        if (seen > version) await new Promise((resolve) => setTimeout(resolve, noticeLatenessMs));
        if (isWorking || seen === version || (seen < version && (await readVersion(redis, keyspace)) >= version))
          return;
        log.info({ seen, held: version }, "a change of keys was missed: reading them again");
        doubt();
      } catch (error) {
        log.debug({ err: error }, "the version of keys could not be read; the copy serves");
      }
    },
  };
}

/** Of two versions of a record the one that came later, as far as that can be told: a revocation is final. */
function laterOf(held: KeyRecord, fresh: KeyRecord | undefined): KeyRecord {
  return fresh === undefined || (held.revokedAt !== undefined && fresh.revokedAt === undefined) ? held : fresh;
}
