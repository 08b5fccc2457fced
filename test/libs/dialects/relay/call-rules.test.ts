/**
 * Each caller's settings of tools as they reach each upstream, and the rules that the gateway
 * enforces in the answer.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { StreamDecoder } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { type AnswerEvent, foldedOf, type NeutralRequest } from "#dialects/neutral/neutral.ts";
import { withCallRules } from "#dialects/relay/call-rules.ts";
import { wireOf } from "../support.ts";

type Json = Record<string, unknown>;

/** A request of each dialect with the tools `a`, `b` and `c`. */
const requestOf: Record<ConversationDialect, (fields: Json) => NeutralRequest> = {
  "openai-chat": (fields) =>
    codecs["openai-chat"].decodeRequest({
      framing: "sse",
      body: {
        model: "m",
        messages: [{ role: "user", content: "Go" }],
        tools: ["a", "b", "c"].map((name) => ({ type: "function", function: { name } })),
        ...fields,
      },
    }),
  "openai-responses": (fields) =>
    codecs["openai-responses"].decodeRequest({
      framing: "sse",
      body: { model: "m", input: "Go", tools: ["a", "b", "c"].map((name) => ({ type: "function", name })), ...fields },
    }),
  "anthropic-messages": (fields) =>
    codecs["anthropic-messages"].decodeRequest({
      framing: "sse",
      body: {
        model: "m",
        max_tokens: 10,
        messages: [{ role: "user", content: "Go" }],
        tools: ["a", "b", "c"].map((name) => ({ name, input_schema: { type: "object" } })),
        ...fields,
      },
    }),
  gemini: (fields) =>
    codecs.gemini.decodeRequest({
      framing: "sse",
      body: {
        contents: [{ role: "user", parts: [{ text: "Go" }] }],
        tools: [{ functionDeclarations: ["a", "b", "c"].map((name) => ({ name })) }],
        toolConfig: { functionCallingConfig: fields },
      },
    }),
};

interface Offer {
  tools: string;
  choice: unknown;
}

/** The offer to the upstream: the names of the tools, and the choice in its words. */
function offerIn(body: Json): Offer {
  const tools = (body.tools as Json[]).flatMap(({ name, function: nested, functionDeclarations }) =>
    Array.isArray(functionDeclarations)
      ? functionDeclarations.map((one: Json) => one.name)
      : [(nested as Json | undefined)?.name ?? name],
  );
  const { functionCallingConfig } = (body.toolConfig ?? {}) as Json;
  return { tools: tools.join(""), choice: body.tool_choice ?? functionCallingConfig };
}

type Row = [
  name: string,
  fields: Partial<Record<ConversationDialect, Json>>,
  offers: Record<ConversationDialect, [tools: string, choice: unknown]>,
];

const reference = (name: string) => ({ type: "function", name });
const nested = (name: string) => ({ type: "function", function: { name } });
const rows: Row[] = [
  [
    "none",
    {
      "openai-chat": { tool_choice: "none" },
      "openai-responses": { tool_choice: "none" },
      "anthropic-messages": { tool_choice: { type: "none" } },
      gemini: { mode: "NONE" },
    },
    {
      "openai-chat": ["abc", "none"],
      "openai-responses": ["abc", "none"],
      "anthropic-messages": ["abc", { type: "none" }],
      gemini: ["abc", { mode: "NONE" }],
    },
  ],
  [
    "any call",
    {
      "openai-chat": { tool_choice: "required" },
      "openai-responses": { tool_choice: "required" },
      "anthropic-messages": { tool_choice: { type: "any" } },
      gemini: { mode: "ANY" },
    },
    {
      "openai-chat": ["abc", "required"],
      "openai-responses": ["abc", "required"],
      "anthropic-messages": ["abc", { type: "any" }],
      gemini: ["abc", { mode: "ANY" }],
    },
  ],
  [
    "one tool",
    {
      "openai-chat": { tool_choice: nested("b") },
      "openai-responses": { tool_choice: reference("b") },
      "anthropic-messages": { tool_choice: { type: "tool", name: "b" } },
      gemini: { mode: "ANY", allowedFunctionNames: ["b"] },
    },
    {
      "openai-chat": ["abc", nested("b")],
      "openai-responses": ["abc", reference("b")],
      "anthropic-messages": ["b", { type: "tool", name: "b" }],
      gemini: ["abc", { mode: "ANY", allowedFunctionNames: ["b"] }],
    },
  ],
  [
    "one of several tools",
    {
      "openai-chat": {
        tool_choice: { type: "allowed_tools", allowed_tools: { mode: "required", tools: [nested("a"), nested("b")] } },
      },
      "openai-responses": {
        tool_choice: { type: "allowed_tools", mode: "required", tools: [reference("a"), reference("b")] },
      },
      gemini: { mode: "ANY", allowedFunctionNames: ["a", "b"] },
    },
    {
      "openai-chat": ["ab", "required"],
      "openai-responses": ["abc", { type: "allowed_tools", mode: "required", tools: [reference("a"), reference("b")] }],
      "anthropic-messages": ["ab", { type: "any" }],
      gemini: ["abc", { mode: "ANY", allowedFunctionNames: ["a", "b"] }],
    },
  ],
  [
    "no other tools",
    {
      "openai-chat": { tool_choice: { type: "allowed_tools", allowed_tools: { mode: "auto", tools: [nested("b")] } } },
      "openai-responses": { tool_choice: { type: "allowed_tools", mode: "auto", tools: [reference("b")] } },
      gemini: { mode: "VALIDATED", allowedFunctionNames: ["b"] },
    },
    {
      "openai-chat": ["b", "auto"],
      "openai-responses": ["abc", { type: "allowed_tools", mode: "auto", tools: [reference("b")] }],
      "anthropic-messages": ["b", { type: "auto" }],
      gemini: ["b", { mode: "AUTO" }],
    },
  ],
];

