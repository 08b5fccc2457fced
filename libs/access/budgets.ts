/**
 * The spending of callers with budgets, as Redis counts it (rate-limit-scripts.ts), for the
 * ledger to compare and correct.
 */
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { budgetLifeMs } from "./bounds.ts";
import type { BudgetPeriod } from "./limits.ts";
import type { LimitedSubject } from "./rate-limits.ts";

type Subject = Pick<LimitedSubject, "scope" | "name">;

export const budgetPeriods: readonly BudgetPeriod[] = ["day", "week", "month", "total"];

const dayMs = 86_400_000;

/**
 * The number of the period that contains a time (epoch milliseconds, UTC), as in
 * rate-limit-scripts.ts. Day 0 was a Thursday.
 */
export function periodNumberOf(period: BudgetPeriod, at: number): number {
  const day = Math.floor(at / dayMs);
  const date = new Date(at);
  switch (period) {
    case "day":
      return day;
    case "week":
      return Math.floor((day + 3) / 7);
    case "month":
      return date.getUTCFullYear() * 12 + date.getUTCMonth();
    case "total":
      return 0;
    default:
      return period satisfies never;
  }
}

/** The first moment of the period that contains a time, in epoch milliseconds; 0 for `total`. */
export function periodStartOf(period: BudgetPeriod, at: number): number {
  const day = Math.floor(at / dayMs);
  const date = new Date(at);
  switch (period) {
    case "day":
      return day * dayMs;
    case "week":
      return (Math.floor((day + 3) / 7) * 7 - 3) * dayMs;
    case "month":
      return Date.UTC(date.getUTCFullYear(), date.getUTCMonth());
    case "total":
      return 0;
    default:
      return period satisfies never;
  }
}

/**
 * The first moment after the period that contains a time; undefined for `total`, which has no end.
 */
export function periodEndOf(period: BudgetPeriod, at: number): number | undefined {
  const start = periodStartOf(period, at);
  const date = new Date(start);
  if (period === "total") return undefined;
  if (period === "month") return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1);
  return start + (period === "week" ? 7 : 1) * dayMs;
}

/** The nano-units spent in the periods that contain a time, by the hash of a budget. */
const spentOf = (stored: Readonly<Record<string, string>>, at: number): Record<BudgetPeriod, bigint> =>
  Object.fromEntries(
    budgetPeriods.map((period) => [
      period,
      Number(stored[period] ?? -1) === periodNumberOf(period, at) ? BigInt(stored[`${period}Nano`] ?? 0) : 0n,
    ]),
  ) as Record<BudgetPeriod, bigint>;

/** In the order of `subjects`. Rejects when Redis does not answer. */
export async function readBudgets(
  redis: Redis,
  keyspace: Keyspace,
  subjects: readonly Subject[],
  at: number,
): Promise<Record<BudgetPeriod, bigint>[]> {
  const stored = await Promise.all(
    subjects.map(({ scope, name }) => redis.hgetall(keyspace.limit(scope, name, "budget"))),
  );
  return stored.map((hash) => spentOf(hash, at));
}

/**
 * Adds to what a subject has spent in a period. KEYS: the subject's budget. ARGV: the period; its
 * number; the nano-units to add, which may be negative; the lifetime in milliseconds. Returns
 * nothing. Atomic, not idempotent. A period that is over stays as it is.
 */
const correctScript = scriptOf(
  `
local period, number, delta = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local stored = redis.call('HMGET', KEYS[1], period, period .. 'Nano')
local present = tonumber(stored[1]) or -1
if present > number then return end
local sum = (present == number and tonumber(stored[2]) or 0) + delta
redis.call('HSET', KEYS[1], period, number, period .. 'Nano', string.format('%.0f', math.max(0, sum)))
redis.call('PEXPIRE', KEYS[1], ARGV[4])`,
  "run",
);

/** `at` is a time in the period. */
export async function correctBudget(
  redis: Redis,
  keyspace: Keyspace,
  { scope, name }: Subject,
  { period, at, nano }: { period: BudgetPeriod; at: number; nano: bigint },
): Promise<void> {
  await runScript(
    redis,
    correctScript,
    [keyspace.limit(scope, name, "budget")],
    [period, periodNumberOf(period, at), String(nano), budgetLifeMs],
  );
}
