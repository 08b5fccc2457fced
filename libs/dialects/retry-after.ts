/** When an upstream says that it takes requests again. */

type Header = string | string[] | undefined;

/**
 * What tells that a limit is used up, and when it heals: after a length of time such as `6m0s` (https://platform.openai.com/docs/guides/rate-limits),
 * or at a date (https://docs.anthropic.com/en/api/rate-limits).
 */
const limits = [
  ...["requests", "tokens"].map((what) => ({
    remaining: `x-ratelimit-remaining-${what}`,
    reset: `x-ratelimit-reset-${what}`,
  })),
  ...["requests", "tokens", "input-tokens", "output-tokens"].map((what) => ({
    remaining: `anthropic-ratelimit-${what}-remaining`,
    reset: `anthropic-ratelimit-${what}-reset`,
  })),
];

/**
 * Whole seconds until then, rounded up; 0 or less for a time that is over, undefined where nothing is said that can be relied on. `now` is that of
 * Date.now(). From `retry-after-ms`, from `Retry-After` of seconds or of a date (RFC 9110, 10.2.3), else from the limits that are used up, the last to heal.
 */
export function retryAfterSecondsOf(headers: Readonly<Record<string, Header>>, now: number): number | undefined {
  const milliseconds = numberIn(headers["retry-after-ms"]);
  if (milliseconds !== undefined) return Math.ceil(milliseconds / 1_000);
  const named = headers["retry-after"];
  const resets = limits.flatMap(({ remaining, reset }) =>
    numberIn(headers[remaining]) === 0
      ? (numberIn(headers[reset]) ?? durationIn(headers[reset]) ?? secondsUntil(headers[reset], now) ?? [])
      : [],
  );
  const seconds = numberIn(named) ?? secondsUntil(named, now) ?? (resets.length > 0 ? Math.max(...resets) : undefined);
  return seconds === undefined ? undefined : Math.ceil(seconds);
}

const numberIn = (header: Header): number | undefined =>
  typeof header === "string" && /^\d+(\.\d+)?$/.test(header) ? Number(header) : undefined;

/** As HTTP writes them, and RFC 3339. */
const date = /^\w{3,9}, .* GMT$|^\d{4}-\d\d-\d\dT/;

function secondsUntil(header: Header, now: number): number | undefined {
  const at = typeof header === "string" && date.test(header) ? Date.parse(header) : Number.NaN;
  return Number.isNaN(at) ? undefined : (at - now) / 1_000;
}

const secondsIn: Readonly<Record<string, number>> = { h: 3_600, m: 60, s: 1, ms: 0.001 };

function durationIn(header: Header): number | undefined {
  if (typeof header !== "string" || !/^(?:\d+(?:\.\d+)?(?:ms|[hms]))+$/.test(header)) return undefined;
  return [...header.matchAll(/([\d.]+)(ms|[hms])/g)].reduce(
    (sum, [, count, unit]) => sum + Number(count) * (secondsIn[unit as string] as number),
    0,
  );
}
