/**
 * Turns for servers that are strict about them, and blocks of Anthropic's Messages in messages of
 * chat completions.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;

/** The messages that a chat model of this name gets from a caller's conversation. */
function messagesFor(model: string, caller: ConversationDialect, body: Json): Json[] {
  const request = consistent(codecs[caller].decodeRequest({ body, framing: "whole" }));
  const wire = codecs["openai-chat"].encodeRequest(request, "whole", targetOf("openai-chat", model));
  return listOf(parsedObject(wire.body)?.messages).map(objectOf);
}

const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
const shortOf = (messages: Json[]) => messages.map(({ role, content }) => `${role}: ${JSON.stringify(content)}`);

const mixed = {
  model: "m",
  messages: [
    { role: "system", content: "Be brief." },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "one" },
    { role: "user", content: "two" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "call_1", content: "r" },
    { role: "system", content: "Look twice." },
    { role: "user", content: "three" },
  ],
};

const rest = ['user: "one"', 'user: "two"', "assistant: null", 'tool: "r"'];
const told = "<instructions>\nLook twice.\n</instructions>";
const orders: [string[], string[]][] = [
  [
    ["gpt-5.6", "unknown"],
    ['system: "Be brief."', 'assistant: "Hello."', ...rest, 'system: "Look twice."', 'user: "three"'],
  ],
  [
    ["qwen3.8-max", "Qwen/Qwen3.5-27B", "MiniMax-M3"],
    [
      'system: "Be brief."',
      'assistant: "Hello."',
      ...rest,
      `user: ${JSON.stringify([
        { type: "text", text: told },
        { type: "text", text: "three" },
      ])}`,
    ],
  ],
  [
    ["mistral-medium-3.5", "devstral-small-2", "google/gemma-4-27b-it"],
    [
      'system: "Be brief."',
      'user: "(The conversation begins with the assistant.)"',
      'assistant: "Hello."',
      'user: "one\\n\\ntwo"',
      "assistant: null",
      'tool: "r"',
      'assistant: "Understood."',
      `user: ${JSON.stringify(`${told}\n\nthree`)}`,
    ],
  ],
];

for (const [models, expected] of orders)
  for (const model of models)
    test(`${model} gets turns in the order that it accepts`, () => {
      assert.deepEqual(shortOf(messagesFor(model, "openai-chat", mixed)), expected);
    });

/** A conversation as agents write it that speak to models of Anthropic through chat completions. */
const blocks = {
  model: "m",
  messages: [
    { role: "user", content: [{ type: "text", text: "q" }] },
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "Hm.", signature: "S" },
        { type: "text", text: "Looking." },
        { type: "tool_use", id: "toolu_1", name: "look", input: { at: 1 } },
      ],
    },
    {
      role: "user",
      content: [
        { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "seen" }], is_error: true },
        { type: "image", source: { type: "url", url: "https://example.com/a.png" } },
        { type: "text", text: "go on" },
      ],
    },
  ],
};

test("blocks of Anthropic's Messages in messages of chat completions become calls, results and images", () => {
  assert.deepEqual(messagesFor("gpt-5.6", "openai-chat", blocks), [
    { role: "user", content: "q" },
    {
      role: "assistant",
      content: "Looking.",
      tool_calls: [{ id: "toolu_1", type: "function", function: { name: "look", arguments: '{"at":1}' } }],
    },
    { role: "tool", tool_call_id: "toolu_1", content: "Error: seen" },
    {
      role: "user",
      content: [
        { type: "image_url", image_url: { url: "https://example.com/a.png" } },
        { type: "text", text: "go on" },
      ],
    },
  ]);
});

test("an upstream of Anthropic's Messages gets such blocks with their signatures", () => {
  const request = consistent(codecs["openai-chat"].decodeRequest({ body: blocks, framing: "whole" }));
  const wire = codecs["anthropic-messages"].encodeRequest(
    request,
    "whole",
    targetOf("anthropic-messages", "claude-opus-4-5"),
  );
  assert.deepEqual(listOf(parsedObject(wire.body)?.messages)[1], {
    role: "assistant",
    content: blocks.messages[1]?.content,
  });
});

