/**
 * Where servers of chat completions report the usage of an answer, whole and streamed, translated
 * and relayed unchanged.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { foldedOf } from "#dialects/neutral/neutral.ts";
import type { Usage } from "#dialects/usage.ts";

type Json = Record<string, unknown>;

const chat = codecs["openai-chat"];
const identity = { id: "1", model: "m" };
const bytesOf = (value: unknown) => Buffer.from(JSON.stringify(value));

const usage = {
  prompt_tokens: 10,
  completion_tokens: 5,
  total_tokens: 15,
  prompt_tokens_details: { cached_tokens: 4 },
  completion_tokens_details: { reasoning_tokens: 2 },
};
const expected: Usage = {
  inputTokens: 10,
  cachedInputTokens: 4,
  cacheWriteTokens: 0,
  outputTokens: 5,
  reasoningTokens: 2,
};
/** xAI counts reasoning beside the completion: https://docs.x.ai/docs/guides/reasoning */
const apart = { ...usage, completion_tokens: 3, total_tokens: 15 };

const choice = (more: Json = {}) => ({ index: 0, message: { content: "Hi" }, finish_reason: "stop", ...more });
const delta = (more: Json, reason: string | null = null, own: Json = {}) => ({
  choices: [{ index: 0, delta: more, finish_reason: reason, ...own }],
});

const whole: [string, Json][] = [
  ["at the top", { choices: [choice()], usage }],
  ["in x_groq", { choices: [choice()], x_groq: { id: "req_1", usage } }],
  ["in x_groq beside null", { choices: [choice()], usage: null, x_groq: { id: "req_1", usage } }],
  ["in the choice", { choices: [choice({ usage })] }],
  ["with reasoning beside the completion", { choices: [choice()], usage: apart }],
  ["in the choice with reasoning beside the completion", { choices: [choice({ usage: apart })] }],
];

for (const [where, body] of whole)
  test(`usage ${where} of a whole answer is read, translated and relayed`, () => {
    const answer = foldedOf(chat.decodeAnswer(body));
    assert.ok(answer !== undefined && !("error" in answer));
    assert.deepEqual(answer.usage, expected);
    const relayed = chat.verbatim.answer(bytesOf(body), identity);
    assert.ok(relayed.kind === "answer");
    assert.deepEqual(relayed.usage, expected);
  });

const streams: [string, Json[]][] = [
  ["in a chunk of its own", [delta({ content: "Hi" }), delta({}, "stop"), { choices: [], usage }]],
  ["in x_groq of the last chunk", [delta({ content: "Hi" }), { ...delta({}, "stop"), x_groq: { id: "r", usage } }]],
  ["in the choice that ends", [delta({ content: "Hi" }), delta({}, "stop", { usage })]],
  [
    "in every chunk with reasoning beside the completion",
    [
      { ...delta({ reasoning_content: "Hm" }), usage: { ...apart, completion_tokens: 0, total_tokens: 12 } },
      { ...delta({ content: "Hi" }), usage: apart },
      { ...delta({}, "stop"), usage: apart },
      { choices: [], usage: apart },
    ],
  ],
  [
    "first in x_groq, then in a chunk of its own",
    [
      { ...delta({ role: "assistant" }), x_groq: { id: "r" } },
      delta({ content: "Hi" }),
      { ...delta({}, "stop"), x_groq: { id: "r", usage: apart } },
      { choices: [], usage },
    ],
  ],
];

for (const [where, chunks] of streams)
  test(`usage ${where} of a stream is read, translated and relayed`, () => {
    const decoder = chat.streamDecoder();
    const events = chunks.flatMap((chunk) => decoder.push({ event: undefined, data: bytesOf(chunk) }));
    const answer = foldedOf([...events, ...decoder.end()]);
    assert.ok(answer !== undefined && !("error" in answer));
    assert.deepEqual(answer.usage, expected);
    const relay = chat.verbatim.stream(bytesOf({ model: "m" }), "sse", identity);
    const out: Buffer[] = [];
    for (const chunk of chunks) relay.push({ event: undefined, data: bytesOf(chunk) }, out);
    relay.end(out);
    assert.deepEqual(relay.usage, expected);
  });

