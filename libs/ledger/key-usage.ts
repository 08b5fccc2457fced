/**
 * The usage of one key, as the ledger tells it to ingresses through Redis: callers read it with
 * their key.
 */
import Type from "typebox";
import { Compile } from "typebox/compile";

const count = Type.Integer({ minimum: 0 });
const sums = Type.Object({
  requests: count,
  inputTokens: count,
  cachedInputTokens: count,
  outputTokens: count,
  reasoningTokens: count,
  images: count,
  cost: Type.String({ pattern: "^\\d{1,19}$", description: "Nano-units." }),
});

const keyUsageSchema = Type.Object({
  at: Type.Integer({ description: "When the ledger was read, in epoch milliseconds." }),
  day: sums,
  week: sums,
  month: sums,
  total: Type.String({ pattern: "^\\d{1,19}$", description: "The cost since the beginning, in nano-units." }),
});

export type UsageSums = Type.Static<typeof sums>;
export type KeyUsage = Type.Static<typeof keyUsageSchema>;

const validator = Compile(keyUsageSchema);
const dayMs = 86_400_000;

const noUsage: UsageSums = {
  requests: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  images: 0,
  cost: "0",
};

/**
 * The beginnings of the day, the week (Monday) and the month that contain a time, in UTC and epoch
 * milliseconds.
 */
export function periodStartsOf(now: number): { day: number; week: number; month: number } {
  const date = new Date(now);
  const day = now - (now % dayMs);
  return {
    day,
    week: day - ((date.getUTCDay() + 6) % 7) * dayMs,
    month: Date.UTC(date.getUTCFullYear(), date.getUTCMonth()),
  };
}

/**
 * Parses a stored value for a reader at `now`: a period that is over has no usage. A key without a
 * value has none at all.
 */
export function keyUsageOf(text: string | null, now: number): KeyUsage {
  const stored = text === null ? undefined : parsed(text);
  if (stored === undefined) return { at: now, day: noUsage, week: noUsage, month: noUsage, total: "0" };
  const [then, current] = [periodStartsOf(stored.at), periodStartsOf(now)];
  const still = (period: "day" | "week" | "month") => (then[period] === current[period] ? stored[period] : noUsage);
  return { ...stored, day: still("day"), week: still("week"), month: still("month") };
}

function parsed(text: string): KeyUsage | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return validator.Check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
