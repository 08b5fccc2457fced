/**
 * Users, sessions and tags that have totals of their own: the first ones of each account and day,
 * and tags with limits. The others share one row. Once an account's day is full it stays so, which
 * makes the row of a label the same whenever its records arrive or are replaced.
 */
import { sql, type Transaction } from "kysely";
import { otherLabels } from "#api/vocabulary.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import { labelValuesMax } from "../bounds.ts";
import type { Tables } from "../database/tables.ts";
import { dimensionsOf, type LabelKind, labelsOf } from "./columns.ts";

/** Postgres' key of the lock of those who add labels. */
const labelsLock = 5_101_002;
const dayMs = 86_400_000;

interface Label {
  day: string;
  account: string;
  kind: LabelKind;
  value: string;
}

const nameOf = ({ day, account, kind, value }: Label): string => `${Date.parse(day)} ${account} ${kind} ${value}`;

const labelsOfRecord = (record: UsageRecord): Label[] =>
  labelsOf(record).map(([kind, value]) => ({
    day: new Date(Math.floor(record.receivedAt / dayMs) * dayMs).toISOString(),
    account: record.account ?? "",
    kind,
    value,
  }));

/**
 * The dimensions of the rows of labels in which a record counts, with kind and value at the end;
 * undefined if no record has a label, which then costs nothing. `isLimited`: tags with limits.
 */
export async function labelKeysOf(
  transaction: Transaction<Tables>,
  records: readonly UsageRecord[],
  isLimited: (tag: string) => boolean,
): Promise<((record: UsageRecord) => string[][]) | undefined> {
  const labels = new Map(records.flatMap(labelsOfRecord).map((label) => [nameOf(label), label]));
  if (labels.size === 0) return undefined;
  const own = await ownOf(transaction, [...labels.values()], isLimited);
  return (record) => {
    const dimensions = dimensionsOf(record);
    const keys = labelsOfRecord(record).map((label) => {
      const value = own.has(nameOf(label)) ? label.value : otherLabels;
      return [...dimensions, label.kind, value];
    });
    // Several tags beyond the bound are one.
    return [...new Map(keys.map((key) => [key.join("\0"), key])).values()];
  };
}

/** The names of those labels that have rows of their own, of which some may be new. */
async function ownOf(
  transaction: Transaction<Tables>,
  labels: readonly Label[],
  isLimited: (tag: string) => boolean,
): Promise<Set<string>> {
  const rowsOf = (some: readonly Label[]) => sql`json_to_recordset(${JSON.stringify(some)}::json)
    as l(day timestamptz, account text, kind text, value text, is_limited boolean)`;
  const { rows: present } = await sql<Omit<Label, "day"> & { day: Date }>`
    select l.day, l.account, l.kind, l.value from ${rowsOf(labels)}
    join label_values using (day, account, kind, value)`.execute(transaction);
  const own = new Set(present.map(({ day, ...label }) => nameOf({ ...label, day: day.toISOString() })));
  const fresh = labels.filter((label) => !own.has(nameOf(label)));
  if (fresh.length === 0) return own;
  await sql`select pg_advisory_xact_lock(${labelsLock})`.execute(transaction);
  const limited = fresh.map((label) => ({ ...label, is_limited: label.kind === "tag" && isLimited(label.value) }));
  // Another process may have added some of them before the lock.
  const { rows: added } = await sql<Omit<Label, "day"> & { day: Date }>`
    with fresh as (
      select *, row_number() over (partition by day, account, kind, is_limited order by value) as place from ${rowsOf(limited)}
    ), counts as (
      select day, account, kind, count(*) as count from label_values
      where (day, account, kind) in (select day, account, kind from fresh) group by day, account, kind
    )
    insert into label_values (day, account, kind, value)
    select day, account, kind, value from fresh left join counts using (day, account, kind)
    where is_limited or coalesce(count, 0) + place <= ${labelValuesMax}
      or exists (select from label_values v where (v.day, v.account, v.kind, v.value) = (fresh.day, fresh.account, fresh.kind, fresh.value))
    on conflict (day, account, kind, value) do update set value = excluded.value
    returning day, account, kind, value`.execute(transaction);
  for (const { day, ...label } of added) own.add(nameOf({ ...label, day: day.toISOString() }));
  return own;
}
