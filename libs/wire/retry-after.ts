/** Reads from a response when its upstream accepts requests again. */

import { durationIn, type Header, numberIn, rateLimitsIn, untilOf } from "./rate-limit-headers.ts";

/**
 * Whole seconds until then, rounded up; 0 or less for a past time, undefined without reliable
 * information. `now` is that of Date.now(). Read from `retry-after-ms`, else from `Retry-After`
 * with seconds or a date (RFC 9110, 10.2.3), or a duration or an epoch time as some servers have
 * it, else from the used-up limit that resets last. OpenRouter and Envoy have one without a name:
 * https://github.com/Gitlawb/openclaude/issues/936
 */
export function retryAfterSecondsOf(headers: Readonly<Record<string, Header>>, now: number): number | undefined {
  const milliseconds = numberIn(headers["retry-after-ms"]) ?? untilOf(headers["retry-after"], now);
  if (milliseconds !== undefined) return Math.ceil(milliseconds / 1_000);
  const { "x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset } = headers;
  const limits = [...rateLimitsIn(headers, now), { remaining: numberIn(remaining), resetMs: untilOf(reset, now) }];
  const resets = limits.flatMap(({ remaining, resetMs }) =>
    remaining === 0 && resetMs !== undefined ? [resetMs] : [],
  );
  return resets.length === 0 ? undefined : Math.ceil(Math.max(...resets) / 1_000);
}

const unit = "(?:ms|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:ours?)?|d(?:ays?)?)(?![a-z])";
const wait = new RegExp(
  `\\b(?:try again|retry|wait)(?: in| after| for)? ((?:\\d{1,9}(?:\\.\\d{1,9})?\\s?${unit}[\\s,]{0,2}){1,5})`,
  "i",
);

/**
 * Whole seconds that the words of an error ask for, rounded up; undefined for none. A rate limit
 * inside a stream is not told in headers: https://github.com/openai/codex/pull/2266
 */
export function waitSecondsIn(text: string): number | undefined {
  const words = wait.exec(text)?.[1]?.toLowerCase();
  const seconds = durationIn(words?.replace(/[\s,]/g, "").replace(/(ms|[dhms])[a-z]*/g, "$1"));
  return seconds === undefined ? undefined : Math.ceil(seconds);
}
