import assert from "node:assert/strict";
import { test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import Anthropic0 from "anthropic-sdk-0";
import fc from "fast-check";
import { upstreamErrorOf } from "#dialects/anthropic-messages/answer.ts";
import { anthropicMessages } from "#dialects/anthropic-messages/codec.ts";
import { failureOf } from "#dialects/errors.ts";
import {
  type Answer,
  type AnswerEvent,
  type Block,
  eventsOf,
  type Finish,
  foldedOf,
  type NeutralRequest,
} from "#dialects/neutral/neutral.ts";
import { unwrappedSignature } from "#dialects/neutral/wrapped-signature.ts";
import { SseReader } from "#wire/sse.ts";

const tool = { name: "look_up", callerName: "look.up", parameters: {}, path: "t" };
const request: NeutralRequest = { system: [], messages: [], tools: [tool], settings: {} };
const context = { id: "a1", model: "mine", createdAt: 1, framing: "sse" as const, request, body: {} };

function decoded(text: string, cut = text.length): AnswerEvent[] {
  const reader = new SseReader(1 << 20);
  const decoder = anthropicMessages.streamDecoder();
  const bytes = Buffer.from(text);
  const events: AnswerEvent[] = [];
  for (let at = 0; at < bytes.length; at += cut)
    for (const event of reader.push(bytes.subarray(at, at + cut))) events.push(...decoder.push(event));
  for (const event of reader.end()) events.push(...decoder.push(event));
  return [...events, ...decoder.end()];
}

function encoded(answer: Answer): string {
  const encoder = anthropicMessages.streamEncoder(context);
  return eventsOf(answer)
    .map((event) => (event.kind === "error" ? "" : encoder.push(event)))
    .join("");
}

/** Events as an upstream sends them. */
const sent = (...events: ({ type: string } & Record<string, unknown>)[]) =>
  events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("");
const start = (index: number, block: object) => ({ type: "content_block_start", index, content_block: block });
const delta = (index: number, chunk: object) => ({ type: "content_block_delta", index, delta: chunk });
const stop = (index: number) => ({ type: "content_block_stop", index });
const began = {
  type: "message_start",
  message: { usage: { input_tokens: 6, cache_read_input_tokens: 4, cache_creation_input_tokens: 2, output_tokens: 1 } },
};
const ended = (
  reason: string,
  usage: object = { output_tokens: 7, output_tokens_details: { thinking_tokens: 2 } },
) => ({
  type: "message_delta",
  delta: { stop_reason: reason, stop_sequence: null },
  usage,
});
const over = { type: "message_stop" };
const usage = { inputTokens: 12, cachedInputTokens: 4, cacheWriteTokens: 2, outputTokens: 7, reasoningTokens: 2 };
const own = (data: string) => ({ dialect: "anthropic-messages" as const, data });

const golden = sent(
  began,
  { type: "ping" },
  start(0, { type: "thinking", thinking: "", signature: "" }),
  delta(0, { type: "thinking_delta", thinking: "Think é." }),
  delta(0, { type: "signature_delta", signature: "old" }),
  delta(0, { type: "signature_delta", signature: "SIG" }),
  stop(0),
  start(1, { type: "redacted_thinking", data: "RED" }),
  stop(1),
  start(2, { type: "text", text: "" }),
  delta(2, { type: "text_delta", text: "All " }),
  delta(2, { type: "citations_delta", citation: {} }),
  delta(2, { type: "text_delta", text: "done." }),
  stop(2),
  start(3, { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }),
  delta(3, { type: "input_json_delta", partial_json: '{"q":1}' }),
  stop(3),
  start(4, { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] }),
  stop(4),
  start(5, { type: "tool_use", id: "toolu_1", name: "look_up", input: {} }),
  delta(5, { type: "input_json_delta", partial_json: "" }),
  delta(5, { type: "input_json_delta", partial_json: '{"at"' }),
  delta(5, { type: "input_json_delta", partial_json: ":1}" }),
  stop(5),
  start(6, { type: "tool_use", id: "toolu_2", name: "look_up", input: {} }),
  stop(6),
  start(7, { type: "tool_use", id: "toolu_3", name: "look_up", input: { at: 2 } }),
  stop(7),
  ended("tool_use"),
  over,
);
const goldenAnswer: Answer = {
  blocks: [
    { kind: "reasoning", text: "Think é.", signature: own("SIG") },
    { kind: "reasoning", text: "", signature: { ...own("RED"), redacted: true } },
    { kind: "text", text: "All done." },
    { kind: "call", id: "toolu_1", name: "look_up", input: '{"at":1}' },
    { kind: "call", id: "toolu_2", name: "look_up", input: "" },
    { kind: "call", id: "toolu_3", name: "look_up", input: '{"at":2}' },
  ],
  finish: "calls",
  usage,
};

