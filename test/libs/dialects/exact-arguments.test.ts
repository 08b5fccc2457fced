import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { type Answer, foldedOf } from "#dialects/neutral/neutral.ts";
import { argumentsOf } from "#dialects/neutral/tools.ts";
import { parsedObject } from "#wire/json/parse.ts";
import { targetOf } from "../../support/target.ts";

const digits = "1234567890123456789";
const input = `{"channel_id":${digits},"amount":10}`;
const answer: Answer = { blocks: [{ kind: "call", id: "call_1", name: "send", input }], finish: "calls" };
const request = { system: [], messages: [], tools: [], settings: {} };
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
