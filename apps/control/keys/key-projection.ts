/**
 * Keeps the records in Redis, which every ingress follows, equal to the keys of the database. A
 * change is written after its commit. A comparison finds what Redis did not take, lost or got from
 * somebody else: at once after a change that is not ours, and once a minute in any case.
 *
 * The database decides, with two exceptions: a key that only Redis has is imported into its
 * account, and a revocation that only Redis has is taken over, because a revocation is final.
 */

import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import { isSame, projectRecords, readRecords, readVersion } from "#access/projection.ts";
import type { KeyRecord } from "#access/record.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { comparedEveryMs, importedTogetherMax, looksEveryMs } from "../bounds.ts";
import { type ChangeContext, systemContext, transact } from "../database/change.ts";
import type { Database } from "../database/database.ts";
import { describedOf, type FullRow, keysWithin, recordOf } from "./key-rows.ts";

export interface KeyProjectionOptions {
  database: Database;
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  clock: Clock;
  log: Logger;
}

/** The result of a comparison. */
export interface Comparison {
  /** Keys of the database. */
  keys: number;
  /** Records that Redis lacked, or had in another version. */
  written: number;
  /** Keys that only Redis had. */
  imported: number;
}

/** The account of imported keys that name none. */
const defaultAccount = "default";

export class KeyProjection {
  readonly #options: KeyProjectionOptions;
  readonly #closing = new AbortController();
  /** The version of the records in Redis after our latest write or comparison. */
  #seen = -1;
  #comparedAt = 0;
  /**
   * Changes that Redis did not take, and how many of them a later comparison covered. The first
   * comparison counts as one.
   */
  #missed = 1;
  #covered = 0;
  #comparing: Promise<Comparison> | undefined;
  #running: Promise<void> | undefined;

  constructor(options: KeyProjectionOptions) {
    this.#options = options;
  }

  /** Whether Redis may lack a change. */
  get isBehind(): boolean {
    return this.#missed > this.#covered;
  }

  /** Compares for the first time, which imports keys, and goes on until `close`. Never rejects. */
  async start(): Promise<void> {
    await this.#look();
    this.#running = this.#run();
  }

  async close(): Promise<void> {
    this.#closing.abort();
    await this.#running;
    await this.#comparing?.catch(() => undefined);
  }

  /**
   * Writes these keys after a change of them was committed. Never rejects: what Redis does not take
   * now, it gets later.
   */
  project(ids: readonly string[]): Promise<void> {
    return this.#projectRows(async () =>
      keysWithin(this.#options.database, "all")
        .where("keys.id", "in", [...ids])
        .execute(),
    );
  }

  /** Writes the keys of an account after a change of the account was committed. Never rejects. */
  projectAccount(account: string): Promise<void> {
    return this.#projectRows(() =>
      keysWithin(this.#options.database, "all").where("keys.account", "=", account).execute(),
    );
  }

  /**
   * Compares everything and writes what differs. One comparison runs at a time. Rejects when Redis
   * or the database does not answer.
   */
  async compare(): Promise<Comparison> {
    await this.#comparing?.catch(() => undefined);
    this.#comparing = this.#compare().finally(() => {
      this.#comparing = undefined;
    });
    return this.#comparing;
  }

  async #run(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await delay(looksEveryMs, undefined, { signal }).catch(() => undefined);
      if (!signal.aborted) await this.#look();
    }
  }

  /** Compares if something may differ. */
  async #look(): Promise<void> {
    const { redis, keyspace, log } = this.#options;
    try {
      const isDue = this.isBehind || this.#options.clock.now() - this.#comparedAt > comparedEveryMs;
      if (isDue || (await readVersion(redis, keyspace)) !== this.#seen) await this.compare();
    } catch (error) {
      if (!this.isBehind) log.warn({ err: error }, "the keys in Redis could not be compared; trying again");
      this.#missed++;
    }
  }

  async #projectRows(read: () => Promise<FullRow[]>): Promise<void> {
    try {
      await this.#write(await read());
    } catch (error) {
      this.#missed++;
      this.#options.log.warn({ err: error }, "a change of keys did not reach Redis; trying again");
    }
  }

  async #write(rows: readonly FullRow[]): Promise<number> {
    const { redis, keyspace } = this.#options;
    const written = await projectRecords(
      redis,
      keyspace,
      rows.map((row) => [row.hash, recordOf(row)]),
    );
    this.#seen += written;
    return written;
  }

  /**
   * Reads Redis first: whatever it has was committed before, so a record that is later than its row
   * is one that the database has lost.
   */
  async #compare(): Promise<Comparison> {
    const { database, redis, keyspace, clock, log } = this.#options;
    const missed = this.#missed;
    const version = await readVersion(redis, keyspace);
    const present = await readRecords(redis, keyspace);
    const context = systemContext(database, new Date(clock.epoch()));
    const imported = await importKeys(context, present);
    const rows = await keysWithin(database, "all").execute();
    const differing = rows.filter((row) => {
      const record = present.get(row.hash);
      return record === undefined || !isSame(record, recordOf(row));
    });
    const corrected: FullRow[] = [];
    for (const row of differing) corrected.push(await correctedRow(context, row, present.get(row.hash)));
    this.#seen = version;
    const written = await this.#write(corrected);
    this.#comparedAt = this.#options.clock.now();
    this.#covered = missed;
    if (imported > 0 || written > 0) log.info({ imported, written }, "keys in Redis and in the database differed");
    return { keys: rows.length, written, imported };
  }
}

