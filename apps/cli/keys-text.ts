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
  const [, day] =
    /^(\d{4}-\d{2}-\d{2})(?:T\d{2}:\d{2}(?::\d{2}(?:\.\d{1,3})?)?(?:Z|[+-]\d{2}:\d{2}))?$/.exec(text) ?? [];
  const midnight = day === undefined ? Number.NaN : Date.parse(day);
  return day !== undefined && !Number.isNaN(midnight) && new Date(midnight).toISOString().startsWith(day)
    ? Date.parse(text)
    : Number.NaN;
}

/** The options that give a key limits of its own, each with the limit's name and how it is shown. */
const limitWords = {
  "requests-per-minute": { limit: "requestsPerMinute", unit: "requests/min", form: /^[1-9]\d{0,8}$/ },
  "tokens-per-minute": { limit: "tokensPerMinute", unit: "tokens/min", form: /^[1-9]\d{0,11}$/ },
  generations: { limit: "generationsMax", unit: "at once", form: /^[1-9]\d{0,5}$/ },
  "budget-per-day": { limit: "budgetPerDay", unit: "/day", form: /^\d{1,6}(\.\d{1,6})?$/ },
  "budget-per-month": { limit: "budgetPerMonth", unit: "/month", form: /^\d{1,6}(\.\d{1,6})?$/ },
} as const;

const limitOption = { type: "string" } as const;
export const limitOptions = {
  "requests-per-minute": limitOption,
  "tokens-per-minute": limitOption,
  generations: limitOption,
  "budget-per-day": limitOption,
  "budget-per-month": limitOption,
} satisfies Record<keyof typeof limitWords, typeof limitOption>;

/** A key's own limits; undefined when none was given, and a text for what can't be understood. */
export function limitsOf(
  values: { readonly [Option in keyof typeof limitWords]?: string | undefined },
): KeyRecord["limits"] | string {
  const given = Object.entries(limitWords).flatMap(([option, { limit, form }]) => {
    const text = values[option as keyof typeof limitWords];
    return text === undefined ? [] : [{ option, limit, text, isGood: form.test(text) }];
  });
  const bad = given.find(({ isGood }) => !isGood);
  if (bad)
    return `--${bad.option} must be ${bad.option.startsWith("budget") ? "an amount such as 2.50, of at most 999999" : "a whole number from 1"}`;
  return given.length === 0 ? undefined : Object.fromEntries(given.map(({ limit, text }) => [limit, Number(text)]));
}

const limitTextOf = (limits: KeyRecord["limits"]): string =>
  Object.values(limitWords)
    .flatMap(({ limit, unit }) =>
      limits?.[limit] === undefined ? [] : [`${limits[limit]}${unit.startsWith("/") ? "" : " "}${unit}`],
    )
    .join(", ") || "those of its group";

/** One line for each key, under a line of titles. */
export function keyTableOf(records: readonly KeyRecord[], now: number): string {
  const timeTextOf = (ms: number | undefined) =>
    ms === undefined ? "never" : new Date(ms).toISOString().slice(0, 16).replace("T", " ");
  const rows = records.map((record) => [
    record.id,
    record.name,
    record.group,
    `…${record.hint}`,
    stateOf(record, now),
    timeTextOf(record.createdAt),
    timeTextOf(record.expiresAt),
    record.models?.join(",") ?? "all of its group",
    record.account ?? "none",
    limitTextOf(record.limits),
  ]);
  const table = [
    ["ID", "NAME", "GROUP", "KEY", "STATE", "CREATED (UTC)", "EXPIRES (UTC)", "MODELS", "ACCOUNT", "LIMITS"],
    ...rows,
  ];
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
