/** The totals of a batch of records, by half hour and by day (UTC). */
import type { UsageRecord } from "#ledger/usage-record.ts";
import { dimensionsOf, measureFunctions } from "./columns.ts";

/** `dimensions` and `sums` are in the order of the columns. */
interface TotalRow {
  /** Epoch milliseconds. */
  readonly at: number;
  readonly dimensions: readonly string[];
  readonly sums: (number | bigint)[];
}

const halfHourMs = 1_800_000;
const dayMs = 86_400_000;

export interface BatchTotals {
  halfHours: TotalRow[];
  days: TotalRow[];
}

/**
 * `keysOf`: the dimensions of the rows in which a record counts; each record in one by default.
 */
export function totalsOf(
  records: readonly UsageRecord[],
  keysOf: (record: UsageRecord) => readonly string[][] = (record) => [dimensionsOf(record)],
): BatchTotals {
  const halfHours = new Totals(halfHourMs);
  for (const record of records)
    for (const key of keysOf(record)) {
      const { sums } = halfHours.at(record.receivedAt, key);
      measureFunctions.forEach((measure, index) => {
        sums[index] = plus(sums[index] ?? 0, measure(record));
      });
    }
  const days = new Totals(dayMs);
  for (const { at, dimensions, sums } of halfHours.rows) {
    const day = days.at(at, dimensions);
    sums.forEach((value, index) => {
      day.sums[index] = plus(day.sums[index] ?? 0, value);
    });
  }
  return { halfHours: halfHours.rows, days: days.rows };
}

/** The rows of a table of totals, by period and dimensions. */
class Totals {
  readonly #periodMs: number;
  readonly #rows = new Map<string, TotalRow>();

  constructor(periodMs: number) {
    this.#periodMs = periodMs;
  }

  get rows(): TotalRow[] {
    return [...this.#rows.values()];
  }

  /** The row of this time, which may be a new one. */
  at(time: number, dimensions: readonly string[]): TotalRow {
    const at = Math.floor(time / this.#periodMs) * this.#periodMs;
    const key = `${at}\0${dimensions.join("\0")}`;
    const row = this.#rows.get(key) ?? { at, dimensions, sums: [] };
    this.#rows.set(key, row);
    return row;
  }
}

/** Exact: a sum that a number does not represent is a bigint. */
function plus(left: number | bigint, right: number | bigint): number | bigint {
  if (typeof left === "number" && typeof right === "number") {
    const sum = left + right;
    if (Number.isSafeInteger(sum)) return sum;
  }
  return BigInt(left) + BigInt(right);
}