test("an upstream's stream decodes to the neutral form, however it is split", () => {
  for (const cut of [1, 7, 37, 1_000_000]) assert.deepEqual(foldedOf(decoded(golden, cut)), goldenAnswer);
  const chunks = decoded(golden).flatMap((event) => (event.kind === "delta" ? [event.text] : []));
  assert.deepEqual(chunks, ["Think é.", "All ", "done.", '{"at"', ":1}", '{"at":2}']);
});

test("every stop reason is mapped, streamed or whole", () => {
  const reasons: [string, Finish][] = [
    ["end_turn", "stop"],
    ["stop_sequence", "stop-sequence"],
    ["max_tokens", "length"],
    ["model_context_window_exceeded", "context-full"],
    ["refusal", "content-filter"],
    ["pause_turn", "paused"],
  ];
  for (const [reason, finish] of reasons) {
    const folded = foldedOf(decoded(sent(began, ended(reason), over)));
    assert.ok(folded !== undefined && !("error" in folded));
    assert.equal(folded.finish, finish);
    const whole = foldedOf(
      anthropicMessages.decodeAnswer({
        content: [],
        stop_reason: reason,
        stop_sequence: reason === "stop_sequence" ? "END" : null,
      }),
    );
    assert.deepEqual(whole, { blocks: [], finish, ...(reason === "stop_sequence" && { stopSequence: "END" }) });
  }
  const called = foldedOf(
    decoded(sent(start(0, { type: "tool_use", id: "a", name: "b", input: {} }), stop(0), ended("end_turn"))),
  );
  assert.ok(called !== undefined && "finish" in called && called.finish === "calls");
});

test("an answer is complete with its stop reason, with or without its terminator; a truncated one never is", () => {
  const broken = sent(began, start(0, { type: "text", text: "" }), delta(0, { type: "text_delta", text: "a" }));
  assert.equal(foldedOf(decoded(broken)), undefined);
  assert.deepEqual(foldedOf(decoded(broken + sent(ended("end_turn")))), {
    blocks: [{ kind: "text", text: "a" }],
    finish: "stop",
    usage,
  });
  assert.deepEqual(foldedOf(decoded(broken + sent(over))), {
    blocks: [{ kind: "text", text: "a" }],
    finish: "stop",
    usage: { ...usage, outputTokens: 1, reasoningTokens: 0 },
  });
});

test("text without a block start and late counters are not lost", () => {
  const loose = sent(
    delta(0, { type: "thinking_delta", thinking: "a" }),
    delta(1, { type: "text_delta", text: "b" }),
    delta(2, { type: "input_json_delta", partial_json: "{}" }),
    ended("end_turn", { input_tokens: 3, output_tokens: 2 }),
    { type: "message_delta", delta: {}, usage: { input_tokens: 0, output_tokens: 4 } },
    over,
  );
  assert.deepEqual(foldedOf(decoded(loose)), {
    blocks: [
      { kind: "reasoning", text: "a" },
      { kind: "text", text: "b" },
    ],
    finish: "stop",
    usage: { inputTokens: 3, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens: 4, reasoningTokens: 0 },
  });
});

