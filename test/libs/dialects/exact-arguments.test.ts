import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { type Answer, type AnswerEvent, foldedOf } from "#dialects/neutral/neutral.ts";
import { argumentsOf } from "#dialects/neutral/tools.ts";
import { withCallRules } from "#dialects/relay/call-rules.ts";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { targetOf } from "../../support/target.ts";

const digits = "1234567890123456789";
const input = `{"channel_id":${digits},"amount":10}`;
const answer: Answer = { blocks: [{ kind: "call", id: "call_1", name: "send", input }], finish: "calls" };
const request = { system: [], messages: [], tools: [], settings: {} };
const tools = [{ name: "send", callerName: "send", path: "tools[0]" }];
const context: AnswerContext = { id: "a1", model: "m", createdAt: 1, framing: "whole", request, body: {} };

test("long numbers in a call's arguments keep their digits between all dialects", () => {
  for (const upstream of conversationDialects)
    for (const caller of conversationDialects) {
      const wireAnswer = Buffer.from(codecs[upstream].encodeAnswer(answer, context));
      assert.ok(wireAnswer.includes(digits), `${upstream} says them`);
      const read = foldedOf(codecs[upstream].decodeAnswer(parsedObject(wireAnswer) ?? {}));
      assert.ok(read !== undefined && !("error" in read));
      assert.ok(codecs[caller].encodeAnswer(read, context).includes(digits), `${upstream} to ${caller}`);
    }
});

test("long numbers in the calls of a conversation reach upstreams of every dialect", () => {
  const body = Buffer.from(
    `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"send","input":${input}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}],"tools":[{"name":"send","input_schema":{"type":"object","properties":{"channel_id":{"type":"integer","maximum":${digits}}}}}]}`,
  );
  const decoded = codecs["anthropic-messages"].decodeRequest({ body: parsedObject(body) ?? {}, framing: "whole" });
  for (const upstream of conversationDialects) {
    const target = targetOf(upstream, "m");
    const sent = codecs[upstream].encodeRequest(decoded, "whole", target).body.toString();
    assert.ok(sent.replaceAll("\\", "").includes(`"channel_id":${digits}`), upstream);
  }
});

test("deeply nested arguments reach upstreams of every dialect, as text where an object is usual", () => {
  const deep = `${'{"a":'.repeat(20_000)}1${"}".repeat(20_000)}`;
  const called = { id: "c", type: "function", function: { name: "f", arguments: deep } };
  const messages = [
    { role: "user", content: "x" },
    { role: "assistant", tool_calls: [called] },
    { role: "tool", tool_call_id: "c", content: "y" },
  ];
  for (const upstream of conversationDialects) {
    const request = codecs["openai-chat"].decodeRequest({ body: { model: "m", messages }, framing: "whole" });
    const target = targetOf(upstream, "m");
    const sent = codecs[upstream].encodeRequest(request, "whole", target).body;
    assert.ok(sent.includes(JSON.stringify(deep)), upstream);
  }
});

test("arguments with more members, containers or values than a call can need stay text, and are read in no time", () => {
  const members = (count: number) => `{${Array.from({ length: count }, (_, index) => `"a${index}":1`).join()}}`;
  assert.equal(Object.keys(argumentsOf(members(20_000)) ?? {}).length, 20_000);
  for (const input of [
    members(20_001),
    `{"a":[${"{},".repeat(20_000)}1]}`,
    `{"a":[${"1,".repeat(100_001)}1]}`,
    `${'{"a":'.repeat(201)}1${"}".repeat(201)}`,
  ])
    assert.equal(argumentsOf(input), undefined, input.slice(0, 20));
  // Text has no such bound, whatever it looks like.
  const text = JSON.stringify({ text: members(30_000) });
  assert.deepEqual(argumentsOf(text), JSON.parse(text));
});

