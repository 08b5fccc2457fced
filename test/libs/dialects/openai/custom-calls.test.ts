/**
 * Tools with free text whose upstream answers with a function call: the caller gets a custom call
 * with plain text, translated or not.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerIdentity } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { textOfCall } from "#dialects/neutral/tools.ts";
import { customNamesIn } from "#dialects/openai/custom-calls.ts";

type Json = Record<string, unknown>;

const patch = '*** Begin Patch\n+ "é" 😀\n*** End Patch';
/** Arguments that models write for a tool with free text, each with the text it means. */
const spellings: [string, string][] = [
  [JSON.stringify({ input: patch }), patch],
  [JSON.stringify({ patch }), patch],
  [JSON.stringify(patch), patch],
  [patch, patch],
  ['{"input":"a\nb"}', "a\nb"],
  [`{ "input" : ${JSON.stringify(patch)} }`, patch],
  ["", ""],
];
const chunked = (text: string): string[] => text.match(/[\s\S]{1,3}/g) ?? [];

const responsesRequest = {
  model: "m",
  input: "Go",
  tools: [
    { type: "custom", name: "apply_patch", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
    { type: "namespace", name: "n", tools: [{ type: "custom", name: "inner" }] },
    { type: "function", name: "read" },
  ],
};
const chatRequest = {
  model: "m",
  messages: [{ role: "user", content: "Go" }],
  stream_options: { include_usage: true },
  tools: [
    { type: "custom", custom: { name: "apply_patch" } },
    { type: "function", function: { name: "read" } },
  ],
};

const identityOf = (request: object): AnswerIdentity => ({
  id: "1",
  model: "m",
  customNames: customNamesIn(Buffer.from(JSON.stringify(request))),
});

/** The events that a caller gets of an upstream's, relayed without translation. */
function relayed(dialect: "openai-chat" | "openai-responses", request: object, events: Json[]): Json[] {
  const bytes = Buffer.from(JSON.stringify(request));
  const stream = codecs[dialect].verbatim.stream(bytes, "sse", identityOf(request));
  const out: Buffer[] = [];
  for (const event of events)
    stream.push(
      {
        event: dialect === "openai-responses" ? String(event.type) : undefined,
        data: Buffer.from(JSON.stringify(event)),
      },
      out,
    );
  stream.end(out);
  assert.equal(stream.error, undefined);
  return Buffer.concat(out)
    .toString()
    .split("\n")
    .flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice(6))] : []));
}

test("the names of tools with free text are found in both forms, and in namespaces", () => {
  const names = (request: object) => [...(customNamesIn(Buffer.from(JSON.stringify(request))) ?? [])];
  assert.deepEqual(names(responsesRequest), ["apply_patch", "inner"]);
  assert.deepEqual(names(chatRequest), ["apply_patch"]);
  assert.equal(customNamesIn(Buffer.from('{"model":"custom","input":"\\"custom\\""}')), undefined);
});

test("arguments become the text, however the model wrote them", () => {
  for (const [input, text] of spellings) if (!input.includes("a\nb")) assert.equal(textOfCall(input), text);
});

for (const [input, text] of spellings)
  test(`a Responses caller gets ${JSON.stringify(input.slice(0, 12))} of a Responses upstream as plain text`, () => {
    const call = { type: "function_call", id: "fc_1", call_id: "c", name: "apply_patch", status: "completed" };
    const other = {
      type: "function_call",
      id: "fc_2",
      call_id: "d",
      name: "read",
      arguments: "{}",
      status: "completed",
    };
    const output = [{ ...call, arguments: input }, other];
    const response = { id: "r", model: "theirs", status: "completed", output };
    const whole = codecs["openai-responses"].verbatim.answer(
      Buffer.from(JSON.stringify(response)),
      identityOf(responsesRequest),
    );
    assert.ok(whole.kind === "answer");
    const custom = { ...call, type: "custom_tool_call", input: text };
    assert.deepEqual(JSON.parse(whole.body.toString()).output, [custom, other]);

    const events = relayed("openai-responses", responsesRequest, [
      { type: "response.created", response: { ...response, output: [] } },
      { type: "response.output_item.added", output_index: 0, item: { ...call, arguments: "", status: "in_progress" } },
      ...chunked(input).map((delta) => ({
        type: "response.function_call_arguments.delta",
        output_index: 0,
        item_id: "fc_1",
        delta,
      })),
      { type: "response.function_call_arguments.done", output_index: 0, item_id: "fc_1", arguments: input },
      { type: "response.output_item.done", output_index: 0, item: output[0] },
      { type: "response.output_item.added", output_index: 1, item: other },
      { type: "response.function_call_arguments.delta", output_index: 1, item_id: "fc_2", delta: "{}" },
      { type: "response.output_item.done", output_index: 1, item: other },
      { type: "response.completed", response },
    ]);
    const ofType = (type: string) => events.filter((event) => event.type === `response.${type}`);
    assert.deepEqual(
      ofType("output_item.added").map(({ item }) => (item as Json).type),
      ["custom_tool_call", "function_call"],
    );
    assert.equal(
      ofType("custom_tool_call_input.delta")
        .map(({ delta }) => delta)
        .join(""),
      text,
    );
    assert.deepEqual(
      ofType("custom_tool_call_input.done").map(({ input: inputText }) => inputText),
      [text],
    );
    assert.deepEqual(
      ofType("output_item.done").map(({ item }) => item),
      [custom, other],
    );
    assert.equal(ofType("function_call_arguments.delta").length, 1);
    const { output: items, id } = (ofType("completed") as { response: Json }[])[0]?.response ?? {};
    assert.deepEqual([items, id], [[custom, other], "resp_1"]);
  });