test("errors have the status and the meaning of their type and message", () => {
  const error = (type: string, message = "m") => ({ type: "error", error: { type, message } });
  const statuses: [string, number | undefined][] = [
    ["invalid_request_error", 400],
    ["rate_limit_error", 429],
    ["api_error", 500],
    ["timeout_error", 504],
    ["overloaded_error", 529],
    ["toString", undefined],
  ];
  for (const [type, status] of statuses) {
    const events = decoded(sent(began, error(type), over));
    assert.ok(events.length === 1 && events[0]?.kind === "error");
    assert.equal(events[0].error.status, status);
  }
  assert.equal(decoded('event: error\ndata: {"type":"overloaded_error","message":"bare"}\n\n')[0]?.kind, "error");
  assert.equal(anthropicMessages.decodeAnswer(error("api_error"))[0]?.kind, "error");
  assert.equal(anthropicMessages.decodeAnswer({})[0]?.kind, "error");
  const tooLong = upstreamErrorOf(error("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"));
  assert.equal(failureOf(400, tooLong).code, "context_too_long");
  assert.equal(
    failureOf(400, upstreamErrorOf(error("x", "Output blocked by content filtering policy"))).code,
    "content_filter",
  );
  assert.equal(upstreamErrorOf(error("x", "messages.3.content: Field required")).param, "messages.3.content");
  assert.equal(upstreamErrorOf({ error: { type: "x", message: "m", details: { error_code: "spent" } } }).code, "spent");
  for (const nothing of [undefined, null, [], "x", { error: null }])
    assert.equal(typeof upstreamErrorOf(nothing).message, "string");
});

test("a caller's stream has exactly the events that its clients expect", () => {
  const blocks: Block[] = [
    { kind: "reasoning", text: "hm", signature: own("S") },
    { kind: "text", text: "a\u2028b" },
    { kind: "call", id: "c1", name: "look_up", input: "" },
  ];
  const filled =
    '"cache_creation_input_tokens":2,"cache_read_input_tokens":4,"output_tokens":7,"output_tokens_details":{"thinking_tokens":2},"server_tool_use":null';
  const none =
    '"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":null';
  const creation =
    '"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"inference_geo":null,"service_tier":"standard","speed":null';
  const expected = [
    `{"type":"message_start","message":{"id":"msg_a1","type":"message","role":"assistant","model":"mine","content":[],"container":null,"stop_reason":null,"stop_sequence":null,"stop_details":null,"usage":{"input_tokens":0,${none},${creation}}}}`,
    '{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}',
    '{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"S"}}',
    '{"type":"content_block_stop","index":0}',
    '{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}',
    '{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a\\u2028b"}}',
    '{"type":"content_block_stop","index":1}',
    '{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"c1","name":"look.up","input":{}}}',
    '{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}',
    '{"type":"content_block_stop","index":2}',
    `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null,"stop_details":null},"usage":{"input_tokens":6,${filled}}}`,
    '{"type":"message_stop"}',
  ];
  const text = encoded({ blocks, finish: "calls", usage });
  assert.equal(text, expected.map((data) => `event: ${/"type":"(\w+)"/.exec(data)?.[1]}\ndata: ${data}\n\n`).join(""));
});