/** The events of a stream with one call, whose arguments come in these chunks. */
const streams = {
  "openai-chat": (chunks: readonly string[]) => [
    ...chunks.map((text, place) => chunkOf(place === 0 ? { id: "c", type: "function" } : {}, text)),
    { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
  ],
  "openai-responses": (chunks: readonly string[]) => {
    const item = { type: "function_call", id: "fc_1", call_id: "c", name: "send", arguments: "" };
    const done = { ...item, arguments: chunks.join("") };
    return [
      { type: "response.output_item.added", output_index: 0, item },
      ...chunks.map((delta) => ({ type: "response.function_call_arguments.delta", output_index: 0, delta })),
      { type: "response.output_item.done", output_index: 0, item: done },
      { type: "response.completed", response: { status: "completed", output: [done] } },
    ];
  },
  "anthropic-messages": (chunks: readonly string[]) => [
    { type: "content_block_start", index: 0, content_block: { type: "tool_use", id: "c", name: "send", input: {} } },
    ...chunks.map((partial_json) => ({
      type: "content_block_delta",
      index: 0,
      delta: { type: "input_json_delta", partial_json },
    })),
    { type: "content_block_stop", index: 0 },
    { type: "message_delta", delta: { stop_reason: "tool_use" } },
    { type: "message_stop" },
  ],
};

const chunkOf = (start: object, text: string) => ({
  choices: [
    {
      index: 0,
      delta: {
        tool_calls: [{ index: 0, ...start, function: { ...("id" in start && { name: "send" }), arguments: text } }],
      },
      finish_reason: null,
    },
  ],
});

const eventOf = (value: object) => ({
  event: "type" in value ? String(value.type) : undefined,
  data: Buffer.from(JSON.stringify(value)),
});

/** Chunks of arguments with what their call means. */
const broken: [chunks: string[], meant: string][] = [
  [['{"a":', '{"b":1}}'], '{"a":{"b":1}}'],
  [['{"a":1', "}}"], '{"a":1}'],
  [['{"a":1}', "}"], '{"a":1}'],
  [['{"a":"}}"} ]'], '{"a":"}}"}'],
  [[JSON.stringify('{"a":"x"}')], '{"a":"x"}'],
  [['"{\\"a\\"', ':1}"'], '{"a":1}'],
  [["{}", '{"a":1}'], '{"a":1}'],
  [["{", '"a":1}'], '{"a":1}'],
  [["null"], ""],
  [["[]"], ""],
  [["{", "}"], "{}"],
  [['"plain words"'], '"plain words"'],
  [['{"a":1'], '{"a":1'],
];

const inputIn = (events: readonly AnswerEvent[]) => {
  const folded = foldedOf(events);
  assert.ok(folded !== undefined && !("error" in folded));
  const [call] = folded.blocks;
  assert.ok(call?.kind === "call");
  return call.input;
};

test("arguments that are not one object become the object that they contain, in streams of every dialect", () => {
  for (const [dialect, streamOf] of Object.entries(streams))
    for (const [chunks, meant] of broken) {
      const answers = withCallRules(codecs[dialect as keyof typeof streams], { ...request, tools }, "openai-chat");
      const decoder = answers.streamDecoder();
      const events = streamOf(chunks).flatMap((value) => decoder.push(eventOf(value)));
      const input = inputIn([...events, ...decoder.end()]);
      assert.equal(input === "{}" ? "" : input, meant === "{}" ? "" : meant, `${dialect}: ${chunks.join(" | ")}`);
    }
});

test("so do those of whole answers, of calls in requests, and of answers that pass unchanged", () => {
  for (const [chunks, meant] of broken) {
    const sent = chunks.join("");
    const called = { id: "c", type: "function", function: { name: "send", arguments: sent } };
    const item = { type: "function_call", call_id: "c", name: "send", arguments: sent };
    const message = { role: "assistant", content: null, tool_calls: [called] };
    const body = { id: "x", object: "chat.completion", choices: [{ index: 0, message, finish_reason: "tool_calls" }] };
    const response = { object: "response", status: "completed", output: [item] };
    for (const [dialect, answered] of [
      ["openai-chat", body],
      ["openai-responses", response],
    ] as const)
      assert.equal(inputIn(codecs[dialect].decodeAnswer(answered)), meant, `${dialect}: ${sent}`);

    const messages = [{ role: "user", content: "x" }, message];
    const decoded = codecs["openai-chat"].decodeRequest({ body: { model: "m", messages }, framing: "whole" });
    assert.ok(
      decoded.messages.at(-1)?.parts.some((part) => part.kind === "call" && part.input === meant),
      sent,
    );

    const own = codecs["openai-chat"].verbatim.answer(Buffer.from(JSON.stringify(body)), { id: "1", model: "m" });
    assert.ok(own.kind === "answer");
    const [choice] = listOf(parsedObject(own.body)?.choices).map(objectOf);
    const [call] = listOf(objectOf(choice?.message).tool_calls).map(objectOf);
    assert.equal(objectOf(call?.function).arguments, meant || "{}", sent);
  }
});

test("a chat stream that passes unchanged otherwise has an object, too", () => {
  for (const [chunks, meant] of [
    [["null"], "{}"],
    [["[]"], "{}"],
    [["{}", "}"], "{}"],
    [['{"a":1}', "}"], '{"a":1}'],
    [['{"a":', '{"b":1}}} '], '{"a":{"b":1}}'],
  ] as const) {
    const relay = codecs["openai-chat"].verbatim.stream(Buffer.from("{}"), "sse", { id: "1", model: "m" });
    const out: Buffer[] = [];
    for (const value of streams["openai-chat"](chunks)) relay.push(eventOf(value), out);
    const sent = out
      .flatMap((bytes) => bytes.toString().match(/(?<=^data: )\{.*/gm) ?? [])
      .map((data) => JSON.parse(data));
    const added = sent.map(({ choices: [{ delta }] }) => delta.tool_calls?.[0].function.arguments ?? "");
    assert.equal(added.join(""), meant, chunks.join(" | "));
  }
});
