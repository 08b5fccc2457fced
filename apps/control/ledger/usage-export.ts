/**
 * Exports each hour of usage to the object store, once it is over. An hour whose sums in the ledger
 * are others than those that were exported is exported again: its records arrived late, or an
 * export was interrupted. Objects are replaced as a whole.
 */
import { Readable } from "node:stream";
import { sql } from "kysely";
import type { Logger } from "pino";
import type { ObjectStore } from "#objects/object-store.ts";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import { exportClaimMs, exportDays, exportedKeysMax, exportRowsMax, usageExportEveryMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { csvLinesOf } from "./csv.ts";
import { focusColumns, focusRowsOf, type KeyOfUsage } from "./focus.ts";
import { keyNamesOf, recordOf } from "./usage-handlers.ts";

export const exportFormats = ["jsonl", "focus"] as const;
type ExportFormat = (typeof exportFormats)[number];

export interface UsageExportOptions {
  database: Database;
  objects: ObjectStore;
  formats: readonly ExportFormat[];
  usageDays(): number;
  currency(): string;
  /** The name of the installation. */
  issuer(): string;
  clock: Clock;
  log: Logger;
}

interface Sums {
  records: bigint;
  cost: bigint;
}

const hourMs = 3_600_000;
const dayMs = 86_400_000;

export const startUsageExport = (options: UsageExportOptions): PeriodicTask =>
  new PeriodicTask({
    everyMs: usageExportEveryMs,
    isImmediate: true,
    run: () => exportUsageHours(options),
    log: options.log,
    level: "warn",
    failed: "usage could not be exported",
    works: "usage is exported again",
  });

/** Exports the hours that are over and not exported as the ledger has them. */
export async function exportUsageHours(options: UsageExportOptions): Promise<void> {
  const { database, formats, usageDays, clock, log } = options;
  const now = clock.epoch();
  const end = new Date(now - (now % hourMs));
  const start = new Date(end.getTime() - Math.min(exportDays, usageDays()) * dayMs);
  const { rows } = await sql<{ hour: Date; format: ExportFormat }>`
    with sums as (
      select date_trunc('hour', half_hour, 'UTC') as hour, sum(requests)::bigint as records, sum(cost)::bigint as cost
      from usage_totals where half_hour >= ${start} and half_hour < ${end} group by 1
    )
    select hour, format from sums cross join unnest(${[...formats]}::text[]) as format
    left join usage_exports e using (hour, format)
    where sums.records > 0 and (e.records, e.cost) is distinct from (sums.records, sums.cost)
    order by hour, format`.execute(database);
  for (const { hour, format } of rows) {
    if (!(await claim(options, hour, format))) continue;
    const sums = { records: 0n, cost: 0n };
    const source = format === "jsonl" ? jsonLines(options, hour, sums) : focusLines(options, hour, sums);
    const release = (exported: Partial<Sums>) =>
      database
        .updateTable("usage_exports")
        .set({ ...exported, claimed_until: new Date(clock.epoch()) })
        .where("hour", "=", hour)
        .where("format", "=", format)
        .execute();
    try {
      await options.objects.put(objectNameOf(format, hour), Readable.from(source, { objectMode: false }));
    } catch (error) {
      await release({});
      throw error;
    }
    await release(sums);
    log.info({ hour, format, records: Number(sums.records) }, "usage was exported");
  }
}

/** Such as `usage/2026-11-27/09.jsonl`. */
const objectNameOf = (format: ExportFormat, hour: Date): string => {
  const [day, time = ""] = hour.toISOString().split("T");
  return `${format === "jsonl" ? "usage" : "focus"}/${day}/${time.slice(0, 2)}.${format === "jsonl" ? "jsonl" : "csv"}`;
};

/** False if another process exports this hour. The claim of one that died ends. */
async function claim({ database, clock }: UsageExportOptions, hour: Date, format: ExportFormat): Promise<boolean> {
  const [now, until] = [new Date(clock.epoch()), new Date(clock.epoch() + exportClaimMs)];
  const claimed = await database
    .insertInto("usage_exports")
    .values({ hour, format, claimed_until: until })
    .onConflict((conflict) =>
      conflict
        .columns(["hour", "format"])
        .doUpdateSet({ claimed_until: until })
        .where("usage_exports.claimed_until", "<=", now),
    )
    .returning("hour")
    .executeTakeFirst();
  return claimed !== undefined;
}

/** The records in their order. Counts what it yields. */
async function* jsonLines({ database, currency }: UsageExportOptions, hour: Date, sums: Sums): AsyncGenerator<Buffer> {
  for (let last: { received_at: Date; generation_id: string } | undefined; ; ) {
    const rows = await database
      .selectFrom("usage")
      .selectAll()
      .select(sql<boolean>`false`.as("has_content"))
      .where("received_at", ">=", hour)
      .where("received_at", "<", new Date(hour.getTime() + hourMs))
      .where(
        last === undefined
          ? sql<boolean>`true`
          : sql<boolean>`(received_at, generation_id) > (${last.received_at}, ${last.generation_id})`,
      )
      .orderBy("received_at")
      .orderBy("generation_id")
      .limit(exportRowsMax)
      .execute();
    const names = await keyNamesOf(
      rows.map(({ key_id }) => key_id),
      { database, scope: "all" },
    );
    const lines = rows.map((row) => {
      const { hasContent: _, ...record } = recordOf(row, names, true);
      return `${JSON.stringify({ ...record, currency: currency() })}\n`;
    });
    yield Buffer.from(lines.join(""));
    sums.records += BigInt(rows.length);
    for (const { cost } of rows) sums.cost += cost;
    last = rows.at(-1);
    if (rows.length < exportRowsMax) return;
  }
}

/** The rows of some keys at a time. Counts what it yields. */
async function* focusLines(options: UsageExportOptions, hour: Date, sums: Sums): AsyncGenerator<Buffer> {
  const { database, currency, issuer } = options;
  const context = { hour, currency: currency(), issuer: issuer() };
  yield Buffer.from(csvLinesOf([Object.fromEntries(focusColumns.map((name) => [name, name]))], focusColumns));
  const end = new Date(hour.getTime() + hourMs);
  for (let last: KeyOfUsage = { account: "", key_id: "" }; ; ) {
    const { rows: keys } = await sql<KeyOfUsage & Sums>`
      select account, key_id, count(*) as records, sum(cost)::bigint as cost from usage
      where received_at >= ${hour} and received_at < ${end} and (account, key_id) in (
        select distinct account, key_id from usage_totals
        where half_hour >= ${hour} and half_hour < ${end} and (account, key_id) > (${last.account}, ${last.key_id})
        order by account, key_id limit ${exportedKeysMax}
      )
      group by account, key_id order by account, key_id`.execute(database);
    const rows =
      keys.length === 0
        ? []
        : await focusRowsOf(
            database,
            keys.map(({ account, key_id }) => ({ account, key_id })),
            context,
          );
    yield Buffer.from(csvLinesOf(rows, focusColumns));
    for (const { records, cost } of keys) {
      sums.records += records;
      sums.cost += cost;
    }
    last = keys.at(-1) ?? last;
    if (keys.length < exportedKeysMax) return;
  }
}
