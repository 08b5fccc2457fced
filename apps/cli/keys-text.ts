/** The text forms of `sluice keys`: times, limits and the table of keys. */
import { Value } from "typebox/value";
import { type LimitOption, type Limits, limitRows, limitSchemaOf } from "#access/limits.ts";
import { type KeyRecord, stateOf } from "#access/record.ts";
import { createdSecondsOf } from "#catalogue/meaning.ts";

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Epoch milliseconds of a duration from now (30m, 12h, 90d, 4w) or a date, UTC unless it has an offset; "faulty" unless it is in the future. */
export function expiryOf(text: string, now: number): number | "faulty" {
  const [, amount, unit] = /^(\d{1,5})([mhdw])$/.exec(text) ?? [];
  const expiresAt = unit === undefined ? dateOf(text) : now + Number(amount) * unitMs[unit]!;
  return expiresAt > now ? expiresAt : "faulty";
}

/** NaN for an invalid date. `Date.parse` alone accepts 31 February as 3 March. */
function dateOf(text: string): number {
  const [, day = ""] =
    /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? [];
  return createdSecondsOf(day) === undefined ? Number.NaN : Date.parse(text);
}

/** An option of `sluice keys create` for each limit. */
export const limitOptions = Object.fromEntries(limitRows.map(({ option }) => [option, { type: "string" }])) as {
  [Option in LimitOption]: { type: "string" };
};

/** The options' help, a line each. */
export const limitHelp = limitRows
  .map(({ option, description }) => `  ${`--${option} <n>`.padEnd(28)}${description}\n`)
  .join("");

/** The limits that the options set; a text describes an invalid value. */
export function limitsOf(values: { readonly [Option in LimitOption]?: string | undefined }): Limits | string {
  const limits: { -readonly [Name in keyof Limits]: Limits[Name] } = {};
  for (const row of limitRows) {
    const { name, option, counter, minimum, maximum } = row;
    const text = values[option];
    if (text === undefined) continue;
    if (!/^\d{1,13}(\.\d{1,6})?$/.test(text) || !Value.Check(limitSchemaOf(row), Number(text)))
      return `--${option} must be ${counter === "money" ? "an amount such as 2.50," : "an integer"} from ${minimum} to ${maximum}`;
    limits[name] = Number(text);
  }
  return limits;
}

const limitTextOf = (limits: Limits = {}): string =>
  limitRows.flatMap(({ name, unit }) => (limits[name] === undefined ? [] : [`${limits[name]}${unit}`])).join(", ") ||
  "those of its group";

/** One line for each key, below a header line. */
export function keyTableOf(records: readonly KeyRecord[], now: number): string {
  const timeTextOf = (ms: number | undefined) =>
    ms === undefined ? "never" : new Date(ms).toISOString().slice(0, 16).replace("T", " ");
  const table = [
    ["ID", "NAME", "GROUP", "KEY", "STATE", "CREATED (UTC)", "EXPIRES (UTC)", "MODELS", "ORIGINS", "ACCOUNT", "LIMITS"],
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
      limitTextOf(record.limits),
    ]),
  ];
  const widths = table[0]!.map((_, column) => Math.max(...table.map((row) => row[column]!.length)));
  const lineOf = (row: string[]) => row.map((cell, column) => cell.padEnd(widths[column]!)).join("  ");
  return table.map((row) => `${lineOf(row).trimEnd()}\n`).join("");
}
