/**
 * The rate limits of vendors, which belong to a credential and a model. Each response states them,
 * and a request beyond them is refused:
 *
 * - OpenAI: https://platform.openai.com/docs/guides/rate-limits. The reset is a duration.
 * - Anthropic: https://docs.anthropic.com/en/api/rate-limits. The reset is a date.
 *
 * Both refill limits all the time. With `limit-window` a limit is full again at once, as at Azure:
 * https://learn.microsoft.com/azure/ai-foundry/openai/how-to/quota. Tokens are those of the prompt
 * and the most that the request allows for the answer.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { setNewest } from "#service/newest.ts";
import { promptTokensOf } from "./answer/chunks.ts";
import type { Settings } from "./settings.ts";

interface Bucket {
  left: number;
  at: number;
  /** The end of its window. */
  until: number;
}

export interface StatedLimit {
  name: "requests" | "tokens";
  max: number;
  remaining: number;
  resetMs: number;
}

export interface TakenLimits {
  limits: StatedLimit[];
  /** Until the request is accepted; 0 if it is. */
  retryMs: number;
}

type LimitSettings = Pick<Settings, "limitRequests" | "limitTokens" | "limitPeriodMs" | "limitWindow">;

const bucketsMax = 10_000;

/** `now` is in ms. */
export function createRateLimits(now: () => number) {
  const buckets = new Map<string, Bucket>();
  const filled = (key: string, max: number, { limitPeriodMs, limitWindow }: LimitSettings): Bucket => {
    const at = now();
    const bucket = buckets.get(key) ?? { left: max, at, until: at + limitPeriodMs };
    if (!limitWindow) bucket.left = Math.min(max, bucket.left + ((at - bucket.at) * max) / limitPeriodMs);
    else if (at >= bucket.until) {
      bucket.left = max;
      bucket.until = at + limitPeriodMs;
    }
    bucket.at = at;
    setNewest(buckets, key, bucket, bucketsMax);
    return bucket;
  };
  return (scope: string, settings: LimitSettings, tokens: number): TakenLimits => {
    const { limitRequests, limitTokens, limitPeriodMs, limitWindow } = settings;
    const wanted = [
      { name: "requests" as const, max: limitRequests, need: 1 },
      { name: "tokens" as const, max: limitTokens, need: tokens },
    ];
    const taken = wanted.flatMap(({ name, max, need }) =>
      max === undefined ? [] : [{ name, max, need, bucket: filled(`${scope} ${name}`, max, settings) }],
    );
    const waits = taken.map(({ max, need, bucket: { left, at, until } }) => {
      if (left >= need) return 0;
      return limitWindow ? until - at : ((Math.min(need, max) - left) / max) * limitPeriodMs;
    });
    const retryMs = Math.max(0, ...waits);
    if (retryMs === 0) for (const { bucket, need } of taken) bucket.left -= need;
    const limits = taken.map(({ name, max, bucket: { left, at, until } }) => ({
      name,
      max,
      remaining: Math.floor(left),
      resetMs: Math.ceil(limitWindow ? until - at : ((max - left) / max) * limitPeriodMs),
    }));
    return { limits, retryMs };
  };
}

/** The tokens that a vendor counts before it answers. */
export function countedTokensOf(text: string): number {
  const named = [...text.matchAll(/"(?:max_tokens|max_completion_tokens|max_output_tokens)"\s*:\s*(\d{1,9})/g)];
  return promptTokensOf(text) + Math.max(0, ...named.map(([, digits]) => Number(digits)));
}

export const openaiLimitHeaders = (limits: readonly StatedLimit[]): OutgoingHttpHeaders =>
  Object.fromEntries(
    limits.flatMap(({ name, max, remaining, resetMs }) => [
      [`x-ratelimit-limit-${name}`, String(max)],
      [`x-ratelimit-remaining-${name}`, String(remaining)],
      [`x-ratelimit-reset-${name}`, resetMs < 1_000 ? `${resetMs}ms` : `${resetMs / 1_000}s`],
    ]),
  );

/** Dates have whole seconds. `epoch` is epoch ms. */
export const anthropicLimitHeaders = (limits: readonly StatedLimit[], epoch: number): OutgoingHttpHeaders =>
  Object.fromEntries(
    limits.flatMap(({ name, max, remaining, resetMs }) => [
      [`anthropic-ratelimit-${name}-limit`, String(max)],
      [`anthropic-ratelimit-${name}-remaining`, String(remaining)],
      [
        `anthropic-ratelimit-${name}-reset`,
        `${new Date(Math.ceil((epoch + resetMs) / 1_000) * 1_000).toISOString().slice(0, 19)}Z`,
      ],
    ]),
  );
