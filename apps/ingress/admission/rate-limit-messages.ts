/**
 * Rate limits as callers see them, in their dialect: the headers with the state of each limit, and
 * the error of a refused request.
 */
import type { LimitDecision, LimitName, Limits, Standing, Standings } from "#access/rate-limits.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import { profiles } from "#dialects/profiles.ts";

const whose = { key: "This key", group: "This key's group", account: "This key's account" } as const;

const allowances: Record<Exclude<LimitName, BudgetName>, (limits: Limits) => string> = {
  requestsPerMinute: ({ requestsPerMinute }) => `may make ${requestsPerMinute} requests a minute`,
  tokensPerMinute: ({ tokensPerMinute }) => `may use ${tokensPerMinute} tokens a minute, input and output together`,
  generationsMax: ({ generationsMax }) => `may have ${generationsMax} requests answered at once`,
};

const periods = {
  budgetPerDay: "for this day (UTC)",
  budgetPerWeek: "for this week (UTC)",
  budgetPerMonth: "for this month (UTC)",
  budgetTotal: "in total",
} as const;
type BudgetName = keyof typeof periods;
const isBudget = (limit: LimitName): limit is BudgetName => limit in periods;

export function limitFailureOf(
  { subject, limit, isSpent, retryMs }: Extract<LimitDecision, { kind: "refused" }>,
  currency: string,
): Failure {
  const who = whose[subject.scope];
  const seconds = Math.max(1, wholeSecondsOf(retryMs));
  const retry = `try again in ${seconds} s.`;
  if (!isBudget(limit))
    return {
      code: "rate_limited",
      message: `${who} ${allowances[limit](subject.limits)}; ${retry}`,
      retryAfterSeconds: seconds,
    };
  const budget = `budget of ${subject.limits[limit]} ${currency} ${periods[limit]}`;
  if (isSpent) return { code: "budget_exhausted", message: `${who} has spent its ${budget}.` };
  return {
    code: "rate_limited",
    message: `${who} has reserved the rest of its ${budget} for requests that are running; ${retry}`,
    retryAfterSeconds: seconds,
  };
}

const wholeSecondsOf = (ms: number) => Math.ceil(ms / 1_000);

/** Each limit's state, in the headers of the caller's dialect. */
export function limitHeadersOf(
  dialect: ConversationDialect,
  { requests, tokens, now }: Standings,
): Record<string, string> {
  const headersOf = (what: string, { limit, remaining, resetMs }: Standing) =>
    profiles[dialect].limitHeadersOf({
      what,
      limit,
      remaining,
      resetSeconds: wholeSecondsOf(resetMs),
      resetsAt: wholeSecondsOf(now + resetMs),
    });
  return { ...(requests && headersOf("requests", requests)), ...(tokens && headersOf("tokens", tokens)) };
}
