/**
 * Values that agents and languages write in place of those that the formats name: arguments as
 * objects, results as what a tool returned, lists for empty objects.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { foldedOf, type NeutralRequest } from "#dialects/neutral/neutral.ts";
import { profiles } from "#dialects/profiles.ts";
import { invalidFieldIn } from "#dialects/request-schema/invalid-field.ts";
import { targetOf } from "../../support/target.ts";
import { refusalOf } from "./support.ts";

type Json = Record<string, unknown>;

interface Values {
  args?: unknown;
  result?: unknown;
  parameters?: unknown;
}

/** A conversation of each dialect with one call and its result. */
const bodyOf: Record<ConversationDialect, (values: Values) => Json> = {
  "openai-chat": ({ args = "{}", result = "ok", parameters }) => ({
    model: "m",
    messages: [
      { role: "user", content: "Go" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: args } }],
      },
      { role: "tool", tool_call_id: "a", content: result },
    ],
    tools: [{ type: "function", function: { name: "f", parameters } }],
  }),
  "openai-responses": ({ args = "{}", result = "ok", parameters }) => ({
    model: "m",
    input: [
      { role: "user", content: "Go" },
      { type: "function_call", call_id: "a", name: "f", arguments: args },
      { type: "function_call_output", call_id: "a", output: result },
    ],
    tools: [{ type: "function", name: "f", parameters }],
  }),
  "anthropic-messages": ({ args = {}, result = "ok", parameters = { type: "object" } }) => ({
    model: "m",
    max_tokens: 10,
    messages: [
      { role: "user", content: "Go" },
      { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: args }] },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: result }] },
    ],
    tools: [{ name: "f", input_schema: parameters }],
  }),
  gemini: ({ args = {}, result = { output: "ok" }, parameters }) => ({
    contents: [
      { role: "user", parts: [{ text: "Go" }] },
      { role: "model", parts: [{ functionCall: { id: "a", name: "f", args } }] },
      { role: "user", parts: [{ functionResponse: { id: "a", name: "f", response: result } }] },
    ],
    tools: [{ functionDeclarations: [{ name: "f", parameters }] }],
  }),
};

const schemaOf = (dialect: ConversationDialect): object => profiles[dialect].endpoints.answer?.[0]?.schema ?? {};

function read(dialect: ConversationDialect, values: Values): NeutralRequest {
  const body = bodyOf[dialect](values);
  assert.equal(invalidFieldIn(schemaOf(dialect), body), undefined, `${dialect} ${JSON.stringify(values)}`);
  return codecs[dialect].decodeRequest({ body, framing: "whole" });
}

const parts = ({ messages }: NeutralRequest) => messages.flatMap((message) => message.parts);
const inputIn = (request: NeutralRequest) => parts(request).find((part) => part.kind === "call")?.input || "{}";
const resultIn = (request: NeutralRequest) =>
  parts(request)
    .find((part) => part.kind === "result")
    ?.content.map((part) => (part.kind === "text" ? part.text : part.kind))
    .join("|");

const args: [unknown, string][] = [
  [{ x: 1 }, '{"x":1}'],
  ['{"x":1}', '{"x":1}'],
  [[], "{}"],
  ["", "{}"],
  ["[]", "{}"],
  [" [ ] ", "{}"],
  ["null", "{}"],
  [null, "{}"],
  ["not JSON", "not JSON"],
  [[1], "[1]"],
];

const results: [unknown, string][] = [
  [{ a: { b: [1] } }, '{"a":{"b":[1]}}'],
  [["a", 1], '["a",1]'],
  [[{ a: 1 }], '[{"a":1}]'],
  [7.5, "7.5"],
  [false, "false"],
  ["plain", "plain"],
];

const parameters: unknown[] = [[], true, false, {}];

/** Google's own API refuses such values, so its clients send none. */
const callers = conversationDialects.filter((dialect) => dialect !== "gemini");

for (const dialect of callers) {
  test(`a call's arguments of ${dialect} callers are read as objects and as text`, () => {
    for (const [value, expected] of args) assert.equal(inputIn(read(dialect, { args: value })), expected);
  });

  test(`a call's result of ${dialect} callers is text, whatever the tool returned`, () => {
    for (const [value, expected] of results) assert.equal(resultIn(read(dialect, { result: value })), expected);
  });

  test(`a tool of ${dialect} callers whose parameters are no object takes no arguments, and every upstream accepts it`, () => {
    for (const value of dialect === "openai-chat" ? [...parameters, 7, "none", '["x"]'] : parameters) {
      const request = read(dialect, { parameters: value });
      assert.deepEqual(request.tools[0]?.parameters ?? {}, {});
      for (const spoken of conversationDialects)
        codecs[spoken].encodeRequest(request, "whole", targetOf(spoken, "upstream-name"));
    }
  });
}

test("parameters of chat callers may be the JSON text of a schema", () => {
  const text = JSON.stringify({ type: "object", properties: { x: { type: "string" } } });
  assert.deepEqual(read("openai-chat", { parameters: text }).tools[0]?.parameters, JSON.parse(text));
});

/** A whole answer of each dialect with these arguments. */
const answerOf: Record<ConversationDialect, (args: unknown) => Json> = {
  "openai-chat": (value) => ({
    choices: [
      {
        message: { tool_calls: [{ id: "a", function: { name: "f", arguments: value } }] },
        finish_reason: "tool_calls",
      },
    ],
  }),
  "openai-responses": (value) => ({
    status: "completed",
    output: [{ type: "function_call", call_id: "a", name: "f", arguments: value }],
  }),
  "anthropic-messages": (value) => ({
    content: [{ type: "tool_use", id: "a", name: "f", input: value }],
    stop_reason: "tool_use",
  }),
  gemini: (value) => ({
    candidates: [{ content: { parts: [{ functionCall: { id: "a", name: "f", args: value } }] }, finishReason: "STOP" }],
  }),
};

