import assert from "node:assert/strict";
import { test } from "node:test";
import { retryAfterSecondsOf } from "#wire/retry-after.ts";

const now = Date.parse("2026-03-01T12:00:00Z");

const cases: [what: string, headers: Record<string, string>, seconds: number | undefined][] = [
  ["nothing", {}, undefined],
  ["seconds", { "retry-after": "7" }, 7],
  ["a date", { "retry-after": "Sun, 01 Mar 2026 12:00:40 GMT" }, 40],
  ["a date that is over", { "retry-after": "Sun, 01 Mar 2026 11:59:50 GMT" }, -10],
  ["neither", { "retry-after": "soon" }, undefined],
  ["milliseconds, which are more exact", { "retry-after-ms": "1200", "retry-after": "7" }, 2],
  ["a limit used up", { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s" }, 360],
  [
    "the last to heal",
    {
      "x-ratelimit-remaining-requests": "0",
      "x-ratelimit-reset-requests": "120ms",
      "x-ratelimit-remaining-tokens": "0",
      "x-ratelimit-reset-tokens": "1m2.5s",
    },
    63,
  ],
  [
    "a limit that is not used up",
    { "x-ratelimit-remaining-tokens": "12", "x-ratelimit-reset-tokens": "6m0s" },
    undefined,
  ],
  [
    "a limit used up until a date",
    {
      "anthropic-ratelimit-input-tokens-remaining": "0",
      "anthropic-ratelimit-input-tokens-reset": "2026-03-01T12:00:09Z",
    },
    9,
  ],
  [
    "a time to come back, and a limit",
    {
      "retry-after": "3",
      "anthropic-ratelimit-requests-remaining": "0",
      "anthropic-ratelimit-requests-reset": "2026-03-01T12:00:09Z",
    },
    3,
  ],
  [
    "a limit used up for so many seconds",
    { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "45" },
    45,
  ],
  [
    "a limit whose end is not readable",
    { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "later" },
    undefined,
  ],
  ["a duration", { "retry-after": "1m30s" }, 90],
  ["an epoch time in seconds", { "retry-after": String(now / 1_000 + 20) }, 20],
  [
    "OpenRouter's limit, until an epoch time in milliseconds",
    { "x-ratelimit-limit": "50", "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(now + 20_500) },
    21,
  ],
  [
    "Envoy's limit",
    { "x-ratelimit-limit": "10, 10;w=60", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "34" },
    34,
  ],
  ["OpenRouter's limit that is not used up", { "x-ratelimit-remaining": "9", "x-ratelimit-reset": "1" }, undefined],
];

for (const [what, headers, seconds] of cases)
  test(`the time of the next retry is read: ${what}`, () => assert.equal(retryAfterSecondsOf(headers, now), seconds));