test("foreign signatures are wrapped; empty blocks are left out; an image becomes a note", () => {
  const blocks: Block[] = [
    { kind: "text", text: "" },
    { kind: "reasoning", text: "" },
    { kind: "reasoning", text: "open" },
    { kind: "reasoning", text: "far", signature: { dialect: "gemini", data: "G" } },
    {
      kind: "reasoning",
      text: "",
      signature: { dialect: "openai-responses", data: "O", redacted: true, itemId: "rs_1" },
    },
    { kind: "image", mimeType: "image/png", data: "AAAA" },
    { kind: "refusal", text: "No." },
  ];
  const whole = JSON.parse(anthropicMessages.encodeAnswer({ blocks, finish: "content-filter" }, context));
  const [unsigned, far, sealed, picture, refusal] = whole.content;
  assert.equal(whole.content.length, 5);
  assert.match(picture.text, /made an image \(image\/png\), which this API cannot show/);
  assert.deepEqual(unsigned, { type: "thinking", thinking: "open", signature: "" });
  assert.deepEqual(
    [far.type, far.thinking, unwrappedSignature(far.signature)?.signature],
    ["thinking", "far", { dialect: "gemini", data: "G" }],
  );
  assert.deepEqual([sealed.type, sealed.thinking], ["thinking", ""]);
  assert.deepEqual(unwrappedSignature(sealed.signature)?.signature, {
    dialect: "openai-responses",
    data: "O",
    redacted: true,
    itemId: "rs_1",
  });
  assert.deepEqual(refusal, { type: "text", text: "No." });
  assert.deepEqual(
    [whole.stop_reason, whole.stop_details],
    ["refusal", { type: "refusal", category: null, explanation: null }],
  );
  const streamed = encoded({ blocks, finish: "stop" });
  assert.deepEqual(
    [...streamed.matchAll(/"content_block_start","index":(\d)/g)].map(([, index]) => index),
    ["0", "1", "2", "3", "4"],
  );
  assert.equal([...streamed.matchAll(/signature_delta/g)].length, 2);
});

const texts = fc.string({ unit: "grapheme", minLength: 1, maxLength: 12 });
const blockOf = fc.oneof(
  texts.map((text): Block => ({ kind: "text", text })),
  fc
    .record({ text: texts, data: texts })
    .map(({ text, data }): Block => ({ kind: "reasoning", text, signature: own(data) })),
  texts.map((data): Block => ({ kind: "reasoning", text: "", signature: { ...own(data), redacted: true } })),
  texts.map((text): Block => ({ kind: "reasoning", text })),
  fc
    .dictionary(texts, fc.jsonValue(), { minKeys: 1 })
    .map((input): Block => ({ kind: "call", id: "c", name: "n", input: JSON.stringify(input) })),
);
/** As the encoder writes it: with the service tier that it names. */
const encodedUsage = { ...usage, serviceTier: "standard" };

const anyAnswer = fc.array(blockOf, { maxLength: 5 }).chain((blocks) => {
  const finishes: Finish[] = blocks.some(({ kind }) => kind === "call")
    ? ["calls", "length"]
    : ["stop", "length", "context-full", "content-filter"];
  return fc.constantFrom(...finishes).map((finish): Answer => ({ blocks, finish, usage: encodedUsage }));
});

test("an encoded answer decodes to the same, streamed and whole", () => {
  fc.assert(
    fc.property(anyAnswer, fc.integer({ min: 1, max: 100 }), (answer, cut) => {
      assert.deepEqual(foldedOf(decoded(encoded(answer), cut)), answer);
      assert.deepEqual(
        foldedOf(anthropicMessages.decodeAnswer(JSON.parse(anthropicMessages.encodeAnswer(answer, context)))),
        JSON.parse(JSON.stringify(answer)),
      );
    }),
    { numRuns: 60 },
  );
});

