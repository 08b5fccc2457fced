import assert from "node:assert/strict";
import { test } from "node:test";
import { UsageReader } from "#dialects/anthropic-messages/answer.ts";
import { usageOf as googleUsageOf } from "#dialects/gemini/answer.ts";
import { usageOf as chatUsageOf } from "#dialects/openai-chat/answer.ts";
import { usageOf as responsesUsageOf } from "#dialects/openai-responses/answer.ts";
import type { Usage } from "#dialects/usage.ts";

function anthropicUsageOf(value: unknown): Usage | undefined {
  const reader = new UsageReader();
  reader.read(value);
  return reader.usage;
}

const reports: [
  name: string,
  read: (value: unknown) => Usage | undefined,
  report: (input: unknown, output: unknown) => object,
][] = [
  ["openai-chat", chatUsageOf, (prompt_tokens, completion_tokens) => ({ prompt_tokens, completion_tokens })],
  ["openai-responses", responsesUsageOf, (input_tokens, output_tokens) => ({ input_tokens, output_tokens })],
  ["anthropic-messages", anthropicUsageOf, (input_tokens, output_tokens) => ({ input_tokens, output_tokens })],
  ["gemini", googleUsageOf, (promptTokenCount, candidatesTokenCount) => ({ promptTokenCount, candidatesTokenCount })],
];

test("an impossible counter is capped and marked; a plausible one stays unchanged", () => {
  for (const [name, read, report] of reports) {
    for (const much of [9e15, 1e300, 100_000_001]) {
      const usage = read(report(much, 5));
      assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.isCapped], [100_000_000, 5, true], name);
      assert.deepEqual(
        [read(report(5, much))?.outputTokens, read(report(5, much))?.isCapped],
        [100_000_000, true],
        name,
      );
    }
    for (const none of [-1, 0, 1.5, "7", null, Number.POSITIVE_INFINITY]) {
      const usage = read(report(none, 5));
      assert.deepEqual([usage?.inputTokens, usage?.outputTokens, usage?.isCapped], [0, 5, undefined], name);
    }
    assert.deepEqual(read(report(100_000_000, 7)), {
      inputTokens: 100_000_000,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      outputTokens: 7,
      reasoningTokens: 0,
    });
  }
});

test("no part of a count exceeds the whole", () => {
  const usage = chatUsageOf({
    prompt_tokens: 10,
    completion_tokens: 5,
    prompt_tokens_details: { cached_tokens: 8, cache_write_tokens: 7 },
    completion_tokens_details: { reasoning_tokens: 9 },
  });
  assert.deepEqual(usage, {
    inputTokens: 10,
    cachedInputTokens: 8,
    cacheWriteTokens: 2,
    outputTokens: 5,
    reasoningTokens: 5,
  });
});
