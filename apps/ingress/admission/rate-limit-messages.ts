/** Rate limits as callers see them, in their dialect: the headers with the state of each limit, and the error of a refused request. */
import type { LimitDecision, LimitName, Limits, Standing, Standings } from "#access/rate-limits.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";

const whose = { key: "This key", group: "This key's group", account: "This key's account" } as const;

const allowances: Record<Exclude<LimitName, BudgetName>, (limits: Limits) => string> = {
  requestsPerMinute: ({ requestsPerMinute }) => `may make ${requestsPerMinute} requests a minute`,
  tokensPerMinute: ({ tokensPerMinute }) => `may use ${tokensPerMinute} tokens a minute, input and output together`,
  generationsMax: ({ generationsMax }) => `may have ${generationsMax} requests answered at once`,
};

const periods = { budgetPerDay: "day", budgetPerMonth: "month" } as const;
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
  const budget = `budget of ${subject.limits[limit]} ${currency} for this ${periods[limit]} (UTC)`;
  if (isSpent) return { code: "budget_exhausted", message: `${who} has spent its ${budget}.` };
  return {
    code: "rate_limited",
    message: `${who} has reserved the rest of its ${budget} for requests that are running; ${retry}`,
    retryAfterSeconds: seconds,
  };
}

const wholeSecondsOf = (ms: number) => Math.ceil(ms / 1_000);

/**
 * OpenAI: https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers
 * Anthropic: https://docs.anthropic.com/en/api/rate-limits#response-headers
 */
export function limitHeadersOf(
  dialect: ConversationDialect,
  { requests, tokens, now }: Standings,
): Record<string, string> {
  const headersOf = (what: string, standing: Standing | undefined): [string, string][] => {
    if (standing === undefined) return [];
    const { limit, remaining, resetMs } = standing;
    const seconds = wholeSecondsOf(resetMs);
    switch (dialect) {
      case "openai-chat":
      case "openai-responses":
        return [
          [`x-ratelimit-limit-${what}`, String(limit)],
          [`x-ratelimit-remaining-${what}`, String(remaining)],
          [`x-ratelimit-reset-${what}`, `${seconds}s`],
        ];
      case "anthropic-messages":
        return [
          [`anthropic-ratelimit-${what}-limit`, String(limit)],
          [`anthropic-ratelimit-${what}-remaining`, String(remaining)],
          [
            `anthropic-ratelimit-${what}-reset`,
            new Date(Math.ceil((now + resetMs) / 1_000) * 1_000).toISOString().replace(".000Z", "Z"),
          ],
        ];
      case "gemini":
        return [];
      default:
        return dialect satisfies never;
    }
  };
  return Object.fromEntries([...headersOf("requests", requests), ...headersOf("tokens", tokens)]);
}
