/** Reads from a response when its upstream accepts requests again. */

type Header = string | string[] | undefined;

/**
 * Headers of a used-up limit and of the time until it resets: a duration such as `6m0s`
 * (https://platform.openai.com/docs/guides/rate-limits), or a date
 * (https://docs.anthropic.com/en/api/rate-limits).
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
 * Whole seconds until then, rounded up; 0 or less for a past time, undefined without reliable
 * information. `now` is that of Date.now(). Read from `retry-after-ms`, else from `Retry-After`
 * with seconds or a date (RFC 9110, 10.2.3), else from the used-up limit that resets last.
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

const numberIn = (header: Header) =>
  typeof header === "string" && /^\d+(\.\d+)?$/.test(header) ? Number(header) : undefined;

/** The formats of HTTP and of RFC 3339. */
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
