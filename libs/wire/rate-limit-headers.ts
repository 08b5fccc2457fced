/**
 * The rate limits that an upstream's response states: how much is left, and until when.
 *
 * | vendor | headers | period | refill | source |
 * | --- | --- | --- | --- | --- |
 * | OpenAI | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, and such of a project | minute; of small accounts a day for requests; the reset is a duration until the limit is full | all the time | https://platform.openai.com/docs/guides/rate-limits |
 * | Groq | the same names | a day for requests, a minute for tokens | all the time | https://console.groq.com/docs/rate-limits |
 * | Azure | `x-ratelimit-remaining-{requests,tokens}` | 10 seconds for requests, a minute for tokens | at once | https://learn.microsoft.com/azure/ai-foundry/openai/how-to/quota |
 * | Cerebras | `x-ratelimit-…-{requests-day,tokens-minute}` | in the name; the reset in seconds | at once | https://inference-docs.cerebras.ai/support/rate-limits |
 * | Mistral | `x-ratelimit-{limit,remaining}-{req,tokens}-minute` | in the name | at once | https://github.com/mistralai/client-ts/issues/169 |
 * | DigitalOcean | `x-ratelimit-…-{requests,tokens-per-day,tokens-per-minute}` | in the name; the reset in epoch seconds | at once | https://docs.digitalocean.com/products/inference/reference/quota-specific-response-headers/ |
 * | Nous | `x-ratelimit-…-{requests,tokens}-1h` | in the name; the reset in seconds | at once | https://github.com/NousResearch/hermes-agent/pull/6541 |
 * | Anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens,output-tokens}-{limit,remaining,reset}` | minute; the reset is the date when the limit is full | all the time | https://docs.anthropic.com/en/api/rate-limits |
 *
 * Other servers with such names count as if their limits were refilled at once, at the reset.
 */

/** A header's value as `node:http` has it. */
export type Header = string | string[] | undefined;

export interface RateLimit {
  /** As the vendor names it; the same in each of its responses. */
  name: string;
  counts: "requests" | "tokens" | "inputTokens" | "outputTokens";
  /** Undefined where the vendor says only what is left. */
  max: number | undefined;
  remaining: number;
  /** From now until the limit is reset, or full again. */
  resetMs: number | undefined;
  periodMs: number;
  /** It is refilled all the time, and not at once at the reset. */
  isRefilled: boolean;
  /** Tokens that the vendor read from its prompt cache count. */
  countsCachedTokens: boolean;
}

/** The most limits that are read from one response. */
const limitsMax = 8;
const minuteMs = 60_000;
const dayMs = 86_400_000;

const periods: readonly [name: RegExp, ms: number][] = [
  [/month/, 30 * dayMs],
  [/day|24h/, dayMs],
  [/hour|1h/, 3_600_000],
];

const refillingHosts = /(?:^|\.)(?:openai\.com|groq\.com)$/;
const groqHosts = /(?:^|\.)groq\.com$/;
const azureHosts = /(?:^|\.)azure\.com$/;
const azureRequestsMs = 10_000;

const remainingHeader =
  /^(?:x-ratelimit-remaining-(?<name>[\w-]{1,40})|anthropic-ratelimit-(?<own>[\w-]{1,40})-remaining)$/;

/** `now` is epoch milliseconds. `host` is that of the upstream. */
export function rateLimitsIn(headers: Readonly<Record<string, Header>>, now: number, host = ""): RateLimit[] {
  const limits: RateLimit[] = [];
  for (const header in headers) {
    // Most responses have none, and each has dozens of headers.
    if (!header.includes("ratelimit-") || limits.length >= limitsMax) continue;
    const { name, own } = remainingHeader.exec(header)?.groups ?? {};
    const remaining = numberIn(headers[header]);
    const counts = countsOf(own ?? name ?? "");
    if (remaining === undefined || counts === undefined) continue;
    const headerOf = (what: string) =>
      headers[own === undefined ? `x-ratelimit-${what}-${name}` : `anthropic-ratelimit-${own}-${what}`];
    const limit = {
      name: own ?? (name as string),
      counts,
      max: numberIn(headerOf("limit")),
      remaining,
      resetMs: untilOf(headerOf("reset"), now),
      isRefilled: own !== undefined || refillingHosts.test(host),
      countsCachedTokens: own === undefined && !groqHosts.test(host),
    };
    limits.push({ ...limit, periodMs: own === undefined ? periodMsOf(limit, host) : minuteMs });
  }
  return limits;
}

