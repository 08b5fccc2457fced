/** The text forms of `sluice keys`: times, and the table of keys. */
import { type Limits, limitRows } from "#access/limits.ts";
import { type KeyRecord, stateOf } from "#access/record.ts";
import { createdSecondsOf } from "#catalogue/meaning.ts";
import { tableOf } from "./command.ts";

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Milliseconds of a duration such as 30m, 12h, 90d or 4w; undefined for any other text. */
export function durationOf(text: string): number | undefined {
  const [, amount, unit] = /^(\d{1,5})([mhdw])$/.exec(text) ?? [];
  return unit === undefined ? undefined : Number(amount) * unitMs[unit]!;
}

/**
 * Epoch milliseconds of a duration from now (30m, 12h, 90d, 4w) or a date, UTC unless it has an
 * offset; "faulty" unless it is in the future.
 */
export function expiryOf(text: string, now: number): number | "faulty" {
  const duration = durationOf(text);
  const expiresAt = duration === undefined ? dateOf(text) : now + duration;
  return expiresAt > now ? expiresAt : "faulty";
}

/** NaN for an invalid date. `Date.parse` alone accepts 31 February as 3 March. */
function dateOf(text: string): number {
  const [, day = ""] =
    /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? [];
  return createdSecondsOf(day) === undefined ? Number.NaN : Date.parse(text);
}

const limitTextOf = (limits: Limits = {}): string =>
  [
    ...limitRows.flatMap(({ name, unit }) => (limits[name] === undefined ? [] : [`${limits[name]}${unit}`])),
    ...(limits.onLimit === undefined ? [] : [limits.onLimit]),
  ].join(", ") || "those of its group";

/** One line for each key, below a header line. */
export function keyTableOf(records: readonly KeyRecord[], now: number): string {
  const timeTextOf = (ms: number | undefined) =>
    ms === undefined ? "never" : new Date(ms).toISOString().slice(0, 16).replace("T", " ");
  return tableOf([
    [
      "ID",
      "NAME",
      "GROUP",
      "KEY",
      "STATE",
      "CREATED (UTC)",
      "EXPIRES (UTC)",
      "MODELS",
      "ORIGINS",
      "ACCOUNT",
      "PRIORITY",
      "LIMITS",
    ],
    ...records.map((record) => [
      record.id,
      record.name,
      record.group,
      `…${record.hint}`,
      stateOf(record, now),
      timeTextOf(record.createdAt),
      timeTextOf(record.expiresAt),
      record.models?.join(",") ?? "all of its group",
      record.origins?.join(",") ?? "those of its group",
      record.account ?? "none",
      record.priority ?? "that of its group",
      limitTextOf(record.limits),
    ]),
  ]);
}
