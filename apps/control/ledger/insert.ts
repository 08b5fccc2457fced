/** Inserts usage records, each once, however often and in whatever order they are delivered. */
import { type RawBuilder, sql, type Transaction } from "kysely";
import { otherLabels } from "#api/vocabulary.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import { copyLine, copyNull, copyOf, copyText } from "../database/copy-text.ts";
import type { Database } from "../database/database.ts";
import type { Tables } from "../database/tables.ts";
import {
  countedAs,
  dimensionNames,
  discountedAs,
  labelsSql,
  measureNames,
  storableText,
  usageColumns,
} from "./columns.ts";
import { labelKeysOf } from "./labels.ts";
import { type BatchTotals, totalsOf } from "./totals.ts";

const fields = Object.entries(usageColumns) as [keyof UsageRecord, readonly [name: string, type: string]][];
const names = fields.map(([, [name]]) => name);
const list = (texts: readonly string[]): RawBuilder<unknown> => sql.raw(texts.join(", "));

/**
 * Postgres' key of the lock of insertions: those that add rows share it, and one that replaces rows
 * has it alone, because it would not see rows that another one adds meanwhile.
 */
export const insertionLock = 5_101_001;
/** In place of the number of records of an exported hour: one of its records was replaced since. */
export const outdatedExport = -1;
/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const uniqueViolation = "23505";

/**
 * A record of the ingress replaces that of a worker, a later attempt replaces an earlier one, a
 * later record of an attempt too, and the totals change by the difference, each time in one
 * transaction. Resolves to the number of new or replaced records. New records cost least; the
 * database is asked for others only if it has any. `isLimited`: tags with limits have totals of
 * their own in any case.
 */