for (const [name, fields, offers] of rows)
  test(`a choice of ${name} means the same at every upstream, whoever asks`, () => {
    for (const [caller, own] of Object.entries(fields) as [ConversationDialect, Json][])
      for (const spoken of conversationDialects) {
        const [tools, choice] = offers[spoken];
        assert.deepEqual(offerIn(wireOf(requestOf[caller](own), spoken)), { tools, choice }, `${caller} to ${spoken}`);
      }
  });

test("no parallel calls is a switch of the upstream where it has one", () => {
  const callers: [ConversationDialect, Json][] = [
    ["openai-chat", { parallel_tool_calls: false }],
    ["openai-responses", { parallel_tool_calls: false }],
    ["anthropic-messages", { tool_choice: { type: "auto", disable_parallel_tool_use: true } }],
  ];
  for (const [caller, fields] of callers) {
    const request = requestOf[caller](fields);
    assert.equal(wireOf(request, "openai-chat").parallel_tool_calls, false);
    assert.equal(wireOf(request, "openai-responses").parallel_tool_calls, false);
    assert.deepEqual(wireOf(request, "anthropic-messages").tool_choice, {
      type: "auto",
      disable_parallel_tool_use: true,
    });
  }
});

const twoCalls: Record<ConversationDialect, Json> = {
  "openai-chat": {
    choices: [
      {
        message: {
          tool_calls: ["a", "b"].map((name) => ({ id: name, type: "function", function: { name, arguments: "{}" } })),
        },
        finish_reason: "tool_calls",
      },
    ],
  },
  "openai-responses": {
    status: "completed",
    output: ["a", "b"].map((name) => ({ type: "function_call", call_id: name, name, arguments: "{}" })),
  },
  "anthropic-messages": {
    content: ["a", "b"].map((name) => ({ type: "tool_use", id: name, name, input: {} })),
    stop_reason: "tool_use",
  },
  gemini: {
    candidates: [
      {
        content: { parts: ["a", "b"].map((name) => ({ functionCall: { id: name, name, args: {} } })) },
        finishReason: "STOP",
      },
    ],
  },
};

test("of several calls only the first is delivered to a caller who wants no parallel calls, and the finish stays", () => {
  for (const spoken of conversationDialects) {
    const calls = (request: NeutralRequest) => {
      const answer = foldedOf(withCallRules(codecs[spoken], request, spoken).decodeAnswer(twoCalls[spoken]));
      assert.ok(answer !== undefined && !("error" in answer));
      assert.equal(answer.finish, "calls");
      return answer.blocks.map((block) => (block.kind === "call" ? block.name : block.kind)).join("");
    };
    assert.equal(calls(requestOf["openai-chat"]({ parallel_tool_calls: false })), "a");
    assert.equal(calls(requestOf["openai-chat"]({ parallel_tool_calls: true })), "ab");
    assert.equal(calls(requestOf["openai-chat"]({})), "ab");
  }
});

