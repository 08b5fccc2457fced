/**
 * Exports each hour of usage to the object store, once it is over. An hour is exported again when
 * its records arrive late or are replaced, and when an export was interrupted. Objects are replaced
 * as a whole, and a failure of one hour leaves the others alone.
 */
import { Readable } from "node:stream";
import { sql, type UpdateObject } from "kysely";
import type { Logger } from "pino";
import type { ObjectStore } from "#objects/object-store.ts";
import type { Clock } from "#service/clock.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import {
  exportClaimMs,
  exportDays,
  exportedKeysMax,
  exportFailuresMax,
  exportRowsMax,
  usageExportEveryMs,
} from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { Tables } from "../database/tables.ts";
import { csvLinesOf } from "./csv.ts";
import { focusColumns, focusRowsOf, type KeyOfUsage } from "./focus.ts";
import { insertionLock, outdatedExport } from "./insert.ts";
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

/**
 * Exports the hours that are over and not exported as the ledger has them. Rejects at the end if
 * one failed.
 */
export async function exportUsageHours(options: UsageExportOptions): Promise<void> {
  const { database, formats, usageDays, clock } = options;
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
    -- Hours that fail come last the next time.
    order by e.claimed_until nulls first, hour, format`.execute(database);
  await database.deleteFrom("usage_exports").where("hour", "<", start).execute();
  const failures: unknown[] = [];
  for (const { hour, format } of rows) {
    try {
      await exportHour(options, hour, format);
    } catch (error) {
      failures.push(error);
    }
    if (failures.length >= exportFailuresMax) break;
  }
  if (failures.length > 0) throw failures[0];
}

async function exportHour(options: UsageExportOptions, hour: Date, format: ExportFormat): Promise<void> {
  const { objects, log } = options;
  const claim = await Claim.of(options, hour, format);
  if (claim === undefined) return;
  const sums = { records: 0n, cost: 0n };
  const source = format === "jsonl" ? jsonLines(options, hour, sums) : focusLines(options, hour, sums);
  try {
    await objects.put(objectNameOf(format, hour), Readable.from(claim.during(source), { objectMode: false }));
  } catch (error) {
    await claim.end();
    throw new Error(`${objectNameOf(format, hour)}: ${(error as Error).message}`, { cause: error });
  }
  await claim.end(sums);
  log.info({ hour, format, records: Number(sums.records) }, "usage was exported");
}

/** Such as `usage/2026-11-27/09.jsonl`. */
const objectNameOf = (format: ExportFormat, hour: Date): string => {
  const [day, time = ""] = hour.toISOString().split("T");
  return `${format === "jsonl" ? "usage" : "focus"}/${day}/${time.slice(0, 2)}.${format === "jsonl" ? "jsonl" : "csv"}`;
};

/** Only one process exports an hour. The claim of one that died ends. */
class Claim {
  readonly #options: UsageExportOptions;
  readonly #hour: Date;
  readonly #format: ExportFormat;
  /** Names this claim: a later one ends later. */
  #until: Date;

  private constructor(options: UsageExportOptions, hour: Date, format: ExportFormat) {
    this.#options = options;
    this.#hour = hour;
    this.#format = format;
    this.#until = new Date(options.clock.epoch() + exportClaimMs);
  }

  /** Undefined if another process exports this hour. */
  static async of(options: UsageExportOptions, hour: Date, format: ExportFormat): Promise<Claim | undefined> {
    const claim = new Claim(options, hour, format);
    const until = claim.#until;
    const claimed = await options.database.transaction().execute(async (transaction) => {
      // A replacement of records is either read, or finds the row of this claim.
      await sql`select pg_advisory_xact_lock_shared(${insertionLock})`.execute(transaction);
      return transaction
        .insertInto("usage_exports")
        .values({ hour, format, claimed_until: until })
        .onConflict((conflict) =>
          conflict
            .columns(["hour", "format"])
            .doUpdateSet({ claimed_until: until, records: 0n })
            .where("usage_exports.claimed_until", "<=", new Date(options.clock.epoch())),
        )
        .returning("hour")
        .executeTakeFirst();
    });
    return claimed && claim;
  }

  /** The parts of `source`. Throws if another process has the hour meanwhile. */
  async *during(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
    for await (const part of source) {
      const until = new Date(this.#options.clock.epoch() + exportClaimMs);
      if (!(await this.#set({ claimed_until: until }))) throw lost();
      this.#until = until;
      yield part;
    }
  }

  /**
   * With the sums that were exported, unless the hour is outdated already. Rejects if another
   * process has the hour: its object may have been replaced by an older one, so it is outdated.
   */
  async end(sums?: Sums): Promise<void> {
    const ended = { claimed_until: new Date(this.#options.clock.epoch()) };
    if (sums === undefined) return void (await this.#set(ended));
    const records = sql<bigint>`case when records = ${outdatedExport} then records else ${sums.records} end`;
    if (await this.#set({ ...ended, records, cost: sums.cost })) return;
    await this.#row.set({ records: BigInt(outdatedExport) }).execute();
    throw lost();
  }

  /** False for a claim that is another's. */
  async #set(values: UpdateObject<Tables, "usage_exports">): Promise<boolean> {
    const { numUpdatedRows } = await this.#row.set(values).where("claimed_until", "=", this.#until).executeTakeFirst();
    return numUpdatedRows > 0n;
  }

  get #row() {
    const { database } = this.#options;
    return database.updateTable("usage_exports").where("hour", "=", this.#hour).where("format", "=", this.#format);
  }
}

const lost = (): Error => new Error("another process has begun to export this hour");

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
        select account, key_id from usage_totals
        where half_hour >= ${hour} and half_hour < ${end} and (account, key_id) > (${last.account}, ${last.key_id})
        group by account, key_id having sum(requests) > 0 order by account, key_id limit ${exportedKeysMax}
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
