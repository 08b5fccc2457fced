import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;

const control = { cache_control: { type: "ephemeral" } };
const long = { cache_control: { type: "ephemeral", ttl: "1h" } };
const point = { prompt_cache_breakpoint: { mode: "explicit" } };
const longPoint = { prompt_cache_breakpoint: { mode: "explicit", ttl: "12h" } };

const chatCall = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
/**
 * The same conversation with marks on the tool, the instructions, the result and the last message.
 */
const conversations: Record<string, [ConversationDialect, Json, marksTools: boolean]> = {
  "chat, marks on parts": [
    "openai-chat",
    {
      tools: [{ type: "function", function: { name: "f" }, ...control }],
      messages: [
        { role: "system", content: [{ type: "text", text: "Be brief.", ...long }] },
        { role: "user", content: "hi" },
        { role: "assistant", content: null, tool_calls: [chatCall] },
        { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "sunny", ...control }] },
        { role: "user", content: [{ type: "text", text: "and now?", ...control }] },
      ],
    },
    true,
  ],
  "chat, marks on messages": [
    "openai-chat",
    {
      tools: [{ type: "function", function: { name: "f", ...control } }],
      messages: [
        { role: "system", content: "Be brief.", ...long },
        { role: "user", content: "hi" },
        { role: "assistant", content: null, tool_calls: [chatCall] },
        { role: "tool", tool_call_id: "call_1", content: "sunny", ...control },
        { role: "user", content: "and now?", ...control },
      ],
    },
    true,
  ],
  "chat, breakpoints": [
    "openai-chat",
    {
      tools: [{ type: "function", function: { name: "f" } }],
      messages: [
        { role: "system", content: [{ type: "text", text: "Be brief.", ...longPoint }] },
        { role: "user", content: "hi" },
        { role: "assistant", content: null, tool_calls: [chatCall] },
        { role: "tool", tool_call_id: "call_1", content: [{ type: "text", text: "sunny", ...point }] },
        { role: "user", content: [{ type: "text", text: "and now?", ...point }] },
      ],
    },
    false,
  ],
  responses: [
    "openai-responses",
    {
      tools: [{ type: "function", name: "f" }],
      input: [
        { role: "developer", content: [{ type: "input_text", text: "Be brief.", ...longPoint }] },
        { role: "user", content: "hi" },
        { type: "function_call", call_id: "call_1", name: "f", arguments: "{}" },
        { type: "function_call_output", call_id: "call_1", output: [{ type: "input_text", text: "sunny", ...point }] },
        { role: "user", content: [{ type: "input_text", text: "and now?", ...point }] },
      ],
    },
    false,
  ],
  messages: [
    "anthropic-messages",
    {
      max_tokens: 10,
      tools: [{ name: "f", input_schema: { type: "object" }, ...control }],
      system: [{ type: "text", text: "Be brief.", ...long }],
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", content: [{ type: "tool_use", id: "call_1", name: "f", input: {} }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "call_1", content: "sunny", ...control },
            { type: "text", text: "and now?", ...control },
          ],
        },
      ],
    },
    true,
  ],
};

const wireOf = (from: ConversationDialect, body: Json, to: ConversationDialect, model: string): Json => {
  const request = consistent(codecs[from].decodeRequest({ body: { model: "m", ...body }, framing: "whole" }));
  return JSON.parse(String(codecs[to].encodeRequest(request, "whole", targetOf(to, model)).body));
};

/** The texts that are marked, each with its mark, in order. */
function marksIn(value: unknown, inheritedText = ""): string[] {
  if (Array.isArray(value)) return value.flatMap((one) => marksIn(one));
  if (typeof value !== "object" || value === null) return [];
  const { cache_control, prompt_cache_breakpoint, text, name, content, ...others } = value as Json;
  const own = String(text ?? (typeof content === "string" ? content : undefined) ?? name ?? inheritedText);
  const mark = (cache_control ?? prompt_cache_breakpoint) as Json | undefined;
  const inner = [content, ...Object.values(others)].flatMap((one) => marksIn(one));
  return [...inner, ...(mark === undefined ? [] : [`${own} ${mark.ttl ?? "short"}`])];
}

