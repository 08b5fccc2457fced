import assert from "node:assert/strict";
import { test } from "node:test";
import { countsMaxTokensAt, type RateLimit, rateLimitsIn } from "#wire/rate-limit-headers.ts";

const now = Date.parse("2026-03-01T12:00:00Z");
const minute = 60_000;
const day = 86_400_000;

const limit = (more: Partial<RateLimit>): RateLimit => ({
  name: "requests",
  counts: "requests",
  max: undefined,
  remaining: 0,
  resetMs: undefined,
  periodMs: minute,
  isRefilled: false,
  countsCachedTokens: true,
  ...more,
});
const tokens = (more: Partial<RateLimit>) => limit({ name: "tokens", counts: "tokens", ...more });

const xLimit = (name: string, [max, remaining, reset]: readonly [string, string, string]) => ({
  [`x-ratelimit-limit-${name}`]: max,
  [`x-ratelimit-remaining-${name}`]: remaining,
  [`x-ratelimit-reset-${name}`]: reset,
});
const anthropic = (name: string, [max, remaining, reset]: readonly [string, string, string]) => ({
  [`anthropic-ratelimit-${name}-limit`]: max,
  [`anthropic-ratelimit-${name}-remaining`]: remaining,
  [`anthropic-ratelimit-${name}-reset`]: reset,
});

const cases: [vendor: string, host: string, headers: Record<string, string>, limits: RateLimit[]][] = [
  ["none", "api.openai.com", { "content-type": "text/event-stream" }, []],
  [
    "OpenAI",
    "api.openai.com",
    { ...xLimit("requests", ["5000", "4999", "12ms"]), ...xLimit("tokens", ["160000", "149984", "3.756s"]) },
    [
      limit({ max: 5_000, remaining: 4_999, resetMs: 12, isRefilled: true }),
      tokens({ max: 160_000, remaining: 149_984, resetMs: 3_756, isRefilled: true }),
    ],
  ],
  [
    "a small account of OpenAI, with requests per day",
    "api.openai.com",
    xLimit("requests", ["200", "199", "7m12s"]),
    [limit({ max: 200, remaining: 199, resetMs: 432_000, periodMs: day, isRefilled: true })],
  ],
  [
    "Groq, with requests per day and tokens per minute",
    "api.groq.com",
    { ...xLimit("requests", ["14400", "14370", "2m59.56s"]), ...xLimit("tokens", ["18000", "17997", "7.66ms"]) },
    [
      limit({
        max: 14_400,
        remaining: 14_370,
        resetMs: 179_560,
        periodMs: day,
        isRefilled: true,
        countsCachedTokens: false,
      }),
      tokens({ max: 18_000, remaining: 17_997, resetMs: 8, isRefilled: true, countsCachedTokens: false }),
    ],
  ],
  [
    "Azure",
    "acme.openai.azure.com",
    { "x-ratelimit-remaining-requests": "19", "x-ratelimit-remaining-tokens": "19913" },
    [limit({ remaining: 19, periodMs: 10_000 }), tokens({ remaining: 19_913 })],
  ],
  [
    "Cerebras",
    "api.cerebras.ai",
    {
      ...xLimit("requests-day", ["1000", "998", "33011.382867"]),
      ...xLimit("tokens-minute", ["60000", "0", "11.382867"]),
    },
    [
      limit({ name: "requests-day", max: 1_000, remaining: 998, resetMs: 33_011_383, periodMs: day }),
      tokens({ name: "tokens-minute", max: 60_000, remaining: 0, resetMs: 11_383 }),
    ],
  ],
  [
    "Mistral",
    "api.mistral.ai",
    {
      "x-ratelimit-limit-tokens-minute": "5000000",
      "x-ratelimit-remaining-tokens-minute": "4999911",
      "x-ratelimit-tokens-query-cost": "52",
      "x-ratelimit-limit-req-minute": "720",
      "x-ratelimit-remaining-req-minute": "717",
    },
    [
      tokens({ name: "tokens-minute", max: 5_000_000, remaining: 4_999_911 }),
      limit({ name: "req-minute", max: 720, remaining: 717 }),
    ],
  ],
  [
    "epoch seconds",
    "inference.do-ai.run",
    xLimit("tokens-per-day", ["1000", "0", String(now / 1_000 + 30)]),
    [tokens({ name: "tokens-per-day", max: 1_000, remaining: 0, resetMs: 30_000, periodMs: day })],
  ],
  [
    "an hour",
    "example.com",
    xLimit("requests-1h", ["100", "7", "1800"]),
    [limit({ name: "requests-1h", max: 100, remaining: 7, resetMs: 1_800_000, periodMs: 3_600_000 })],
  ],
  [
    "Anthropic",
    "api.anthropic.com",
    {
      ...anthropic("requests", ["4000", "3999", "2026-03-01T12:00:01Z"]),
      ...anthropic("input-tokens", ["400000", "398000", "2026-03-01T12:00:00Z"]),
      ...anthropic("output-tokens", ["80000", "0", "2026-03-01T12:01:00Z"]),
      "anthropic-ratelimit-unified-5h-status": "allowed",
      "anthropic-ratelimit-unified-5h-remaining": "3",
    },
    [
      limit({ max: 4_000, remaining: 3_999, resetMs: 1_000, isRefilled: true, countsCachedTokens: false }),
      ...(
        [
          ["input-tokens", "inputTokens", 400_000, 398_000, 0],
          ["output-tokens", "outputTokens", 80_000, 0, 60_000],
        ] as const
      ).map(([name, counts, max, remaining, resetMs]) =>
        limit({ name, counts, max, remaining, resetMs, isRefilled: true, countsCachedTokens: false }),
      ),
    ],
  ],
  [
    "values that are no numbers",
    "api.openai.com",
    { "x-ratelimit-remaining-requests": "-1", "x-ratelimit-remaining-tokens": "many", "x-ratelimit-remaining": "3" },
    [],
  ],
  [
    "a reset that is not readable",
    "example.com",
    xLimit("requests", ["10", "0", "soon"]),
    [limit({ max: 10, remaining: 0 })],
  ],
];

for (const [vendor, host, headers, limits] of cases)
  test(`rate limits are read: ${vendor}`, () => assert.deepEqual(rateLimitsIn(headers, now, host), limits));

test("a response states eight limits at most", () => {
  const headers = Object.fromEntries(
    Array.from({ length: 50 }, (_, index) => [`x-ratelimit-remaining-tokens-${index}`, "1"]),
  );
  assert.equal(rateLimitsIn(headers, now).length, 8);
});

test("some vendors count the most tokens that an answer may have", () => {
  const hosts = [
    "api.openai.com",
    "acme.openai.azure.com",
    "api.cerebras.ai",
    "bedrock-runtime.eu-west-1.amazonaws.com",
  ];
  for (const host of hosts) assert.ok(countsMaxTokensAt(host), host);
  for (const host of ["api.anthropic.com", "api.groq.com", "notopenai.com", "127.0.0.1"])
    assert.ok(!countsMaxTokensAt(host), host);
});
