/** Requests with `functions`, the form that tools replaced. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { type Answer, eventsOf } from "#dialects/neutral/neutral.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;

const weather = { name: "weather", description: "Tells it.", parameters: { type: "object", properties: { city: {} } } };
const body: Json = {
  model: "m",
  messages: [
    { role: "user", content: "Weather in Paris?" },
    { role: "assistant", content: null, function_call: { name: "weather", arguments: '{"city":"Paris"}' } },
    { role: "function", name: "weather", content: "Sunny" },
  ],
  functions: [weather, { name: "now" }],
  function_call: "auto",
};

const decoded = (more: Json = {}) =>
  consistent(codecs["openai-chat"].decodeRequest({ body: { ...body, ...more }, framing: "sse" }));

test("functions, their choice, their calls and their results are read as those of tools", () => {
  const { tools, toolChoice, messages, settings } = decoded();
  assert.deepEqual(
    tools.map(({ name, description }) => [name, description]),
    [
      ["weather", "Tells it."],
      ["now", undefined],
    ],
  );
  assert.equal(toolChoice?.mode, "auto");
  assert.equal(settings.parallelCalls?.value, false);
  const [call, result] = messages.slice(1).flatMap(({ parts }) => parts);
  assert.ok(call?.kind === "call" && result?.kind === "result");
  assert.deepEqual([call.name, call.input, result.name], ["weather", '{"city":"Paris"}', "weather"]);
  assert.equal(result.callId, call.id);
  assert.deepEqual(decoded({ function_call: { name: "now" } }).toolChoice?.only, ["now"]);
  assert.equal(decoded({ function_call: "none" }).toolChoice?.mode, "none");
});

test("every upstream accepts such a request", () => {
  for (const spoken of conversationDialects) {
    const { body: sent } = codecs[spoken].encodeRequest(decoded(), "whole", targetOf(spoken, "upstream-name"));
    assert.match(sent.toString(), /Sunny/);
    assert.match(sent.toString(), /Paris/);
  }
});

test("each of several calls has its own result", () => {
  const turns = ["a", "b"].flatMap((city) => [
    { role: "assistant", content: null, function_call: { name: "weather", arguments: { city } } },
    { role: "function", name: "weather", content: `in ${city}` },
  ]);
  const { messages } = decoded({ messages: [{ role: "user", content: "Go" }, ...turns] });
  const results = messages.flatMap(({ parts }) => parts).filter((part) => part.kind === "result");
  assert.deepEqual(
    results.map(({ content }) => content.map((part) => (part.kind === "text" ? part.text : ""))),
    [["in a"], ["in b"]],
  );
});

const answer: Answer = {
  blocks: [{ kind: "call", id: "c", name: "weather", input: '{"city":"Rome"}' }],
  finish: "calls",
};
const contextOf = (own: Json) => ({
  id: "a1",
  model: "m",
  createdAt: 1,
  framing: "sse" as const,
  request: decoded(),
  body: own,
});

test("the answer has a function_call, whole and streamed, and tool_calls for requests with tools", () => {
  const whole = JSON.parse(codecs["openai-chat"].encodeAnswer(answer, contextOf(body))).choices[0];
  assert.deepEqual(whole.message.function_call, { name: "weather", arguments: '{"city":"Rome"}' });
  assert.equal(whole.message.tool_calls, undefined);
  assert.equal(whole.finish_reason, "function_call");
  const encoder = codecs["openai-chat"].streamEncoder(contextOf(body));
  const chunks = eventsOf(answer)
    .map((event) => (event.kind === "error" ? "" : encoder.push(event)))
    .join("")
    .split("\n")
    .flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice(6)).choices[0]] : []));
  assert.deepEqual(
    chunks.flatMap(({ delta }) => delta.function_call ?? []),
    [{ name: "weather", arguments: "" }, { arguments: '{"city":"Rome"}' }],
  );
  assert.equal(chunks.at(-1).finish_reason, "function_call");
  const modern = { ...body, functions: undefined, tools: [{ type: "function", function: weather }] };
  const other = JSON.parse(codecs["openai-chat"].encodeAnswer(answer, contextOf(modern))).choices[0];
  assert.equal(other.message.tool_calls.length, 1);
  assert.equal(other.finish_reason, "tool_calls");
});

test("a function without a name is refused by its field", () => {
  assert.throws(
    () => decoded({ functions: [{}] }),
    (error) => error instanceof Refusal && error.param === "functions[0].name",
  );
});
