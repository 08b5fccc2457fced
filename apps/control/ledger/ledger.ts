/**
 * The ledger of a control process: reads usage records from Redis into the database, and drops old
 * ones.
 */
import type { Logger } from "pino";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { dropEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { BudgetReconciler } from "./budgets.ts";
import { insertUsage } from "./insert.ts";
import { KeyUsagePublisher } from "./key-usage.ts";
import { UsagePartitions } from "./partitions.ts";
import { LedgerReader } from "./reader.ts";

export interface LedgerOptions {
  database: Database;
  /** Of the purpose `patient`, for this ledger alone. */
  reads: Redis;
  redis: Redis;
  keyspace: Keyspace;
  /** How many days usage records are kept now. */
  usageDays(): number;
  catalogue(): Pick<Catalogue, "groups">;
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

export function startLedger({ database, reads, redis, keyspace, usageDays, catalogue, log }: LedgerOptions): Ledger {
  const partitions = new UsagePartitions(database, usageDays);
  const keyUsage = new KeyUsagePublisher({ database, redis, keyspace, log });
  const insert = async (records: readonly UsageRecord[]) => {
    await partitions.create(
      records.map(({ receivedAt }) => receivedAt),
      Date.now(),
    );
    const stored = await insertUsage(database, records);
    keyUsage.changed(new Set(records.map(({ keyId }) => keyId)));
    return stored;
  };
  const reader = new LedgerReader({ redis: reads, commands: redis, keyspace, insert, log });
  const drop = () =>
    partitions.drop(Date.now()).then(
      (names) => names.length > 0 && log.info({ names }, "old usage records were dropped"),
      (error: unknown) => log.warn({ err: error }, "old usage records could not be dropped"),
    );
  const timer = setInterval(drop, dropEveryMs);
  void drop();
  const budgets = new BudgetReconciler({
    database,
    redis,
    keyspace,
    catalogue,
    caughtUpAt: () => reader.caughtUpAt(),
    log,
  });
  reader.start();
  return {
    get counts() {
      return reader.counts;
    },
    budgets,
    lagSeconds: async () => Math.max(0, Date.now() - (await reader.caughtUpAt())) / 1_000,
    invalidRecords: () => redis.xlen(keyspace.usageInvalid),
    async close() {
      clearInterval(timer);
      keyUsage.close();
      budgets.close();
      await reader.close();
    },
  };
}