test("arguments in answers are read as objects and as text from every upstream", () => {
  for (const dialect of conversationDialects)
    for (const [value, expected] of args) {
      const answer = foldedOf(codecs[dialect].decodeAnswer(answerOf[dialect](value)));
      assert.ok(answer !== undefined && !("error" in answer));
      const [call] = answer.blocks;
      assert.equal((call?.kind === "call" && call.input) || "{}", expected, dialect);
    }
});

test("the text of a call of a custom tool may be an object", () => {
  const chat = codecs["openai-chat"].decodeRequest({
    framing: "whole",
    body: {
      model: "m",
      messages: [
        { role: "user", content: "Go" },
        { role: "assistant", tool_calls: [{ id: "a", type: "custom", custom: { name: "f", input: { input: "x" } } }] },
      ],
      tools: [{ type: "custom", custom: { name: "f" } }],
    },
  });
  const responses = codecs["openai-responses"].decodeRequest({
    framing: "whole",
    body: {
      model: "m",
      input: [{ type: "custom_tool_call", call_id: "a", name: "f", input: { y: 1 } }],
      tools: [{ type: "custom", name: "f" }],
    },
  });
  assert.equal(inputIn(chat), '{"input":"x"}');
  assert.equal(inputIn(responses), JSON.stringify({ input: '{"y":1}' }));
});

test("empty instructions are none, because some vendors refuse empty messages", () => {
  const hello = { role: "user", content: "hi" };
  const { decodeRequest } = codecs["anthropic-messages"];
  const request = decodeRequest({ body: { max_tokens: 9, system: "", messages: [hello] }, framing: "whole" });
  const { body } = codecs["openai-chat"].encodeRequest(request, "whole", targetOf("openai-chat", "kimi-k2.5"));
  assert.deepEqual(JSON.parse(body.toString()).messages, [hello]);
});

/**
 * Clients that write whole records have null for each member that belongs to another type of part,
 * tool or choice.
 */
const withNulls: Record<ConversationDialect, Json> = {
  "openai-chat": {
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Go", image_url: null, input_audio: null, file: null, refusal: null },
          { type: "file", file: { file_data: "JVBERi0xLjQK", file_id: null, filename: null }, text: null },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: "{}" }, custom: null }],
      },
      { role: "tool", tool_call_id: "a", content: "ok" },
    ],
    tools: [{ type: "function", function: { name: "f" }, custom: null, name: null }],
    tool_choice: { type: "function", function: { name: "f" }, custom: null, name: null, allowed_tools: null },
    response_format: { type: "text", json_schema: null },
  },
  "openai-responses": {
    input: [
      { role: "user", content: [{ type: "input_text", text: "Go", refusal: null, input_audio: null }] },
      { type: "function_call", role: null, content: null, call_id: "a", name: "f", arguments: "{}" },
      { type: "function_call_output", role: null, call_id: "a", name: null, output: "ok" },
    ],
    tools: [
      { type: "custom", name: "f", format: { type: "text", syntax: null, definition: null } },
      { type: "web_search", name: null },
    ],
    tool_choice: { type: "function", name: "f", mode: null, tools: null },
  },
  "anthropic-messages": {
    max_tokens: 10,
    messages: [
      {
        role: "user",
        content: [
          {
            type: "document",
            source: { type: "base64", media_type: "application/pdf", data: "JVBERi0xLjQK", url: null },
          },
          { type: "text", text: "Go", source: null },
        ],
      },
    ],
    tools: [{ name: "f", input_schema: { type: "object" } }],
    tool_choice: { type: "auto", name: null },
  },
  gemini: {
    contents: [{ role: "user", parts: [{ text: "Go", inlineData: null, fileData: null, functionCall: null }] }],
    tools: [{ functionDeclarations: [{ name: "f", parameters: null, parametersJsonSchema: null }] }],
  },
};

for (const dialect of conversationDialects)
  test(`null counts as absent for members of other types, from ${dialect} callers`, () => {
    const body = dialect === "gemini" ? withNulls[dialect] : { model: "m", ...withNulls[dialect] };
    assert.equal(invalidFieldIn(schemaOf(dialect), body), undefined);
    assert.equal(codecs[dialect].decodeRequest({ body, framing: "whole" }).tools[0]?.name, "f");
  });

test("a member that a type needs is not null", () => {
  const cases: [ConversationDialect, Json, string][] = [
    [
      "openai-chat",
      { messages: [{ role: "user", content: [{ type: "text", text: null }] }] },
      "messages[0].content[0].text",
    ],
    ["openai-chat", { tools: [{ type: "function", function: null }] }, "tools[0].name"],
    ["openai-chat", { tools: [{ type: "function", name: null }] }, "tools[0].name"],
    [
      "openai-responses",
      { input: [{ role: "user", content: [{ type: "input_text", text: null }] }] },
      "input[0].content[0].text",
    ],
    ["openai-responses", { input: [{ role: null, content: "x" }] }, "input[0].role"],
    ["openai-responses", { tools: [{ type: "function", name: null }] }, "tools[0].name"],
    [
      "anthropic-messages",
      { messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url: null } }] }] },
      "messages[0].content[0].source.url",
    ],
    ["anthropic-messages", { tool_choice: { type: "tool", name: null } }, "tool_choice.name"],
  ];
  for (const [dialect, more, expected] of cases) {
    const body = { ...bodyOf[dialect]({}), ...more };
    const own = invalidFieldIn(schemaOf(dialect), body)?.param;
    assert.equal(own ?? refusalOf(() => codecs[dialect].decodeRequest({ body, framing: "whole" })), expected);
  }
});
