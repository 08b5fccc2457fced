/** Inserts usage records, each once, however often and in whatever order they are delivered. */
import { type RawBuilder, sql, type Transaction } from "kysely";
import type { UsageRecord } from "#ledger/usage-record.ts";
import { copyLine, copyNull, copyOf, copyText } from "../database/copy-text.ts";
import type { Database } from "../database/database.ts";
import type { Tables } from "../database/tables.ts";
import { countedAs, dimensionNames, discountedAs, measureNames, storableText, usageColumns } from "./columns.ts";
import { type TotalRow, totalsOf } from "./totals.ts";

const fields = Object.entries(usageColumns) as [keyof UsageRecord, readonly [name: string, type: string]][];
const names = fields.map(([, [name]]) => name);
const list = (texts: readonly string[]): RawBuilder<unknown> => sql.raw(texts.join(", "));

/**
 * Postgres' key of the lock of insertions: those that add rows share it, and one that replaces rows
 * has it alone, because it would not see rows that another one adds meanwhile.
 */
const insertionLock = 5_101_001;
/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const uniqueViolation = "23505";

/**
 * A record of the ingress replaces that of a worker, a later attempt replaces an earlier one, and
 * the totals change by the difference, each time in one transaction. Resolves to the number of new
 * or replaced records. New records cost least; the database is asked for others only if it has any.
 */
export async function insertUsage(database: Database, records: readonly UsageRecord[]): Promise<number> {
  const decisive = decisiveOf(records);
  try {
    return await add(database, decisive);
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
  }
  const { fresh, replacing } = await comparedWith(database, decisive);
  const replaced = await merge(database, replacing);
  try {
    return replaced + (await add(database, fresh));
  } catch (error) {
    // Another process has added one of them meanwhile.
    if (!isUniqueViolation(error)) throw error;
    return replaced + (await merge(database, fresh));
  }
}

const isUniqueViolation = (error: unknown): boolean => (error as { code?: unknown }).code === uniqueViolation;

/** Records without a row, and records that replace one. The others change nothing. */
async function comparedWith(
  database: Database,
  records: readonly UsageRecord[],
): Promise<{ fresh: UsageRecord[]; replacing: UsageRecord[] }> {
  const keys = records.map(({ generationId, receivedAt }) => ({
    id: storableText(generationId),
    at: new Date(receivedAt),
  }));
  const { rows } = await sql<{ place: number; isOwner: boolean; attempt: number }>`
    select place::int, is_owner as "isOwner", attempt
    from rows from (json_to_recordset(${JSON.stringify(keys)}::json) as (id text, at timestamptz)) with ordinality as k(id, at, place)
    join usage on generation_id = id and received_at = at`.execute(database);
  const present = new Map(rows.map((row) => [row.place - 1, rankOf(row)]));
  return {
    fresh: records.filter((_, place) => !present.has(place)),
    replacing: records.filter((record, place) => rankOf(record) > (present.get(place) ?? Number.POSITIVE_INFINITY)),
  };
}

/** The record of each generation that replaces its others. */
function decisiveOf(records: readonly UsageRecord[]): UsageRecord[] {
  const decisive = new Map<string, UsageRecord>();
  for (const record of records) {
    const key = `${record.receivedAt} ${record.generationId}`;
    const other = decisive.get(key);
    if (other === undefined || rankOf(record) > rankOf(other)) decisive.set(key, record);
  }
  return [...decisive.values()];
}

const rankOf = ({ isOwner, attempt }: Pick<UsageRecord, "isOwner" | "attempt">): number =>
  (isOwner ? 0x1_0000 : 0) + attempt;

