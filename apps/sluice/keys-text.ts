/** How `sluice keys` reads times and writes tables. */
import { type KeyRecord, stateOf } from "#access/record.ts";

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Epoch milliseconds of a time from now (30m, 12h, 90d, 4w) or a date (its first moment in UTC, or with a time); "faulty" unless it lies ahead. */
export function expiryOf(text: string, now: number): number | "faulty" {
  const [, amount, unit] = /^(\d{1,5})([mhdw])$/.exec(text) ?? [];
  const expiresAt = unit === undefined ? dateOf(text) : now + Number(amount) * unitMs[unit]!;
  return expiresAt > now ? expiresAt : "faulty";
}

/** NaN for what is no date; `Date.parse` alone would take 31 February for 3 March. */
function dateOf(text: string): number {
  const [, day] = /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? [];
  const midnight = day === undefined ? Number.NaN : Date.parse(day);
  return day !== undefined && !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day) ? Date.parse(text) : Number.NaN;
}

/** One line for each key, under a line of titles. */
export function keyTableOf(records: readonly KeyRecord[], now: number): string {
  const timeTextOf = (ms: number | undefined) => (ms === undefined ? "never" : new Date(ms).toISOString().slice(0, 16).replace("T", " "));
  const rows = records.map((record) => [
    record.id,
    record.name,
    record.group,
    `…${record.hint}`,
    stateOf(record, now),
    timeTextOf(record.createdAt),
    timeTextOf(record.expiresAt),
    record.models?.join(",") ?? "all of its group",
  ]);
  const table = [["ID", "NAME", "GROUP", "KEY", "STATE", "CREATED (UTC)", "EXPIRES (UTC)", "MODELS"], ...rows];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  return table
    .map(
      (row) =>
        `${row
          .map((cell, column) => cell.padEnd(widths[column]!))
          .join("  ")
          .trimEnd()}\n`,
    )
    .join("");
}