test("nothing that an upstream sends makes the decoder throw or breaks the order of events", () => {
  const types = [
    "message_start",
    "content_block_start",
    "content_block_delta",
    "content_block_stop",
    "message_delta",
    "message_stop",
    "error",
    "ping",
  ];
  const kinds = [
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "server_tool_use",
    "text_delta",
    "thinking_delta",
    "signature_delta",
    "input_json_delta",
  ];
  const inner = fc.record(
    {
      type: fc.constantFrom(...kinds),
      text: fc.jsonValue(),
      thinking: fc.jsonValue(),
      signature: fc.jsonValue(),
      data: fc.jsonValue(),
      input: fc.jsonValue(),
      partial_json: fc.jsonValue(),
      stop_reason: fc.constantFrom("end_turn", null, 1),
    },
    { requiredKeys: ["type"] },
  );
  const event = fc.record(
    {
      type: fc.constantFrom(...types),
      content_block: fc.oneof(inner, fc.jsonValue()),
      delta: fc.oneof(inner, fc.jsonValue()),
      usage: fc.jsonValue(),
    },
    { requiredKeys: ["type"] },
  );
  const stream = fc.array(
    fc.oneof({ weight: 5, arbitrary: event.map((value) => JSON.stringify(value)) }, fc.string(), fc.json()),
    { maxLength: 12 },
  );
  fc.assert(
    fc.property(stream, (all) => {
      const decoder = anthropicMessages.streamDecoder();
      const events = [
        ...all.flatMap((data) => decoder.push({ event: undefined, data: Buffer.from(data) })),
        ...decoder.end(),
      ];
      const letters = events
        .map(
          ({ kind }) =>
            ({ block: "b", delta: "d", citation: "c", signature: "s", "block-end": "e", finish: "f", error: "x" })[
              kind
            ],
        )
        .join("");
      assert.match(letters, /^(b[dc]*s?e)*((b[dc]*)?x?|f)$/);
    }),
    { numRuns: 300 },
  );
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (body) => void anthropicMessages.decodeAnswer(body)),
  );
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue()),
      (content) => void anthropicMessages.decodeAnswer({ content, usage: content, stop_reason: content }),
    ),
  );
});

for (const [version, Client] of Object.entries({ "1": Anthropic, "0": Anthropic0 as object as typeof Anthropic }))
  test(`the official client, major ${version}, reads encoded answers, streamed and whole`, async () => {
    const { blocks } = goldenAnswer;
    const answering = (body: string, type: string) =>
      new Client({
        apiKey: "k",
        baseURL: "http://unused",
        maxRetries: 0,
        fetch: async () => new Response(body, { headers: { "content-type": type } }),
      });
    const requestBody = { model: "m", max_tokens: 9, messages: [{ role: "user" as const, content: "hi" }] };
    const streamed = await answering(encoded({ blocks, finish: "calls", usage }), "text/event-stream")
      .messages.stream(requestBody)
      .finalMessage();
    const whole = await answering(
      anthropicMessages.encodeAnswer({ blocks, finish: "calls", usage }, context),
      "application/json",
    ).messages.create(requestBody);
    for (const { content, stop_reason: reason, usage: counted } of [streamed, whole]) {
      const call = (id: string, input: object) => ({ type: "tool_use", id, name: "look.up", input });
      assert.deepEqual(JSON.parse(JSON.stringify(content)), [
        { type: "thinking", thinking: "Think é.", signature: "SIG" },
        { type: "redacted_thinking", data: "RED" },
        { type: "text", text: "All done." },
        call("toolu_1", { at: 1 }),
        call("toolu_2", {}),
        call("toolu_3", { at: 2 }),
      ]);
      assert.equal(reason, "tool_use");
      assert.deepEqual(
        [
          counted.input_tokens,
          counted.cache_read_input_tokens,
          counted.cache_creation_input_tokens,
          counted.output_tokens,
        ],
        [6, 4, 2, 7],
      );
    }
  });

test("a foreign signature without text comes before the block it belongs to, and never last", () => {
  const signature = { dialect: "gemini" as const, data: "c2ln" };
  const answer: Answer = {
    blocks: [
      { kind: "reasoning", text: "", signature },
      { kind: "call", id: "call_1", name: "weather", input: "{}" },
      { kind: "text", text: "a" },
      { kind: "reasoning", text: "", signature },
    ],
    finish: "stop",
  };
  const encoder = anthropicMessages.streamEncoder(context);
  const streamed = eventsOf(answer).map((event) => (event.kind === "error" ? "" : encoder.push(event)));
  const types = [...streamed.join("").matchAll(/"content_block":\{"type":"(\w+)"/g)].map(([, type]) => type);
  assert.deepEqual(types, ["thinking", "tool_use", "text"]);
  const { content } = JSON.parse(anthropicMessages.encodeAnswer(answer, context)) as { content: { type: string }[] };
  assert.deepEqual(
    content.map(({ type }) => type),
    types,
  );
});