for (const [name, [from, body, marksTools]] of Object.entries(conversations)) {
  test(`cache marks of ${name} reach Claude's and chat upstreams of every kind`, () => {
    if (from !== "anthropic-messages") {
      const claude = wireOf(from, body, "anthropic-messages", "claude-opus-4-1");
      assert.deepEqual(marksIn(claude.tools), marksTools ? ["f short"] : []);
      // A long mark may not follow a short one.
      assert.deepEqual(marksIn(claude.system), [marksTools ? "Be brief. short" : "Be brief. 1h"]);
      assert.equal(marksIn(claude.messages).length, 2);
      // Anthropic takes marks on a result, and refuses them inside of one.
      const [, , answered] = claude.messages as { content: Json[] }[];
      assert.deepEqual(answered?.content[0], {
        type: "tool_result",
        tool_use_id: "call_1",
        content: [{ type: "text", text: "sunny" }],
        ...control,
      });
    }
    if (from !== "openai-chat") {
      const router = wireOf(from, body, "openai-chat", "anthropic/claude-opus-5");
      assert.deepEqual(marksIn(router.messages), ["Be brief. 1h", "sunny short", "and now? short"]);
      assert.equal(marksIn(router.tools).length, marksTools ? 1 : 0);
      const openai = wireOf(from, body, "openai-chat", "gpt-5.6-sol");
      assert.deepEqual(marksIn(openai.messages), ["Be brief. 12h", "sunny short", "and now? short"]);
      assert.deepEqual(marksIn(openai.tools), []);
      assert.deepEqual(marksIn(wireOf(from, body, "openai-chat", "my-model")), []);
      assert.deepEqual(marksIn(wireOf(from, body, "openai-chat", "gpt-4o")), []);
    }
    if (from !== "openai-responses") {
      const { input, instructions } = wireOf(from, body, "openai-responses", "gpt-6-astra");
      assert.deepEqual(marksIn(input), ["Be brief. 12h", "sunny short", "and now? short"]);
      assert.equal(instructions, undefined);
      const older = wireOf(from, body, "openai-responses", "gpt-5.2");
      assert.deepEqual(marksIn(older), []);
      assert.equal(older.instructions, "Be brief.");
    }
    assert.deepEqual(marksIn(wireOf(from, body, "gemini", "gemini-2.5-pro")), []);
  });
}

test("no upstream gets more than four marks, and they are the last", () => {
  const messages = Array.from({ length: 7 }, (_, place) => ({
    role: place % 2 === 0 ? "user" : "assistant",
    content: [{ type: "text", text: `t${place}`, ...control }],
  }));
  const last = ["t3 short", "t4 short", "t5 short", "t6 short"];
  assert.deepEqual(marksIn(wireOf("openai-chat", { messages }, "anthropic-messages", "claude-opus-4-1")), last);
  for (const model of ["anthropic/claude-opus-5", "gpt-6-astra"])
    assert.deepEqual(marksIn(wireOf("anthropic-messages", { max_tokens: 5, messages }, "openai-chat", model)), last);
  const { input } = wireOf("anthropic-messages", { max_tokens: 5, messages }, "openai-responses", "gpt-6-astra");
  assert.deepEqual(marksIn(input), ["t4 short", "t6 short"]);
});

test("the cache key reaches every upstream that takes one", () => {
  const chat = { messages: [{ role: "user", content: "hi" }], prompt_cache_key: "session-1" };
  const responses = { input: "hi", prompt_cache_key: "session-1" };
  assert.equal(wireOf("openai-chat", chat, "openai-responses", "m").prompt_cache_key, "session-1");
  assert.equal(wireOf("openai-responses", responses, "openai-chat", "m").prompt_cache_key, "session-1");
  for (const to of ["anthropic-messages", "gemini"] as const)
    assert.equal(wireOf("openai-responses", responses, to, "m").prompt_cache_key, undefined);
});
