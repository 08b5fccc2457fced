/**
 * Conversations that end with a turn of the assistant, for models that continue it and for those
 * that refuse it.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { continueText } from "#dialects/neutral/history.ts";
import type { ModelTraits } from "#dialects/neutral/model-traits.ts";
import { repairedBytes } from "#dialects/relay/repaired.ts";
import { listOf, objectOf } from "#wire/json/parse.ts";
import { targetOf } from "../../support/target.ts";

type Json = Record<string, unknown>;

/** A conversation that ends with the assistant's `{`. */
const conversations: Record<ConversationDialect, Json> = {
  "openai-chat": {
    model: "m",
    messages: [
      { role: "user", content: "JSON" },
      { role: "assistant", content: "{" },
    ],
  },
  "openai-responses": {
    model: "m",
    input: [
      { role: "user", content: "JSON" },
      { role: "assistant", content: "{" },
    ],
  },
  "anthropic-messages": {
    model: "m",
    max_tokens: 100,
    messages: [
      { role: "user", content: "JSON" },
      { role: "assistant", content: "{" },
    ],
  },
  gemini: {
    contents: [
      { role: "user", parts: [{ text: "JSON" }] },
      { role: "model", parts: [{ text: "{" }] },
    ],
  },
};

const encoded = (
  caller: ConversationDialect,
  upstream: ConversationDialect,
  model: string,
  { fields = {}, traits = {} }: { fields?: Json; traits?: Partial<ModelTraits> } = {},
): Json => {
  const body = { ...conversations[caller], ...fields };
  const request = codecs[caller].decodeRequest({ body, framing: "whole" });
  const target = targetOf(upstream, model);
  const changed = { ...target, traits: { ...target.traits, ...traits } };
  return JSON.parse(codecs[upstream].encodeRequest(request, "whole", changed).body.toString());
};

/** The roles of a conversation, and the text of its last turn. */
function endOf(body: Json): [roles: string, text: unknown] {
  const turns = listOf(body.messages ?? body.input ?? body.contents).map(objectOf);
  const { content, parts } = turns.at(-1) ?? {};
  const text = typeof content === "string" ? content : objectOf(listOf(content ?? parts).at(-1)).text;
  return [turns.map(({ role }) => String(role)[0]).join(""), text];
}

const refusing: [ConversationDialect, string][] = [
  ["anthropic-messages", "claude-opus-4-6"],
  ["anthropic-messages", "anthropic.claude-sonnet-4-6-v1:0"],
  ["anthropic-messages", "claude-haiku-5-5"],
  ["anthropic-messages", "claude-of-tomorrow"],
  ["openai-chat", "anthropic/claude-opus-4.6"],
  ["openai-chat", "mistral-large-latest"],
];

for (const caller of conversationDialects)
  test(`a turn of the assistant that ends a request of ${caller} is followed by an instruction where the model refuses it`, () => {
    for (const [upstream, model] of refusing)
      assert.deepEqual(endOf(encoded(caller, upstream, model)), ["uau", continueText], model);
  });

const continuing: [ConversationDialect, string][] = [
  ["anthropic-messages", "claude-sonnet-4-5"],
  ["openai-chat", "anthropic/claude-3.5-haiku"],
  ["openai-chat", "gpt-5.4"],
  ["openai-responses", "gpt-5.4"],
];

test("it stays the last turn for all other models, and for an upstream that continues it", () => {
  for (const [upstream, model] of continuing)
    assert.deepEqual(endOf(encoded("openai-chat", upstream, model)), ["ua", "{"], model);
  for (const model of ["gemini-3-pro", "gemini-3.5-flash", "gemini-2.5-flash"])
    assert.deepEqual(endOf(encoded("openai-chat", "gemini", model)), ["um", "{"], model);
  for (const model of ["gemini-3.5-flash-lite", "gemini-3.8-flash", "models/gemini-4-argon", "gemini-10-flash"])
    assert.deepEqual(endOf(encoded("openai-chat", "gemini", model)), ["umu", continueText], model);
  assert.deepEqual(endOf(encoded("openai-chat", "openai-chat", "mistral", { traits: { prefill: true } })), ["ua", "{"]);
});

test("a turn that the model continues goes without a thinking budget, which would refuse it", () => {
  const thinking = { thinking: { type: "enabled", budget_tokens: 1_024 }, max_tokens: 4_000 };
  const bodyWith = (fields: Json) =>
    encoded("anthropic-messages", "anthropic-messages", "claude-sonnet-4-5", { fields });
  assert.equal(bodyWith(thinking).thinking, undefined);
  assert.notEqual(bodyWith({ ...thinking, messages: [{ role: "user", content: "JSON" }] }).thinking, undefined);
});

test("nothing follows a turn of calls, a turn without words, or the user's turn", () => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const endings: [Json[], string][] = [
    [
      [
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "a", content: "1" },
      ],
      "uau",
    ],
    [[{ role: "assistant", content: "" }], "u"],
    [[{ role: "assistant", content: "", reasoning_content: "Hm" }], "u"],
    [[], "u"],
  ];
  for (const [messages, roles] of endings) {
    const fields = { messages: [{ role: "user", content: "Go" }, ...messages] };
    assert.equal(endOf(encoded("openai-chat", "anthropic-messages", "claude-opus-4-6", { fields }))[0], roles);
  }
});

test("a caller's own bytes get the instruction once the upstream refused them, and every other byte stays", () => {
  for (const dialect of conversationDialects) {
    const bytes = Buffer.from(JSON.stringify(conversations[dialect]));
    const request = { body: bytes, framing: "whole" as const };
    const repaired = repairedBytes(codecs[dialect], dialect, request, targetOf(dialect, "m"), [{ kind: "ending" }]);
    const role = dialect === "gemini" ? "umu" : "uau";
    assert.deepEqual(endOf(JSON.parse(repaired.toString())), [role, continueText], dialect);
    const end = bytes.lastIndexOf("]");
    assert.ok(repaired.subarray(0, end).equals(bytes.subarray(0, end)));
    assert.ok(repaired.toString().endsWith(bytes.subarray(end).toString()));
  }
});