/** Adds records that are new. Rejects with a unique violation if one is not. */
async function add(database: Database, records: readonly UsageRecord[]): Promise<number> {
  if (records.length === 0) return 0;
  return database.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock_shared(${insertionLock})`.execute(transaction);
    await transaction.executeQuery(copyOf("usage", names, records.map(copiedRow).join("")));
    const { halfHours, days } = totalsOf(records);
    await addTotals(transaction, "usage_totals", "half_hour", halfHours);
    await addTotals(transaction, "usage_days", "day", days);
    return records.length;
  });
}

/** The columns in their order; the kind of a type is without its other words. */
const copiedColumns = fields.map(([field, [, type]]) => ({ field, kind: type.split(" ", 1)[0] }));

const copiedRow = (record: UsageRecord): string =>
  copyLine(
    copiedColumns.map(({ field, kind }) => {
      const value = storedValue(record, field);
      if (value === null) return copyNull;
      if (kind === "text") return copyText(storableText(value as string));
      return kind === "jsonb" ? copyText(storable(JSON.stringify(value))) : String(value);
    }),
  );

/** As the column expects it. */
const storedValue = (record: UsageRecord, field: keyof UsageRecord) =>
  field === "receivedAt"
    ? new Date(record.receivedAt).toISOString()
    : (record[field] ?? (unknownDimensions.has(field) ? "" : null));

/** An unknown dimension is an empty text. */
const unknownDimensions: ReadonlySet<keyof UsageRecord> = new Set(["account", "model", "upstream"]);

/**
 * Adds rows to a table of totals. `rows` selects them in the order of their keys, so that
 * insertions lock in one order and do not wait for each other in a circle.
 */
function addition(table: string, time: string, rows: RawBuilder<unknown>): RawBuilder<unknown> {
  const keys = list([time, ...dimensionNames]);
  const sums = list(measureNames.map((name) => `${name} = ${table}.${name} + excluded.${name}`));
  return sql`
    insert into ${sql.table(table)} (${keys}, ${list(measureNames)}) ${rows}
    on conflict (${keys}) do update set ${sums}`;
}

async function addTotals(
  transaction: Transaction<Tables>,
  table: string,
  time: string,
  rows: readonly TotalRow[],
): Promise<void> {
  const keys = [time, ...dimensionNames];
  const types = [`${time} timestamptz`, ...dimensionNames.map((name) => `${name} text`)];
  const measured = measureNames.map((name) => `${name} bigint`);
  const objects = rows.map(({ at, dimensions, sums }) =>
    Object.fromEntries([
      [time, new Date(at)],
      ...dimensionNames.map((name, index) => [name, dimensions[index]]),
      ...measureNames.map((name, index) => [name, String(sums[index])]),
    ]),
  );
  const selected = sql`
    select ${list(keys)}, ${list(measureNames)}
    from json_to_recordset(${JSON.stringify(objects)}::json) as r(${list([...types, ...measured])})
    order by ${list(keys)}`;
  await addition(table, time, selected).execute(transaction);
}

/** Adds, replaces or ignores records. Only one merge runs at a time. */
async function merge(database: Database, records: readonly UsageRecord[]): Promise<number> {
  if (records.length === 0) return 0;
  return database.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${insertionLock})`.execute(transaction);
    const { rows } = await merging(storable(JSON.stringify(records.map(rowOf)))).execute(transaction);
    return rows[0]?.changed ?? 0;
  });
}

/**
 * Postgres has neither the character U+0000 nor half of a surrogate pair in its texts; a caller's
 * user or tag may have both.
 */
const storable = (json: string): string =>
  json.replace(/\\\\|\\u0000|\\ud[89a-f][0-9a-f]{2}/g, (sequence) => (sequence === "\\\\" ? sequence : "\\ufffd"));

const rowOf = (record: UsageRecord): Record<string, unknown> =>
  Object.fromEntries(fields.map(([field, [name]]) => [name, storedValue(record, field)]));

const recordset = list(fields.map(([, [name, type]]) => `${name} ${type.replace(" not null", "")}`));
const updated = list(
  names
    .filter((name) => name !== "generation_id" && name !== "received_at")
    .map((name) => `${name} = excluded.${name}`),
);
const groupPlaces = list(["", ...dimensionNames].map((_, index) => String(index + 1)));

/** Adds the changes to a table of totals. */
const added = (table: string, time: string, timeOf: string) =>
  addition(
    table,
    time,
    sql`
    select ${list([timeOf, ...dimensionNames])}, ${list(measureNames.map((name) => `sum(${name})::bigint`))}
    from changes group by ${groupPlaces} order by ${groupPlaces}`,
  );

const merging = (rows: string) => sql<{ changed: number }>`
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