/**
 * Takes over a revocation that only Redis has, and raises the version of a row that Redis knows in
 * a later state, so that the database's state wins.
 */
async function correctedRow(context: ChangeContext, row: FullRow, present: KeyRecord | undefined): Promise<FullRow> {
  const record = recordOf(row);
  const revokedAt =
    row.revoked_at === null && present?.revokedAt !== undefined ? new Date(present.revokedAt) : undefined;
  const ahead = (present?.version ?? 0) - (record.version ?? 0);
  if (revokedAt === undefined && ahead < 0) return row;
  if (present === undefined) return row;
  return transact(context, "revokeKey", async (inside) => {
    const current = await keysWithin(inside.database, "all")
      .where("keys.id", "=", row.id)
      .forUpdate("keys")
      .executeTakeFirstOrThrow();
    const after: FullRow = {
      ...current,
      revoked_at: current.revoked_at ?? revokedAt ?? null,
      version: current.version + Math.max(ahead, 0) + 1,
    };
    await inside.database
      .updateTable("keys")
      .set({ revoked_at: after.revoked_at, version: after.version })
      .where("id", "=", row.id)
      .execute();
    if (revokedAt !== undefined && current.revoked_at === null) {
      await inside.record({
        account: row.account,
        subject: `key ${row.id}`,
        before: describedOf(current, context.now),
        after: describedOf(after, context.now),
      });
    }
    return after;
  });
}

/**
 * Imports the keys that only Redis has, with their ids, into the accounts that they name. Resolves
 * to their number.
 */
async function importKeys(context: ChangeContext, present: ReadonlyMap<string, KeyRecord>): Promise<number> {
  const storedHashes = new Set(
    (await context.database.selectFrom("keys").select("hash").execute()).map(({ hash }) => hash),
  );
  const missing = [...present].filter(([hash]) => !storedHashes.has(hash));
  let imported = 0;
  for (let start = 0; start < missing.length; start += importedTogetherMax)
    imported += await importSome(context, missing.slice(start, start + importedTogetherMax));
  return imported;
}

function importSome(context: ChangeContext, records: readonly (readonly [string, KeyRecord])[]): Promise<number> {
  const accounts = new Set(records.map(([, { account = defaultAccount }]) => account));
  return transact(context, "importKeys", async (inside) => {
    await inside.database
      .insertInto("accounts")
      .values([...accounts].map((id) => ({ id, name: id, created_at: context.now, disabled_at: null })))
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const inserted = await inside.database
      .insertInto("keys")
      .values(records.map(([hash, record]) => importedRowOf(hash, record)))
      .onConflict((conflict) => conflict.doNothing())
      .returning("id")
      .execute();
    if (inserted.length > 0)
      await inside.record({ subject: `${inserted.length} keys`, after: { keys: inserted.map(({ id }) => id) } });
    return inserted.length;
  });
}

function importedRowOf(hash: string, record: KeyRecord) {
  const { id, hint, name, group, account = defaultAccount, expiresAt, revokedAt, tags = [], version = 0 } = record;
  const json = (value: unknown) => (value === undefined ? null : JSON.stringify(value));
  return {
    id,
    hash,
    hint,
    account,
    name,
    group_name: group,
    models: json(record.models),
    limits: json(record.limits),
    addresses: json(record.addresses),
    origins: json(record.origins),
    priority: record.priority ?? null,
    tags: JSON.stringify(tags),
    created_at: new Date(record.createdAt),
    expires_at: expiresAt === undefined ? null : new Date(expiresAt),
    revoked_at: revokedAt === undefined ? null : new Date(revokedAt),
    version: version + 1,
  };
}