export async function insertUsage(
  database: Database,
  records: readonly UsageRecord[],
  isLimited: (tag: string) => boolean = () => false,
): Promise<number> {
  const decisive = decisiveOf(records);
  try {
    return await add(database, decisive, isLimited);
  } catch (error) {
    if (!isUniqueViolation(error)) throw error;
  }
  const { fresh, replacing } = await comparedWith(database, decisive);
  const replaced = await merge(database, replacing, isLimited);
  try {
    return replaced + (await add(database, fresh, isLimited));
  } catch (error) {
    // Another process has added one of them meanwhile.
    if (!isUniqueViolation(error)) throw error;
    return replaced + (await merge(database, fresh, isLimited));
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
  const { rows } = await sql<{ place: number; isOwner: boolean; attempt: number; durationMs: number }>`
    select place::int, is_owner as "isOwner", attempt, duration_ms::float8 as "durationMs"
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

const rankOf = ({ isOwner, attempt, durationMs }: Pick<UsageRecord, "isOwner" | "attempt" | "durationMs">): number =>
  (isOwner ? 2 ** 48 : 0) + attempt * 2 ** 32 + Math.min(durationMs, 2 ** 32 - 1);

/** Adds records that are new. Rejects with a unique violation if one is not. */
async function add(
  database: Database,
  records: readonly UsageRecord[],
  isLimited: (tag: string) => boolean,
): Promise<number> {
  if (records.length === 0) return 0;
  return database.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock_shared(${insertionLock})`.execute(transaction);
    await transaction.executeQuery(copyOf("usage", names, records.map(copiedRow).join("")));
    await addTotals(transaction, "usage", dimensionNames, totalsOf(records));
    const keysOf = await labelKeysOf(transaction, records, isLimited);
    if (keysOf !== undefined) await addTotals(transaction, "label", labelNames, totalsOf(records, keysOf));
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

const labelNames = [...dimensionNames, "kind", "value"];

/**
 * Adds rows to a table of totals. `rows` selects them in the order of their keys, so that
 * insertions lock in one order and do not wait for each other in a circle.
 */
function addition(table: string, keys: readonly string[], rows: RawBuilder<unknown>): RawBuilder<unknown> {
  const sums = list(measureNames.map((name) => `${name} = ${table}.${name} + excluded.${name}`));
  return sql`
    insert into ${sql.table(table)} (${list(keys)}, ${list(measureNames)}) ${rows}
    on conflict (${list(keys)}) do update set ${sums}`;
}

/** The two tables of totals with this prefix, and the column of the time of each. */
const tablesOf = (prefix: "usage" | "label") =>
  [
    { table: `${prefix}_totals`, time: "half_hour", of: "halfHours" },
    { table: `${prefix}_days`, time: "day", of: "days" },
  ] as const;

async function addTotals(
  transaction: Transaction<Tables>,
  prefix: "usage" | "label",
  names: readonly string[],
  totals: BatchTotals,
): Promise<void> {
  const measured = measureNames.map((name) => `${name} bigint`);
  for (const { table, time, of } of tablesOf(prefix)) {
    const keys = [time, ...names];
    const types = [`${time} timestamptz`, ...names.map((name) => `${name} text`)];
    const objects = totals[of].map(({ at, dimensions, sums }) =>
      Object.fromEntries([
        [time, new Date(at)],
        ...names.map((name, index) => [name, dimensions[index]]),
        ...measureNames.map((name, index) => [name, String(sums[index])]),
      ]),
    );
    const selected = sql`
      select ${list(keys)}, ${list(measureNames)}
      from json_to_recordset(${JSON.stringify(objects)}::json) as r(${list([...types, ...measured])})
      order by ${list(keys)}`;
    await addition(table, keys, selected).execute(transaction);
  }
}

/** Adds, replaces or ignores records. Only one merge runs at a time. */
async function merge(
  database: Database,
  records: readonly UsageRecord[],
  isLimited: (tag: string) => boolean,
): Promise<number> {
  if (records.length === 0) return 0;
  return database.transaction().execute(async (transaction) => {
    await sql`select pg_advisory_xact_lock(${insertionLock})`.execute(transaction);
    await labelKeysOf(transaction, records, isLimited);
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
/** Adds the changes to a table of totals. `from` has them with the time as `half_hour`. */
function added(
  { table, time }: ReturnType<typeof tablesOf>[number],
  names: readonly string[],
  from: string,
): RawBuilder<unknown> {
  const timeOf = time === "day" ? "date_trunc('day', half_hour, 'UTC')" : time;
  const places = list([time, ...names].map((_, index) => String(index + 1)));
  return addition(
    table,
    [time, ...names],
    sql`
    select ${list([timeOf, ...names])}, ${list(measureNames.map((name) => `sum(${name})::bigint`))}
    from ${sql.table(from)} group by ${places} order by ${places}`,
  );
}
const [usageTotals, usageDays] = tablesOf("usage");
const [labelTotals, labelDays] = tablesOf("label");

/** The labels of each row of `usage`, in the rows in which they count. */
const labelled = (from: string) => sql`
  ${sql.table(from)} r cross join lateral (
    select distinct l.kind, coalesce(v.value, ${sql.lit(otherLabels)}) as value from (${sql.raw(labelsSql)}) l
    left join label_values v on (v.day, v.account, v.kind, v.value) = (date_trunc('day', r.received_at, 'UTC'), r.account, l.kind, l.value)
  ) label`;

const merging = (rows: string) => sql<{ changed: number }>`
  with incoming as (
    select distinct on (generation_id, received_at) *
    from json_to_recordset(${rows}::json) as r(${recordset})
    order by generation_id, received_at, is_owner desc, attempt desc, duration_ms desc
  ), present as (
    select usage.* from usage join incoming using (generation_id, received_at)
  ), written as (
    insert into usage (${list(names)}) select ${list(names)} from incoming
    on conflict (generation_id, received_at) do update set ${updated}
    where (excluded.is_owner, excluded.attempt, excluded.duration_ms) > (usage.is_owner, usage.attempt, usage.duration_ms)
    returning *
  ), replaced as (
    select * from present
    where exists (select from written where (written.generation_id, written.received_at) = (present.generation_id, present.received_at))
  ), changes as (
    select ${sql.raw(countedAs)} from written union all select ${sql.raw(discountedAs)} from replaced
  ), label_changes as (
    select label.kind, label.value, ${sql.raw(countedAs)} from ${labelled("written")}
    union all select label.kind, label.value, ${sql.raw(discountedAs)} from ${labelled("replaced")}
  ), outdated as (
    update usage_exports set records = ${sql.lit(outdatedExport)}
    where hour in (select date_trunc('hour', received_at, 'UTC') from replaced)
  ), by_half_hour as (
    ${added(usageTotals, dimensionNames, "changes")}
  ), by_day as (
    ${added(usageDays, dimensionNames, "changes")}
  ), labels_by_half_hour as (
    ${added(labelTotals, labelNames, "label_changes")}
  ), labels_by_day as (
    ${added(labelDays, labelNames, "label_changes")}
  )
  select count(*)::int as changed from written`;