test("the same sum counts in answers of Responses", () => {
  const body = {
    status: "completed",
    output: [],
    usage: {
      input_tokens: 10,
      output_tokens: 3,
      total_tokens: 15,
      input_tokens_details: { cached_tokens: 4 },
      output_tokens_details: { reasoning_tokens: 2 },
    },
  };
  const responses = codecs["openai-responses"];
  const answer = foldedOf(responses.decodeAnswer({ ...body, output: [{ type: "message", content: [] }] }));
  assert.ok(answer !== undefined && !("error" in answer));
  assert.deepEqual(answer.usage, expected);
  const relayed = responses.verbatim.answer(bytesOf(body), identity);
  assert.ok(relayed.kind === "answer");
  assert.deepEqual(relayed.usage, expected);
  const decoder = responses.streamDecoder();
  const events = decoder.push({ event: undefined, data: bytesOf({ type: "response.completed", response: body }) });
  const streamed = foldedOf(events);
  assert.ok(streamed !== undefined && !("error" in streamed));
  assert.deepEqual(streamed.usage, expected);
});

test("an error in x_groq ends a stream", () => {
  const chunk = { ...delta({ content: "H" }), x_groq: { id: "r", error: "over capacity" } };
  const decoder = chat.streamDecoder();
  assert.equal(decoder.push({ event: undefined, data: bytesOf(chunk) })[0]?.kind, "error");
  const relay = chat.verbatim.stream(bytesOf({ model: "m" }), "sse", identity);
  relay.push({ event: undefined, data: bytesOf(chunk) }, []);
  assert.notEqual(relay.error, undefined);
});

const summary = (text: string) => ({ type: "reasoning", summary: [{ type: "summary_text", text }] });
const thinking = (text: string) => ({ type: "thinking", thinking: [{ type: "text", text }] });
const reasoningForms: [string, Json, Json[]][] = [
  [
    "parts of the type thinking",
    { content: [thinking("Hm."), { type: "text", text: "Hi" }] },
    [{ content: [thinking("H")] }, { content: [thinking("m.")] }, { content: "Hi" }],
  ],
  [
    "parts of the type reasoning",
    { content: [summary("Hm."), { type: "text", text: "Hi" }] },
    [{ content: [summary("H")] }, { content: [summary("m.")] }, { content: "Hi" }],
  ],
  [
    "reasoning_details alone",
    { content: "Hi", reasoning_details: [{ type: "reasoning.text", text: "Hm.", index: 0 }] },
    [
      { reasoning_details: [{ type: "reasoning.text", text: "H", index: 0 }] },
      { reasoning_details: [{ type: "reasoning.text", text: "m.", index: 0 }] },
      { content: "Hi" },
    ],
  ],
  [
    "summaries in reasoning_details",
    { content: "Hi", reasoning_details: [{ type: "reasoning.summary", summary: "Hm.", index: 0 }] },
    [
      { content: "", reasoning_details: [{ type: "reasoning.summary", summary: "H", index: 0 }] },
      { content: "", reasoning_details: [{ type: "reasoning.summary", summary: "m.", index: 0 }] },
      { content: "Hi" },
    ],
  ],
  [
    "reasoning that its details repeat",
    { content: "Hi", reasoning: "Hm.", reasoning_details: [{ type: "reasoning.text", text: "Hm.", index: 0 }] },
    [
      { reasoning: "H", reasoning_details: [{ type: "reasoning.text", text: "H", index: 0 }] },
      { reasoning: "m.", reasoning_details: [{ type: "reasoning.text", text: "m.", index: 0 }] },
      { content: "Hi" },
    ],
  ],
];

for (const [form, message, deltas] of reasoningForms)
  test(`${form}: the reasoning is read once, whole and streamed, and counted when relayed`, () => {
    const blocksOf = (events: Parameters<typeof foldedOf>[0]) => {
      const answer = foldedOf(events);
      assert.ok(answer !== undefined && !("error" in answer));
      return answer.blocks.map((block) => `${block.kind} ${"text" in block ? block.text : ""}`);
    };
    assert.deepEqual(blocksOf(chat.decodeAnswer({ choices: [choice({ message })] })), ["reasoning Hm.", "text Hi"]);
    const decoder = chat.streamDecoder();
    const relay = chat.verbatim.stream(bytesOf({ model: "m" }), "sse", identity);
    const chunks = [...deltas.map((one) => delta(one)), delta({}, "stop")];
    const events = chunks.flatMap((chunk) => decoder.push({ event: undefined, data: bytesOf(chunk) }));
    assert.deepEqual(blocksOf([...events, ...decoder.end()]), ["reasoning Hm.", "text Hi"]);
    for (const chunk of chunks) relay.push({ event: undefined, data: bytesOf(chunk) }, []);
    assert.equal(relay.produced.reasoningTokens, 2);
    assert.equal(relay.produced.outputTokens, 3);
  });
