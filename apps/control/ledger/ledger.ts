/**
 * The ledger of a control process: reads usage records from Redis into the database, and drops old
 * ones.
 */

import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import type { Redis } from "#service/redis.ts";
import { dropEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { BudgetReconciler } from "./budgets.ts";
import { insertUsage } from "./insert.ts";
import { KeyUsagePublisher } from "./key-usage.ts";
import { UsagePartitions } from "./partitions.ts";
import { withPseudonyms } from "./pseudonyms.ts";
import { LedgerReader } from "./reader.ts";

export interface LedgerOptions {
  database: Database;
  /** A connection of the purpose `patient`, for this ledger alone. */
  reads: Redis;
  redis: Redis;
  keyspace: Keyspace;
  /** How many days usage records are kept now. */
  usageDays(): number;
  /** Replaces the names of users and sessions. */
  pseudonymOf?: ((name: string) => string) | undefined;
  catalogue(): Pick<Catalogue, "groups">;
  clock: Clock;
  log: Logger;
}

export interface Ledger {
  readonly counts: LedgerReader["counts"];
  readonly budgets: BudgetReconciler;
  /** How long ago the oldest record was written that the ledger does not have, in seconds. */
  lagSeconds(): Promise<number>;
  /** How many records are in the stream of invalid ones. */
  invalidRecords(): Promise<number>;
  close(): Promise<void>;
}

export function startLedger(options: LedgerOptions): Ledger {
  const { database, reads, redis, keyspace, usageDays, pseudonymOf, catalogue, clock, log } = options;
  const partitions = new UsagePartitions(database, usageDays);
  const keyUsage = new KeyUsagePublisher(options);
  const insert = async (records: readonly UsageRecord[]) => {
    await partitions.create(
      records.map(({ receivedAt }) => receivedAt),
      clock.epoch(),
    );
    const stored = await insertUsage(
      database,
      pseudonymOf === undefined ? records : records.map((record) => withPseudonyms(record, pseudonymOf)),
      (tag) => [...catalogue().groups.values()].some(({ tagLimits = {} }) => Object.hasOwn(tagLimits, tag)),
    );
    keyUsage.changed(new Set(records.map(({ keyId }) => keyId)));
    return stored;
  };
  const reader = new LedgerReader({ redis: reads, commands: redis, keyspace, insert, clock, log });
  const retention = new PeriodicTask({
    everyMs: dropEveryMs,
    isImmediate: true,
    run: async () => {
      const names = await partitions.drop(clock.epoch());
      if (names.length > 0) log.info({ names }, "old usage records were dropped");
    },
    log,
    level: "warn",
    failed: "old usage records could not be dropped",
    works: "old usage records are dropped again",
  });
  const budgets = new BudgetReconciler({ ...options, caughtUpAt: () => reader.caughtUpAt() });
  reader.start();
  return {
    get counts() {
      return reader.counts;
    },
    budgets,
    lagSeconds: async () => Math.max(0, clock.epoch() - (await reader.caughtUpAt())) / 1_000,
    invalidRecords: () => redis.xlen(keyspace.usageInvalid),
    async close() {
      retention.close();
      keyUsage.close();
      budgets.close();
      await reader.close();
    },
  };
}
