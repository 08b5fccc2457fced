/** The totals of a batch of records, by half hour and by day (UTC). */
import type { UsageRecord } from "#ledger/usage-record.ts";
import { dimensionsOf, measuresOf } from "./columns.ts";

/** `dimensions` and `sums` are in the order of the columns. */
export interface TotalRow {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly dimensions: readonly string[];
  readonly sums: readonly (number | bigint)[];
}

const halfHourMs = 1_800_000;
const dayMs = 86_400_000;

export function totalsOf(records: readonly UsageRecord[]): { halfHours: TotalRow[]; days: TotalRow[] } {
  const halfHours = summed(
    records.map((record) => ({ at: record.receivedAt, dimensions: dimensionsOf(record), sums: measuresOf(record) })),
    halfHourMs,
  );
  return { halfHours, days: summed(halfHours, dayMs) };
}

/** Adds up the rows of one period and the same dimensions. */
function summed(rows: readonly TotalRow[], periodMs: number): TotalRow[] {
  const totals = new Map<string, TotalRow & { sums: (number | bigint)[] }>();
  for (const { at, dimensions, sums } of rows) {
    const start = Math.floor(at / periodMs) * periodMs;
    const key = [start, ...dimensions].join("\0");
    const total = totals.get(key);
    if (total === undefined) totals.set(key, { at: start, dimensions, sums: [...sums] });
    else for (const [index, value] of sums.entries()) total.sums[index] = plus(total.sums[index] ?? 0, value);
  }
  return [...totals.values()];
}

const plus = (left: number | bigint, right: number | bigint): number | bigint =>
  typeof left === "number" && typeof right === "number" ? left + right : BigInt(left) + BigInt(right);