test("blocks that LangChain leaves in an answer beside its calls are neither repeated nor refused", () => {
  const call = { id: "c", type: "function", function: { name: "f", arguments: '{"a":1}' } };
  const text = { type: "text", text: "t" };
  const messagesOf = (block: object, beside: object) => [
    { role: "user", content: "q" },
    { role: "assistant", content: [text, block], ...beside },
    { role: "tool", tool_call_id: "c", content: "r" },
  ];
  const called = { tool_calls: [call] };
  const whole = messagesFor("gpt-5.6", "openai-chat", {
    model: "m",
    messages: messagesOf(text, called).toSpliced(1, 1, { role: "assistant", content: "t", ...called }),
  });
  for (const block of [
    // https://github.com/langchain-ai/langchainjs/pull/9972
    { type: "tool_use", id: "c", name: "f", input: "" },
    // https://github.com/langchain-ai/langchainjs/pull/11245
    { type: "input_json_delta", index: 1, input: '{"a":1}' },
    // https://github.com/langchain-ai/langchainjs/pull/11177
    { type: "tool_call", id: "c", name: "f", args: { a: 1 } },
    { type: "tool_call_chunk", id: "c", name: "f", args: '{"a":1}' },
    // https://github.com/langchain-ai/langchain/pull/39803
    { type: "invalid_tool_call", id: "d", name: "f", args: "{" },
    // https://github.com/langchain-ai/langchainjs/pull/8565
    { type: "functionCall", functionCall: { name: "f", args: { a: 1 } } },
    // https://github.com/langchain-ai/langchain-aws/pull/1218
    { type: "function_call", call_id: "c", id: "fc_1", name: "f", arguments: '{"a":1}' },
    // https://github.com/langchain-ai/langchainjs/pull/11175
    { type: "reasoning", reasoning: "Hm." },
    { type: "reasoning_content", reasoning_content: { text: "Hm.", signature: "S" } },
    { type: "server_tool_use", id: "s", name: "web_search", input: {} },
    { type: "web_search_tool_result", tool_use_id: "s", content: [] },
    { type: "server_tool_call", id: "s", name: "web_search", args: {} },
    { type: "server_tool_result", tool_call_id: "s", status: "success" },
    { type: "non_standard", value: {} },
    // https://github.com/langchain-ai/langchain-google/issues/1002
    { type: "executable_code", executable_code: "1", language: "PYTHON" },
    { type: "codeExecutionResult", codeExecutionResult: { output: "1" } },
  ])
    assert.deepEqual(
      messagesFor("gpt-5.6", "openai-chat", { model: "m", messages: messagesOf(block, called) }),
      whole,
      block.type,
    );
  for (const [block, beside] of [
    [{ type: "tool_call", id: "c", name: "f", args: {} }, {}],
    [{ type: "something_new" }, called],
  ] as const)
    assert.throws(() => messagesFor("gpt-5.6", "openai-chat", { model: "m", messages: messagesOf(block, beside) }), {
      param: "messages[1].content[1].type",
    });
});

/** A call that was interrupted, in every caller's dialect, before the user spoke again. */
const interrupted: Record<ConversationDialect, Json> = {
  "openai-chat": {
    model: "m",
    messages: [
      { role: "user", content: "q" },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "user", content: "stop" },
    ],
  },
  "anthropic-messages": {
    max_tokens: 10,
    messages: [
      { role: "user", content: "q" },
      { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "f", input: {} }] },
      { role: "user", content: "stop" },
    ],
  },
  "openai-responses": {
    input: [
      { role: "user", content: "q" },
      { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
      { role: "user", content: "stop" },
    ],
  },
  gemini: {
    contents: [
      { role: "user", parts: [{ text: "q" }] },
      { role: "model", parts: [{ functionCall: { id: "call_1", name: "f", args: {} } }] },
      { role: "user", parts: [{ text: "stop" }] },
    ],
  },
};

for (const [caller, body] of Object.entries(interrupted) as [ConversationDialect, Json][])
  test(`every upstream gets an interrupted call of ${caller} callers with a result that says so`, () => {
    const told = "No result: the call was interrupted.";
    assert.deepEqual(messagesFor("gpt-5.6", caller, body).slice(1), [
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "call_1", content: `Error: ${told}` },
      { role: "user", content: "stop" },
    ]);
    const request = consistent(codecs[caller].decodeRequest({ body, framing: "whole" }));
    for (const upstream of ["anthropic-messages", "openai-responses", "gemini"] as const)
      assert.ok(codecs[upstream].encodeRequest(request, "whole", targetOf(upstream, "m")).body.includes(told));
  });
