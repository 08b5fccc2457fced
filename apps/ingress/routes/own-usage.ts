/**
 * A caller reads the usage, the limits and the budgets of its own key: `GET /v1/usage`, and the
 * routes of clients that expect another gateway, `/key/info`
 * (https://docs.litellm.ai/docs/proxy/virtual_keys) and `/api/v1/key`
 * (https://openrouter.ai/docs/api-reference/limits). The ledger publishes usage through Redis, so
 * it is about a second old. Budgets are current.
 */
import type { FastifyInstance } from "fastify";
import { periodEndOf, readBudgets } from "#access/budgets.ts";
import { type Limits, limitRows } from "#access/limits.ts";
import type { KeyRecord } from "#access/record.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { type KeyUsage, keyUsageOf, type UsageSums } from "#ledger/key-usage.ts";
import { nanoPerUnit, unitsOf } from "#ledger/money.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";

export interface OwnUsageOptions extends RedisWait {
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "currency" | "groups">;
}

/** The state of the caller's key. */
interface Standing {
  usage: KeyUsage;
  limits: Limits;
  budgets: { period: string; limit: number; spent: number; resetsAt: number | undefined }[];
}

export function addOwnUsageRoutes(server: FastifyInstance, options: OwnUsageOptions): void {
  server.get("/v1/usage", async ({ caller }) => {
    const { usage, limits, budgets } = await standingOf(caller, options);
    return {
      object: "usage",
      key: { id: caller.id, name: caller.name, group: caller.group, expires_at: secondsOf(caller.expiresAt) },
      currency: options.catalogue().currency,
      updated_at: secondsOf(usage.at),
      today: shown(usage.day),
      this_week: shown(usage.week),
      this_month: shown(usage.month),
      total: { cost: unitsOf(BigInt(usage.total)) },
      limits: {
        requests_per_minute: limits.requestsPerMinute ?? null,
        tokens_per_minute: limits.tokensPerMinute ?? null,
        concurrent_generations: limits.generationsMax ?? null,
      },
      budgets: budgets.map(({ period, limit, spent, resetsAt }) => ({
        period,
        limit,
        spent,
        remaining: Math.max(0, limit - spent),
        resets_at: secondsOf(resetsAt),
      })),
    };
  });

  server.get("/key/info", async ({ caller }) => {
    const { usage, limits, budgets } = await standingOf(caller, options);
    const [budget] = budgets;
    return {
      key: caller.id,
      info: {
        key_name: `sk-...${caller.hint}`,
        key_alias: caller.name,
        spend: budget?.spent ?? amountOf(usage.total),
        max_budget: budget?.limit ?? null,
        budget_duration: budget === undefined ? null : (durations[budget.period] ?? null),
        budget_reset_at: timeOf(budget?.resetsAt),
        expires: timeOf(caller.expiresAt),
        models: caller.models ?? [],
        tpm_limit: limits.tokensPerMinute ?? null,
        rpm_limit: limits.requestsPerMinute ?? null,
        max_parallel_requests: limits.generationsMax ?? null,
        team_id: caller.account ?? null,
        blocked: false,
        created_at: timeOf(caller.createdAt),
      },
    };
  });

  for (const path of ["/api/v1/key", "/api/v1/auth/key"])
    server.get(path, async ({ caller }) => {
      const { usage, limits, budgets } = await standingOf(caller, options);
      const [budget] = budgets;
      return {
        data: {
          label: `sk-...${caller.hint}`,
          name: caller.name,
          usage: amountOf(usage.total),
          usage_daily: amountOf(usage.day.cost),
          usage_weekly: amountOf(usage.week.cost),
          usage_monthly: amountOf(usage.month.cost),
          limit: budget?.limit ?? null,
          limit_remaining: budget === undefined ? null : Math.max(0, budget.limit - budget.spent),
          limit_reset: budget === undefined ? null : (resets[budget.period] ?? null),
          is_free_tier: false,
          expires_at: timeOf(caller.expiresAt),
          rate_limit: { requests: limits.requestsPerMinute ?? -1, interval: "1m" },
        },
      };
    });
}

/** LiteLLM's and OpenRouter's words for the periods of budgets. */
const durations: Record<string, string> = { day: "1d", week: "7d", month: "1mo" };
const resets: Record<string, string> = { day: "daily", week: "weekly", month: "monthly" };

/**
 * One round trip. The budgets are those of the key, shortest period first. Rejects while Redis is
 * away for long.
 */
async function standingOf(caller: KeyRecord, options: OwnUsageOptions): Promise<Standing> {
  const { redis, keyspace, catalogue, clock } = options;
  const now = clock.epoch();
  const [text, [spent]] = await outlastRedis(options, () =>
    Promise.all([
      redis.hget(keyspace.keyUsage, caller.id),
      readBudgets(redis, keyspace, [{ scope: "key", name: caller.id }], now),
    ]),
  );
  const limits = { ...catalogue().groups.get(caller.group)?.keyLimits, ...caller.limits };
  const budgets = limitRows.flatMap(({ name, period }) => {
    const limit = limits[name];
    if (period === undefined || limit === undefined) return [];
    return [{ period, limit, spent: Number(spent?.[period]) / nanoPerUnit, resetsAt: periodEndOf(period, now) }];
  });
  return { usage: keyUsageOf(text, now), limits, budgets };
}

const shown = ({ cost, ...sums }: UsageSums) => ({
  requests: sums.requests,
  input_tokens: sums.inputTokens,
  cached_input_tokens: sums.cachedInputTokens,
  output_tokens: sums.outputTokens,
  reasoning_tokens: sums.reasoningTokens,
  images: sums.images,
  cost: unitsOf(BigInt(cost)),
});

const amountOf = (nano: string): number => Number(nano) / nanoPerUnit;
const secondsOf = (ms: number | undefined): number | null => (ms === undefined ? null : Math.floor(ms / 1_000));
const timeOf = (ms: number | undefined): string | null => (ms === undefined ? null : new Date(ms).toISOString());
