import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { Produced } from "#dialects/neutral/produced.ts";
import { plainUsageOf } from "#dialects/usage.ts";

const counted = (inputTokens: number, outputTokens: number) => plainUsageOf(inputTokens, outputTokens);
const text = (tokens: number) => "x".repeat(4 * tokens);

test("text counts one token for four bytes, and at least one for each event", () => {
  const produced = new Produced();
  produced.text(text(100));
  for (let event = 0; event < 10; event++) produced.text("é");
  produced.text("");
  produced.text(undefined);
  assert.equal(produced.outputTokens, 110);
  assert.equal(produced.usage, undefined);
});

test("the upstream's own count replaces the estimate up to its report; later content is estimated", () => {
  const produced = new Produced();
  produced.report(counted(7, 1));
  produced.text(text(100));
  assert.deepEqual(produced.usage, { ...counted(7, 101), isEstimated: true });
  const last = counted(7, 80);
  produced.report(last);
  assert.equal(produced.usage, last);
  produced.text(text(5));
  assert.equal(produced.outputTokens, 85);
});

test("a report far below the estimate that does not grow is a placeholder", () => {
  const produced = new Produced();
  for (let event = 0; event < 100; event++) {
    produced.text(text(1));
    produced.report(counted(7, 0));
  }
  assert.equal(produced.outputTokens, 100);
});

test("thinking counts once, whether shown, encrypted or both", () => {
  const shown = new Produced();
  shown.thought(text(300));
  shown.sealed("x".repeat(1_600));
  assert.deepEqual([shown.outputTokens, shown.reasoningTokens], [300, 300]);
  const sealed = new Produced();
  sealed.sealed("x".repeat(1_600));
  assert.deepEqual([sealed.outputTokens, sealed.reasoningTokens], [300, 300]);
});

test("in a resumed answer, delivered content counts once", () => {
  const goesOn = new Produced({ tokens: 50, isCounted: false });
  goesOn.text(text(10));
  assert.equal(goesOn.outputTokens, 60);
  goesOn.report(counted(7, 12));
  assert.equal(goesOn.outputTokens, 62);
  const repeats = new Produced({ tokens: 50, isCounted: true });
  repeats.report(counted(7, 20));
  assert.equal(repeats.outputTokens, 50);
  repeats.text(text(10));
  repeats.report(counted(7, 58));
  assert.equal(repeats.outputTokens, 58);
  const whole = new Produced({ tokens: 50, isCounted: true });
  whole.event({ kind: "finish", finish: "stop" });
  whole.report(counted(7, 40));
  assert.equal(whole.outputTokens, 40, "the upstream's own count of a whole answer is believed");
});

/** Events with 100 tokens for each dialect's untouched relay to count, each of another kind. */
const content = {
  "openai-chat": [
    { content: text(100) },
    { refusal: text(100) },
    { reasoning_content: text(100) },
    { reasoning: text(100) },
    { tool_calls: [{ index: 0, function: { arguments: text(100) } }] },
  ].map((delta) => ({ choices: [{ index: 1, delta }] })),
  "openai-responses": [
    "output_text",
    "refusal",
    "reasoning_summary_text",
    "reasoning_text",
    "function_call_arguments",
    "custom_tool_call_input",
  ].map((kind) => ({
    type: `response.${kind}.delta`,
    delta: text(100),
  })),
  "anthropic-messages": [
    { type: "content_block_delta", delta: { type: "text_delta", text: text(100) } },
    { type: "content_block_delta", delta: { type: "thinking_delta", thinking: text(100) } },
    { type: "content_block_delta", delta: { type: "input_json_delta", partial_json: text(100) } },
  ],
  gemini: [{ text: text(100) }, { text: text(100), thought: true }, { executableCode: { code: text(100) } }].map(
    (part) => ({
      candidates: [{ index: 1, content: { parts: [part] } }],
    }),
  ),
} as const;

for (const [dialect, events] of Object.entries(content) as [keyof typeof content, object[]][])
  test(`${dialect}: text, thinking and calls of every choice are counted`, () => {
    for (const event of events) {
      const stream = codecs[dialect].verbatim.stream(Buffer.from("{}"), "sse", { id: "abc123", model: "m" });
      stream.push({ event: undefined, data: Buffer.from(JSON.stringify(event)) }, []);
      assert.equal(stream.produced.outputTokens, 100, JSON.stringify(event).slice(0, 100));
    }
  });

test("media are not counted by their bytes", () => {
  const megabyte = "A".repeat(1 << 20);
  const events = {
    gemini: { candidates: [{ content: { parts: [{ inlineData: { mimeType: "image/png", data: megabyte } }] } }] },
    "openai-chat": { choices: [{ index: 0, delta: { audio: { data: megabyte } } }] },
    "openai-responses": { type: "response.image_generation_call.partial_image", partial_image_b64: megabyte },
  };
  for (const [dialect, event] of Object.entries(events) as [keyof typeof events, object][]) {
    const stream = codecs[dialect].verbatim.stream(Buffer.from("{}"), "sse", { id: "abc123", model: "m" });
    stream.push({ event: undefined, data: Buffer.from(JSON.stringify(event)) }, []);
    const { outputTokens } = stream.produced;
    assert.ok(outputTokens > 100 && outputTokens < 5_000, `${dialect}: ${outputTokens}`);
  }
});
