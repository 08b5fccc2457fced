/** Inserts usage records, each once, however often and in whatever order they are delivered. */
import { type RawBuilder, sql } from "kysely";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Database } from "../database/database.ts";
import { countedAs, dimensionNames, discountedAs, measureNames, usageColumns } from "./columns.ts";

const fields = Object.entries(usageColumns) as [keyof UsageRecord, readonly [name: string, type: string]][];
const names = fields.map(([, [name]]) => name);
const list = (texts: readonly string[]): RawBuilder<unknown> => sql.raw(texts.join(", "));

/** Postgres' key of the lock that one insertion at a time holds. */
const insertionLock = 5_101_001;

/**
 * One transaction: a record of the ingress replaces that of a worker, a later attempt replaces an
 * earlier one, and the totals change by the difference. Resolves to the number of new or replaced
 * records. Insertions take turns, because a second one would not see what the first replaces.
 */
export async function insertUsage(database: Database, records: readonly UsageRecord[]): Promise<number> {
  if (records.length === 0) return 0;
  const rows = storable(JSON.stringify(records.map(rowOf)));
  return database.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${insertionLock})`.execute(transaction);
    const { rows: counted } = await insertion(rows).execute(transaction);
    return counted[0]?.changed ?? 0;
  });
}

/**
 * Postgres has neither the character U+0000 nor half of a surrogate pair in its texts; a caller's
 * user or tag may have both.
 */
const storable = (json: string): string =>
  json.replace(/\\\\|\\u0000|\\ud[89a-f][0-9a-f]{2}/g, (sequence) => (sequence === "\\\\" ? sequence : "\\ufffd"));

/** As the columns expect it. An unknown dimension is an empty text. */
function rowOf(record: UsageRecord): Record<string, unknown> {
  const row: Record<string, unknown> = {};
  for (const [field, [name]] of fields) row[name] = record[field];
  row.received_at = new Date(record.receivedAt);
  row.account = record.account ?? "";
  row.model = record.model ?? "";
  row.upstream = record.upstream ?? "";
  return row;
}

const recordset = list(fields.map(([, [name, type]]) => `${name} ${type.replace(" not null", "")}`));
const updated = list(
  names
    .filter((name) => name !== "generation_id" && name !== "received_at")
    .map((name) => `${name} = excluded.${name}`),
);
const groupPlaces = list(["", ...dimensionNames].map((_, index) => String(index + 1)));

/**
 * Adds the changes to a table of totals. Rows are locked in order, so that insertions do not wait
 * for each other in a circle.
 */
const added = (table: string, time: string, timeOf: string) => sql`
    insert into ${sql.table(table)} (${list([time, ...dimensionNames])}, ${list(measureNames)})
    select ${list([timeOf, ...dimensionNames])}, ${list(measureNames.map((name) => `sum(${name})::bigint`))}
    from changes group by ${groupPlaces} order by ${groupPlaces}
    on conflict (${list([time, ...dimensionNames])}) do update
    set ${list(measureNames.map((name) => `${name} = ${table}.${name} + excluded.${name}`))}`;

const insertion = (rows: string) => sql<{ changed: number }>`
  with incoming as (
    select distinct on (generation_id, received_at) *
    from json_to_recordset(${rows}::json) as r(${recordset})
    order by generation_id, received_at, is_owner desc, attempt desc
  ), present as (
    select usage.* from usage join incoming using (generation_id, received_at)
  ), written as (
    insert into usage (${list(names)}) select ${list(names)} from incoming
    on conflict (generation_id, received_at) do update set ${updated}
    where (excluded.is_owner, excluded.attempt) > (usage.is_owner, usage.attempt)
    returning *
  ), changes as (
    select ${sql.raw(countedAs)} from written
    union all
    select ${sql.raw(discountedAs)} from present
    where exists (select from written where (written.generation_id, written.received_at) = (present.generation_id, present.received_at))
  ), by_half_hour as (
    ${added("usage_totals", "half_hour", "half_hour")}
  ), by_day as (
    ${added("usage_days", "day", "date_trunc('day', half_hour, 'UTC')")}
  )
  select count(*)::int as changed from written`;
