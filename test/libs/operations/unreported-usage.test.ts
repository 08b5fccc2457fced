/** A whole answer whose upstream reports no usage has an estimate of what it produced. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { answerExchange } from "#operations/answer/exchange.ts";
import { completionExchange } from "#operations/completions/exchange.ts";

const text = "x".repeat(400);
const thinking = "y".repeat(200);
const input = { city: "z".repeat(188) };

/** Whole answers of a text of 400 bytes, and of one with thinking (200) and a call (about 200). */
const answers: Record<ConversationDialect, { plain: object; full: object; usage: object }> = {
  "openai-chat": {
    plain: { choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }] },
    full: {
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: text,
            reasoning_content: thinking,
            tool_calls: [{ id: "c", type: "function", function: { name: "f", arguments: JSON.stringify(input) } }],
          },
          finish_reason: "tool_calls",
        },
      ],
    },
    usage: { usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 } },
  },
  "anthropic-messages": {
    plain: { type: "message", role: "assistant", content: [{ type: "text", text }], stop_reason: "end_turn" },
    full: {
      type: "message",
      role: "assistant",
      content: [
        { type: "thinking", thinking, signature: "" },
        { type: "text", text },
        { type: "tool_use", id: "c", name: "f", input },
      ],
      stop_reason: "tool_use",
    },
    usage: { usage: { input_tokens: 3, output_tokens: 4 } },
  },
  "openai-responses": {
    plain: {
      status: "completed",
      output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] }],
    },
    full: {
      status: "completed",
      output: [
        { type: "reasoning", id: "r", summary: [{ type: "summary_text", text: thinking }] },
        { type: "message", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] },
        { type: "function_call", call_id: "c", name: "f", arguments: JSON.stringify(input) },
      ],
    },
    usage: { usage: { input_tokens: 3, output_tokens: 4, total_tokens: 7 } },
  },
  gemini: {
    plain: { candidates: [{ content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }] },
    full: {
      candidates: [
        {
          content: {
            role: "model",
            parts: [{ text: thinking, thought: true }, { text }, { functionCall: { name: "f", args: input } }],
          },
          finishReason: "STOP",
        },
      ],
    },
    usage: { usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 4, totalTokenCount: 7 } },
  },
};

const dialects = Object.keys(answers) as ConversationDialect[];
const bytesOf = (value: object) => Buffer.from(JSON.stringify(value));
const context = {
  id: "abc123",
  model: "mine",
  createdAt: 1,
  inputTokens: 9,
  request: { system: [], messages: [], tools: [], settings: {} },
} as never;

const read = (from: ConversationDialect, to: ConversationDialect, answer: object) =>
  answerExchange.read?.(
    from === to
      ? { kind: "verbatim", dialect: from, identity: { id: "abc123", model: "mine" } }
      : { kind: "translated", from, to, context, body: "{}" },
    bytesOf(answer),
  );

const countsOf = (answer: ReturnType<typeof read>) => {
  assert.equal(answer?.kind, "answer");
  const { usage, produced } = answer as {
    usage?: object;
    produced?: { outputTokens: number; reasoningTokens: number };
  };
  return { usage, output: produced?.outputTokens, reasoning: produced?.reasoningTokens };
};

for (const to of dialects)
  for (const from of dialects)
    test(`${to} for a caller of ${from}`, () => {
      const { plain, full, usage } = answers[to];
      assert.deepEqual(countsOf(read(from, to, plain)), { usage: undefined, output: 100, reasoning: 0 });
      assert.deepEqual(countsOf(read(from, to, full)), { usage: undefined, output: 100 + 50 + 50, reasoning: 50 });
      const reported = countsOf(read(from, to, { ...full, ...usage }));
      assert.deepEqual([reported.usage === undefined, reported.output], [false, undefined]);
    });

test("completions", () => {
  const own = { kind: "own", requested: { usageShown: false, choices: 2 }, model: "mine" } as const;
  const choices = [0, 1].map((index) => ({ index, text, finish_reason: "stop" }));
  const answer = completionExchange.read(own, bytesOf({ object: "text_completion", choices })) as ReturnType<
    typeof read
  >;
  assert.deepEqual(countsOf(answer), { usage: undefined, output: 200, reasoning: 0 });
});