test("an upstream that sends a call only as a whole item is read as well", () => {
  const item = { type: "function_call", id: "fc_1", call_id: "c", name: "apply_patch", arguments: '{"input":"x"}' };
  const events = relayed("openai-responses", responsesRequest, [
    { type: "response.output_item.added", output_index: 0, item: { ...item, arguments: "" } },
    { type: "response.output_item.done", output_index: 0, item },
    { type: "response.completed", response: { status: "completed", output: [item] } },
  ]);
  assert.deepEqual(
    events.map(({ type }) => type),
    [
      "response.output_item.added",
      "response.custom_tool_call_input.delta",
      "response.custom_tool_call_input.done",
      "response.output_item.done",
      "response.completed",
    ],
  );
});

for (const [input, text] of spellings.filter(([spelling]) => spelling !== '{"input":"a\nb"}'))
  test(`a chat caller gets ${JSON.stringify(input.slice(0, 12))} of a chat upstream as plain text`, () => {
    const call = { id: "c", type: "function", function: { name: "apply_patch", arguments: input } };
    const other = { id: "d", type: "function", function: { name: "read", arguments: "{}" } };
    const custom = { id: "c", type: "custom", custom: { name: "apply_patch", input: text } };
    const answer = {
      model: "theirs",
      choices: [{ index: 0, message: { role: "assistant", tool_calls: [call, other] }, finish_reason: "tool_calls" }],
    };
    const whole = codecs["openai-chat"].verbatim.answer(Buffer.from(JSON.stringify(answer)), identityOf(chatRequest));
    assert.ok(whole.kind === "answer");
    const { choices, model } = JSON.parse(whole.body.toString());
    assert.deepEqual([choices[0].message.tool_calls, model], [[custom, other], "m"]);

    const chunk = (delta: object, reason: string | null = null) => ({
      model: "theirs",
      choices: [{ index: 0, delta, finish_reason: reason }],
    });
    const events = relayed("openai-chat", chatRequest, [
      chunk({ role: "assistant", content: "Hm" }),
      chunk({ tool_calls: [{ index: 0, ...call, function: { name: "apply_patch", arguments: "" } }] }),
      ...chunked(input).map((piece) => chunk({ tool_calls: [{ index: 0, function: { arguments: piece } }] })),
      chunk({ tool_calls: [{ index: 1, ...other }] }),
      chunk({}, "tool_calls"),
      { model: "theirs", choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } },
    ]);
    const deltas = events.flatMap((event) =>
      (event.choices as { delta: Json }[]).flatMap(({ delta }) => (delta.tool_calls as Json[] | undefined) ?? []),
    );
    assert.deepEqual(
      deltas.map(({ index, ...rest }) => [index, rest]),
      [
        [1, other],
        [0, custom],
      ],
    );
    assert.ok(events.every((event) => event.model === "m"));
    const last = (events as { choices: Json[] }[]).at(-2)?.choices[0];
    assert.equal(last?.finish_reason, "tool_calls");
  });

test("without such tools, and without such calls, every byte stays", () => {
  const chunk = {
    id: "c",
    object: "chat.completion.chunk",
    created: 1,
    model: "m",
    choices: [
      {
        index: 0,
        delta: { tool_calls: [{ index: 0, id: "d", type: "function", function: { name: "read", arguments: "{}" } }] },
        finish_reason: "tool_calls",
      },
    ],
  };
  for (const request of [chatRequest, { ...chatRequest, tools: [] }])
    assert.deepEqual(relayed("openai-chat", request, [chunk]), [chunk]);
});