function countsOf(name: string): RateLimit["counts"] | undefined {
  if (!name.includes("token")) return /req/.test(name) ? "requests" : undefined;
  if (/input|prompt/.test(name)) return "inputTokens";
  return /output|generated/.test(name) ? "outputTokens" : "tokens";
}

/**
 * Whether a vendor counts the most tokens that an answer may have, instead of those that it has:
 *
 * - OpenAI: https://platform.openai.com/docs/guides/rate-limits
 * - Azure: https://learn.microsoft.com/azure/ai-foundry/openai/how-to/quota
 * - Cerebras: https://inference-docs.cerebras.ai/support/rate-limits
 * - Bedrock: https://docs.aws.amazon.com/bedrock/latest/userguide/quotas-token-burndown.html
 */
export const countsMaxTokensAt = (host: string): boolean =>
  /(?:^|\.)(?:openai\.com|azure\.com|cerebras\.ai|amazonaws\.com|api\.aws)$/.test(host);

/** A limit that is refilled all the time shows its period by the time until it is full. */
function periodMsOf(
  { name, counts, max = 0, remaining, resetMs = 0, isRefilled }: Omit<RateLimit, "periodMs">,
  host: string,
): number {
  const named = periods.find(([pattern]) => pattern.test(name));
  if (named !== undefined) return named[1];
  if (counts === "requests" && azureHosts.test(host)) return azureRequestsMs;
  const fullAfterMs = max > remaining ? (resetMs * max) / (max - remaining) : 0;
  return isRefilled && fullAfterMs > 10 * minuteMs ? dayMs : minuteMs;
}

/** A number without a sign. */
export const numberIn = (header: Header): number | undefined =>
  typeof header === "string" && /^\d{1,15}(\.\d{1,9})?$/.test(header) ? Number(header) : undefined;

/** Numbers from here on are epoch seconds, or epoch ms, as OpenRouter's. */
const epochSecondsMin = 1_000_000_000;
const epochMsMin = 1_000_000_000_000;

/** In ms. From seconds, a duration, an epoch time or a date. */
export function untilOf(header: Header, now: number): number | undefined {
  const seconds = numberIn(header) ?? durationIn(header);
  if (seconds === undefined) return dateMsIn(header, now);
  if (seconds >= epochMsMin) return Math.ceil(seconds) - now;
  return Math.ceil(seconds * 1_000) - (seconds >= epochSecondsMin ? now : 0);
}

/** The formats of HTTP and of RFC 3339. */
const date = /^\w{3,9}, .* GMT$|^\d{4}-\d\d-\d\dT/;

/** The time until a date. */
function dateMsIn(header: Header, now: number): number | undefined {
  const at = typeof header === "string" && date.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : at - now;
}

const secondsIn: Readonly<Record<string, number>> = { d: 86_400, h: 3_600, m: 60, s: 1, ms: 0.001 };

/** In seconds, from a text such as `6m0s`. */
export function durationIn(header: Header): number | undefined {
  if (typeof header !== "string" || !/^(?:\d{1,9}(?:\.\d{1,9})?(?:ms|[dhms])){1,5}$/.test(header)) return undefined;
  return [...header.matchAll(/([\d.]+)(ms|[dhms])/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (secondsIn[unit as string] as number),
    0,
  );
}
