import assert from "node:assert/strict";
import { test } from "node:test";
import { verbatim } from "#dialects/openai-chat/verbatim.ts";

const identity = { id: "abc123", model: "mine", createdAt: 7 };
const own = { id: "chatcmpl-abc123", created: 7, model: "mine" };
const whole = { id: "c", object: "chat.completion", created: 1, model: "mine" };
const part = { ...whole, object: "chat.completion.chunk" };
const stopped = { index: 0, message: { role: "assistant", content: "a" }, finish_reason: "stop" };
const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
type Json = Record<string, unknown>;

function wholeFor(answer: object, more: object = {}): Json {
  const read = verbatim.answer(Buffer.from(JSON.stringify(answer)), { ...identity, ...more });
  assert.ok(read.kind === "answer", JSON.stringify(read));
  return JSON.parse(read.body.toString());
}

/** The chunks that a caller gets for these. */
function streamedFor(...chunks: object[]): Json[] {
  const request = Buffer.from('{"stream_options":{"include_usage":true}}');
  const stream = verbatim.stream(request, "sse", identity);
  const out: Buffer[] = [];
  for (const chunk of chunks) stream.push({ event: undefined, data: Buffer.from(JSON.stringify(chunk)) }, out);
  stream.end(out);
  assert.equal(stream.error, undefined);
  const lines = Buffer.concat(out).toString().split("\n");
  return lines.flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice("data: ".length))] : []));
}

const delta = (value: object, finish: string | null = null) => ({ index: 0, delta: value, finish_reason: finish });

test("every answer and every chunk has an id, an object, a time and a model", () => {
  for (const [sent, expected] of [
    // https://github.com/spring-projects/spring-ai/issues/6928, https://github.com/64bit/async-openai/pull/408
    [{}, own],
    [{ id: "c" }, { ...own, id: "c" }],
    [{ id: null, created: null, model: null, object: null }, own],
    [
      { id: 12, created: 1.5 },
      { ...own, id: "12", created: 1 },
    ],
    // https://github.com/caozhiyuan/copilot-api/pull/247
    [
      { id: "c", created: 1, model: "theirs" },
      { id: "c", created: 1, model: "mine" },
    ],
  ] as const) {
    const what = JSON.stringify(sent);
    assert.deepEqual(
      wholeFor({ ...sent, choices: [stopped] }),
      { ...expected, object: "chat.completion", choices: [stopped] },
      what,
    );
    const choices = [delta({ content: "a" })];
    assert.deepEqual(
      streamedFor({ ...sent, choices })[0],
      { ...expected, object: "chat.completion.chunk", choices },
      what,
    );
  }
  // A chunk of OpenCode Zen's: https://github.com/anomalyco/opencode/issues/39606
  const [, cost] = streamedFor({ ...part, choices: [delta({ content: "a" }, "stop")] }, { choices: [], cost: "1" });
  assert.deepEqual(cost, { ...own, id: "c", object: "chat.completion.chunk", choices: [], cost: "1" });
  // Azure's first chunk, which has them blank. Clients compare the ids of all others.
  const filtered = { ...part, id: "", model: "", object: "", created: 0, choices: [], prompt_filter_results: [] };
  const [first, second] = streamedFor(filtered, { ...part, choices: [delta({ content: "a" })] });
  assert.deepEqual([first?.id, second?.id], ["", "c"]);
});

test("a usage has all counts or is none", () => {
  const counted = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 };
  for (const [usage, expected] of [
    [counted, counted],
    [{ prompt_tokens: 3, completion_tokens: 4 }, counted],
    // https://github.com/vercel/ai/issues/2763
    [
      { prompt_tokens: 3, total_tokens: 3 },
      { prompt_tokens: 3, completion_tokens: 0, total_tokens: 3 },
    ],
    // https://github.com/livekit/agents/issues/6595
    [
      { ...counted, completion_tokens: null },
      { ...counted, completion_tokens: 0 },
    ],
    // https://github.com/theopenco/llmgateway/pull/2861
    [{ prompt_tokens_details: { cached_tokens: 0 } }, null],
    [null, null],
  ]) {
    assert.deepEqual(wholeFor({ ...whole, choices: [stopped], usage }).usage, expected, JSON.stringify(usage));
    const [chunk] = streamedFor({ ...part, choices: [delta({ content: "a" })], usage });
    assert.deepEqual(chunk?.usage, expected, JSON.stringify(usage));
  }
});

