/** Reads from a response when its upstream accepts requests again. */

import { dateMsIn, type Header, numberIn, rateLimitsIn } from "./rate-limit-headers.ts";

/**
 * Whole seconds until then, rounded up; 0 or less for a past time, undefined without reliable
 * information. `now` is that of Date.now(). Read from `retry-after-ms`, else from `Retry-After`
 * with seconds or a date (RFC 9110, 10.2.3), else from the used-up limit that resets last.
 */
export function retryAfterSecondsOf(headers: Readonly<Record<string, Header>>, now: number): number | undefined {
  const milliseconds = numberIn(headers["retry-after-ms"]) ?? retryAfterMs(headers["retry-after"], now);
  if (milliseconds !== undefined) return Math.ceil(milliseconds / 1_000);
  const resets = rateLimitsIn(headers, now).flatMap(({ remaining, resetMs }) =>
    remaining === 0 && resetMs !== undefined ? [resetMs] : [],
  );
  return resets.length === 0 ? undefined : Math.ceil(Math.max(...resets) / 1_000);
}

function retryAfterMs(header: Header, now: number): number | undefined {
  const seconds = numberIn(header);
  return seconds === undefined ? dateMsIn(header, now) : seconds * 1_000;
}