test("an id that a server repeats is replaced, in whole answers and in streams", () => {
  for (const spoken of conversationDialects) {
    const repeated = JSON.parse(JSON.stringify(twoCalls[spoken]).replaceAll('id":"b"', 'id":"a"'));
    const request = requestOf["openai-chat"]({});
    const idsIn = (events: readonly AnswerEvent[]) =>
      events.flatMap((event) => (event.kind === "block" && event.block.kind === "call" ? [event.block.id] : []));
    const whole = idsIn(withCallRules(codecs[spoken], request, spoken).decodeAnswer(repeated));
    const streamed = idsIn(
      streamOf(withCallRules(codecs[spoken], request, spoken).streamDecoder(), repeatedStreams[spoken]),
    );
    for (const ids of [whole, streamed]) {
      assert.equal(ids.length, 2, spoken);
      assert.equal(ids[0], "a");
      assert.match(String(ids[1]), /^call_[0-9a-f]{24}$/);
    }
  }
});

const streamOf = (decoder: StreamDecoder, events: readonly Json[]): AnswerEvent[] => [
  ...events.flatMap((event) => decoder.push({ event: undefined, data: Buffer.from(JSON.stringify(event)) })),
  ...decoder.end(),
];

/** Two calls with one id. */
const repeatedStreams: Record<ConversationDialect, Json[]> = {
  "openai-chat": [
    ...[0, 1].map((index) => ({
      choices: [
        { delta: { tool_calls: [{ index, id: "a", type: "function", function: { name: "a", arguments: "{}" } }] } },
      ],
    })),
    { choices: [{ delta: {}, finish_reason: "tool_calls" }] },
  ],
  "openai-responses": [
    ...[0, 1].map((output_index) => ({
      type: "response.output_item.done",
      output_index,
      item: { type: "function_call", call_id: "a", name: "a", arguments: "{}" },
    })),
    { type: "response.completed", response: { status: "completed", output: [] } },
  ],
  "anthropic-messages": [
    ...[0, 1].flatMap((index) => [
      {
        type: "content_block_start",
        index,
        content_block: { type: "tool_use", id: "a", name: "a", input: {} },
      },
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason: "tool_use" } },
    { type: "message_stop" },
  ],
  gemini: [
    ...[0, 1].map(() => ({
      candidates: [{ content: { parts: [{ functionCall: { id: "a", name: "a", args: {} } }] } }],
    })),
    { candidates: [{ finishReason: "STOP" }] },
  ],
};

test("a streamed answer keeps to the same rules", () => {
  const request = codecs["openai-chat"].decodeRequest({
    framing: "sse",
    body: {
      model: "m",
      messages: [{ role: "user", content: "Go" }],
      parallel_tool_calls: false,
      tools: [
        { type: "function", function: { name: "a", parameters: { type: "object", properties: { "file path": {} } } } },
      ],
    },
  });
  const decoder = withCallRules(codecs.gemini, request, "gemini").streamDecoder();
  const events: AnswerEvent[] = [];
  for (const parts of [
    [{ text: "Hm" }],
    [{ functionCall: { name: "a", args: { file_path: "x" } } }],
    [{ functionCall: { name: "a", args: {} } }],
    [{ text: "!" }],
  ])
    events.push(
      ...decoder.push({
        event: undefined,
        data: Buffer.from(JSON.stringify({ candidates: [{ content: { parts } }] })),
      }),
    );
  events.push(
    ...decoder.push({ event: undefined, data: Buffer.from('{"candidates":[{"finishReason":"STOP"}]}') }),
    ...decoder.end(),
  );
  const answer = foldedOf(events);
  assert.ok(answer !== undefined && !("error" in answer));
  assert.deepEqual(
    answer.blocks.map((block) => (block.kind === "call" ? block.input : block.kind === "image" ? "" : block.text)),
    ["Hm", '{"file path":"x"}', "!"],
  );
  assert.equal(answer.finish, "calls");
});

test("answers to requests without tools are read by the codec itself", () => {
  const { tools: _, ...request } = requestOf["openai-chat"]({});
  assert.equal(withCallRules(codecs.gemini, { ...request, tools: [] }, "gemini"), codecs.gemini);
});