test("content in parts is a text, and the thinking in it `reasoning_content`", () => {
  const thinking = { type: "thinking", thinking: [{ type: "text", text: "hm" }], closed: true };
  const text = { type: "text", text: "a" };
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AA==" } };
  const signed = { type: "reasoning", summary: [{ type: "summary_text", text: "hm", signature: "s" }] };
  for (const [content, expected] of [
    // https://github.com/microsoft/agent-framework/issues/6978, https://github.com/symfony/ai/issues/2422
    [[thinking, text], { content: "a", reasoning_content: "hm" }],
    [[thinking], { content: null, reasoning_content: "hm" }],
    [[text, text], { content: "aa" }],
    [[text, { type: "reference", reference_ids: [1] }, text], { content: "aa" }],
    [[text, image], { content: "a", images: [image] }],
    [[], { content: "" }],
    ["a", { content: "a" }],
    // Databricks' signature must come back in its part.
    [[signed, text], { content: [signed, text] }],
  ] as const) {
    const role = "assistant";
    const [choice] = wholeFor({ ...whole, choices: [{ ...stopped, message: { role, content } }] }).choices as Json[];
    assert.deepEqual(choice?.message, { role, ...expected }, JSON.stringify(content));
    const [chunk] = streamedFor({ ...part, choices: [delta({ content })] }, { ...part, choices: [delta({}, "stop")] });
    assert.deepEqual(chunk?.choices, [delta(expected)], JSON.stringify(content));
  }
});

test("the end of an answer says in OpenAI's words whether it has calls", () => {
  const named = { namesTool: true };
  for (const [message, sent, expected, more] of [
    // https://github.com/Blaizzy/mlx-vlm/pull/990
    [{ tool_calls: [call] }, "stop", "tool_calls"],
    [{ tool_calls: [call] }, null, "tool_calls"],
    [{ tool_calls: [call] }, "STOP", "tool_calls"],
    [{ tool_calls: [call] }, "tool_use", "tool_calls"],
    // https://github.com/vllm-project/vllm/pull/25054
    [{ tool_calls: [call] }, "stop", "stop", named],
    [{ tool_calls: [call] }, "length", "length"],
    [{ tool_calls: [call] }, "content_filter", "content_filter"],
    [{ tool_calls: [{ ...call, function: { name: "f", arguments: '{"a' } }] }, "tool_calls", "length"],
    // https://github.com/Kilo-Org/kilocode/pull/7773, https://github.com/anomalyco/opencode/pull/5139
    [{ content: "a" }, "tool_calls", "stop"],
    [{ content: "a", tool_calls: [] }, "tool_calls", "stop"],
    [{ content: "a", tool_calls: null }, "tool_use", "stop"],
    [{ function_call: { name: "f", arguments: "{}" } }, "function_call", "function_call"],
    [{ function_call: { name: "f", arguments: "{}" } }, "tool_calls", "tool_calls"],
    [{ function_call: { name: "f", arguments: "{}" } }, "stop", "stop"],
    // https://github.com/aws-samples/bedrock-access-gateway/issues/11
    [{ content: "a" }, "end_turn", "stop"],
    [{ content: "a" }, "MAX_TOKENS", "length"],
    [{ content: "a" }, "model_length", "length"],
    [{ content: "a" }, "sensitive", "content_filter"],
    [{ content: "a" }, "", "stop"],
    [{ content: "a" }, undefined, "stop"],
    [{ content: "a" }, "something_new", "something_new"],
  ] as const) {
    const what = JSON.stringify([message, sent]);
    const full = { role: "assistant", content: null, ...message };
    const [choice] = wholeFor({ ...whole, choices: [{ index: 0, message: full, finish_reason: sent }] }, more)
      .choices as Json[];
    assert.deepEqual(choice, { index: 0, message: full, finish_reason: expected }, what);
    if (typeof sent !== "string" || sent === "" || more !== undefined) continue;
    const calls = "tool_calls" in message && message.tool_calls?.map((one, index) => ({ index, ...one }));
    const [, end] = streamedFor(
      { ...part, choices: [delta({ ...message, ...(calls && { tool_calls: calls }) })] },
      { ...part, choices: [delta({}, sent)] },
    );
    assert.deepEqual(end?.choices, [delta({}, expected)], what);
  }
});

test("each choice has an index, and its message a role and a content", () => {
  for (const [sent, expected] of [
    [{ message: { content: "a" } }, stopped],
    [{ ...stopped, message: { role: "", content: "a" } }, stopped],
    [
      { index: 0, message: { role: "assistant", tool_calls: [call] }, finish_reason: "tool_calls" },
      { index: 0, message: { role: "assistant", content: null, tool_calls: [call] }, finish_reason: "tool_calls" },
    ],
  ] as const)
    assert.deepEqual(wholeFor({ ...whole, choices: [sent] }).choices, [expected], JSON.stringify(sent));
  const [chunk] = streamedFor({ ...part, choices: [{ delta: { content: "a" } }] });
  assert.deepEqual(chunk?.choices, [{ index: 0, delta: { content: "a" } }]);
});

test("an answer that has all of it stays byte for byte", () => {
  const text = JSON.stringify({ ...whole, choices: [stopped], usage: null }, undefined, 1);
  const read = verbatim.answer(Buffer.from(text), identity);
  assert.ok(read.kind === "answer");
  assert.equal(read.body.toString(), text);
});
