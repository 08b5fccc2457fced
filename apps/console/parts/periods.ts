/**
 * Ranges of time, the period before each, and the steps of a plot. Days and months are those of the
 * browser's time zone.
 */

export const rangeNames = ["today", "yesterday", "24h", "7d", "30d", "month", "last-month", "custom"] as const;
export type RangeName = (typeof rangeNames)[number];
const intervals = ["half-hour", "hour", "day", "month"] as const;
export type Interval = (typeof intervals)[number];

/** In epoch milliseconds: from `from` on, before `to`. */
export interface Period {
  readonly from: number;
  readonly to: number;
}

const minute = 60_000;
const hour = 60 * minute;
const halfHour = 30 * minute;
const day = 24 * hour;

const floorTo = (step: number, ms: number) => ms - (ms % step);

/** The search part of an address. */
export interface PeriodSearch {
  range?: string | undefined;
  from?: string | undefined;
  to?: string | undefined;
}

export const rangeNameOf = ({ range, from, to }: PeriodSearch, byDefault: RangeName): RangeName =>
  (rangeNames as readonly string[]).includes(range ?? "")
    ? (range as RangeName)
    : from !== undefined || to !== undefined
      ? "custom"
      : byDefault;

/**
 * A range that ends now ends with the half hour that has begun, so that it changes only every half
 * hour.
 */
export function periodOf(search: PeriodSearch, byDefault: RangeName, now: number): Period {
  const end = floorTo(halfHour, now) + halfHour;
  const date = new Date(now);
  const months = (from: number, to: number) => ({ from: monthOf(date, from), to: monthOf(date, to) });
  switch (rangeNameOf(search, byDefault)) {
    case "today":
      return { from: date.setHours(0, 0, 0, 0), to: end };
    case "yesterday": {
      const to = date.setHours(0, 0, 0, 0);
      return { from: dayBefore(to), to };
    }
    case "24h":
      return { from: end - day, to: end };
    case "7d":
      return { from: end - 7 * day, to: end };
    case "30d":
      return { from: end - 30 * day, to: end };
    case "month":
      return { ...months(0, 1), to: end };
    case "last-month":
      return months(-1, 0);
    case "custom": {
      const to = timeOf(search.to) ?? end;
      const from = timeOf(search.from) ?? to - day;
      return from < to ? { from, to } : { from: to, to: Math.max(from, to + halfHour) };
    }
  }
}

const monthOf = (date: Date, offset: number) => new Date(date.getFullYear(), date.getMonth() + offset, 1).getTime();

function timeOf(text: string | undefined): number | undefined {
  const ms = text === undefined ? Number.NaN : Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

/**
 * The period to compare with: the day, or as much of the month, before; otherwise as long a time
 * just before.
 */
export function periodBefore(period: Period, name: RangeName): Period {
  const { from, to } = period;
  if (name === "today" || name === "yesterday") return { from: dayBefore(from), to: dayBefore(to) };
  if (name === "last-month") return { from: monthOf(new Date(from), -1), to: from };
  if (name === "month") {
    const start = monthOf(new Date(from), -1);
    return { from: start, to: Math.min(start + (to - from), from) };
  }
  return { from: from - (to - from), to: from };
}

function dayBefore(ms: number): number {
  const date = new Date(ms);
  return date.setDate(date.getDate() - 1);
}

/**
 * More steps than this are too fine for a plot, and nine groups of them for an answer of the API.
 */
const stepsMax = 1_000;

/** The intervals with steps enough for a plot, and not too many. */
export const intervalsFor = ({ from, to }: Period): Interval[] =>
  intervals.filter(
    (name) => (to - from) / shortest[name] <= stepsMax && (name === "half-hour" || shortest[name] < to - from),
  );

const shortest = { "half-hour": halfHour, hour, day: 23 * hour, month: 28 * day } as const satisfies Record<
  Interval,
  number
>;

/**
 * The interval that is asked for if it fits, otherwise one with some fifty to two hundred steps.
 */
export function intervalOf(period: Period, preferred?: string): Interval {
  const fitting = intervalsFor(period);
  if ((fitting as string[]).includes(preferred ?? "")) return preferred as Interval;
  const length = period.to - period.from;
  if (length <= 26 * hour) return "half-hour";
  if (length <= 8 * day) return "hour";
  return length <= 190 * day ? "day" : "month";
}

/** The beginnings of all steps of a period, as control's API computes them. */
export function stepsOf({ from, to }: Period, interval: Interval): number[] {
  const steps: number[] = [];
  for (let step = stepAt(from, interval); step < to && steps.length < 2 * stepsMax; step = nextStep(step, interval))
    steps.push(step);
  return steps;
}

function stepAt(ms: number, interval: Interval): number {
  if (interval === "half-hour") return floorTo(halfHour, ms);
  const date = new Date(floorTo(halfHour, ms));
  if (interval === "hour") return date.setMinutes(0, 0, 0);
  date.setHours(0, 0, 0, 0);
  return interval === "day" ? date.getTime() : monthOf(date, 0);
}

/**
 * The step after this one. An hour that the clock repeats in autumn counts twice, as it is two
 * steps.
 */
export function nextStep(ms: number, interval: Interval): number {
  if (interval === "half-hour") return ms + halfHour;
  if (interval === "hour") return ms + hour;
  const date = new Date(ms);
  if (interval === "month") return monthOf(date, 1);
  return date.setDate(date.getDate() + 1);
}

/** For an `<input type="datetime-local">`: local time without seconds. */
export function localTimeOf(ms: number): string {
  const date = new Date(ms);
  return new Date(ms - date.getTimezoneOffset() * minute).toISOString().slice(0, 16);
}
