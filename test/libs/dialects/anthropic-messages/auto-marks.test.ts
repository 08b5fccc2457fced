/** Marks of cached prompts that the gateway sets. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { cacheTokensMinOf, withCacheMarks } from "#dialects/anthropic-messages/auto-marks.ts";

const ephemeral = { type: "ephemeral" };
const hour = { type: "ephemeral", ttl: "1h" };
const marked = (body: object, ttl: "5m" | "1h" = "5m", tokensMin = 0) =>
  JSON.parse(withCacheMarks(Buffer.from(JSON.stringify(body)), { ttl, tokensMin }).toString());
const text = (value: string, control?: object) => ({
  type: "text",
  text: value,
  ...(control && { cache_control: control }),
});
const user = (...content: object[]) => ({ role: "user", content });
const thinking = { type: "thinking", thinking: "hm", signature: "s" };
const assistant = { role: "assistant", content: [thinking, text("two")] };
const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: "object" }, ...more });

test("the tools, the system prompt and the last two turns of the user are marked, and nothing else", () => {
  const body = {
    model: "m",
    messages: [user(text("one")), assistant, user(text("three")), assistant, user(text("five"), text("six"))],
    system: "be brief",
    tools: [tool("a"), tool("b"), tool("c", { defer_loading: true })],
  };
  assert.deepEqual(marked(body), {
    ...body,
    messages: [
      user(text("one")),
      assistant,
      user(text("three", ephemeral)),
      assistant,
      user(text("five"), text("six", ephemeral)),
    ],
    system: [text("be brief", ephemeral)],
    tools: [tool("a"), tool("b", { cache_control: ephemeral }), tool("c", { defer_loading: true })],
  });
});

test("the caller's own marks stay and count, and only the most useful ones are added", () => {
  const own = [text("a", ephemeral), text("b", ephemeral), text("c", ephemeral)];
  const body = {
    model: "m",
    system: [...own, text("d")],
    messages: [user(text("one")), assistant, user(text("three"))],
  };
  assert.deepEqual(marked(body).messages, [user(text("one")), assistant, user(text("three", ephemeral))]);
  assert.deepEqual(marked(body).system, body.system);
  const full = { ...body, system: [...own, text("d", ephemeral)] };
  assert.deepEqual(marked(full), full);
  const automatic = { model: "m", cache_control: ephemeral, messages: [user(text("one"))] };
  assert.deepEqual(marked(automatic), automatic);
  const inner = {
    model: "m",
    messages: [user({ type: "tool_result", tool_use_id: "t", content: [text("x", ephemeral)] })],
  };
  assert.deepEqual(marked(inner), inner);
});

test("an hour's mark never follows one for five minutes", () => {
  const before = { model: "m", system: [text("a", ephemeral)], messages: [user(text("one"))] };
  assert.deepEqual(marked(before, "1h").messages, [user(text("one", ephemeral))]);
  const after = { model: "m", system: "a", messages: [user(text("one", hour))] };
  assert.deepEqual(marked(after).system, [text("a", hour)]);
  assert.deepEqual(marked({ model: "m", messages: [user(text("one"))] }, "1h").messages, [user(text("one", hour))]);
});

test("marks inside blocks and the automatic one count as all others do", () => {
  const inner = [text("x", ephemeral), text("y", ephemeral)];
  const result = (more: object = {}) => ({ type: "tool_result", tool_use_id: "t", content: inner, ...more });
  const nested = [
    [result(), 2],
    [result({ cache_control: ephemeral }), 3],
    [{ type: "document", source: { type: "content", content: inner } }, 2],
    [{ ...result(), content: [{ type: "document", source: { type: "content", content: inner } }] }, 2],
  ] as const;
  for (const [block, marks] of nested) {
    const body = {
      model: "m",
      tools: [tool("a")],
      system: [text("s", ephemeral)],
      messages: [user(block), assistant, user(text("z"))],
    };
    const answer = marked(body);
    assert.equal(JSON.stringify(answer).match(/"cache_control"/g)?.length, 4, JSON.stringify(block));
    assert.deepEqual(answer.tools, [tool("a")]);
    assert.deepEqual(answer.messages.at(-1), user(text("z", marks === 2 ? ephemeral : undefined)));
  }
  const automatic = { model: "m", cache_control: hour, tools: [tool("a")], system: "s", messages: [user(text("one"))] };
  assert.deepEqual(marked(automatic).system, [text("s", hour)]);
  assert.deepEqual(marked(automatic).tools, [tool("a", { cache_control: hour })]);
});

test("a prompt below the minimum, an empty text and what is no request stay as they are", () => {
  const short = { model: "m", system: "be brief", messages: [user(text("one"))] };
  assert.deepEqual(marked(short, "5m", 1_024), short);
  assert.deepEqual(marked({ ...short, messages: [user(text("x".repeat(5_000)))] }, "5m", 1_024).system, "be brief");
  assert.deepEqual(marked({ model: "m", messages: [user(text(" "))] }), { model: "m", messages: [user(text(" "))] });
  for (const bytes of ["{}", "[]", "no"])
    assert.equal(withCacheMarks(Buffer.from(bytes), { ttl: "5m", tokensMin: 0 }).toString(), bytes);
});

test("every other byte stays as the caller wrote it", () => {
  const own = '{ "model" : "m",\n "messages": [ {"role":"user", "content" : "\\u0031 \\/ 1.0" } ], "x": 1.0 }';
  assert.equal(
    withCacheMarks(Buffer.from(own), { ttl: "5m", tokensMin: 0 }).toString(),
    own.replace('"\\u0031 \\/ 1.0"', '[{"type":"text","text":"\\u0031 \\/ 1.0","cache_control":{"type":"ephemeral"}}]'),
  );
});

test("the vendor's minimum follows from the model's name", () => {
  const rows = [
    ["claude-opus-5-5", 512],
    ["claude-opus-4-8", 1_024],
    ["claude-opus-4-5-20251101", 4_096],
    ["claude-haiku-4-5", 4_096],
    ["claude-sonnet-4-6", 1_024],
    ["claude-fable-5", 512],
    ["other", 1_024],
  ] as const;
  for (const [model, tokens] of rows) assert.equal(cacheTokensMinOf(model), tokens, model);
});
