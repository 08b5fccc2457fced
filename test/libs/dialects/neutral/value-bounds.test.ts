/**
 * Walks the table of bounds: a value beyond a bound, from every caller's dialect that can express
 * it, is fitted or refused by name.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { type Rule, type ValueBound, valueBounds } from "#dialects/neutral/value-bounds.ts";
import { unlessRefused } from "#operations/conversation.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;
type Bodies = Partial<Record<ConversationDialect, (value: unknown) => Json>>;

const chatTool = (name: string, description = "Does it.") => ({ type: "function", function: { name, description } });
const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const claude = { max_tokens: 100 };
const google = (generationConfig: Json) => ({ generationConfig });

/** The body that asks for a value, by the caller's dialect. */
const asking: Record<ValueBound["of"], Bodies> = {
  user: {
    "openai-chat": (user) => ({ user }),
    "openai-responses": (user) => ({ user }),
    "anthropic-messages": (user_id) => ({ ...claude, metadata: { user_id } }),
  },
  cacheKey: {
    "openai-chat": (prompt_cache_key) => ({ prompt_cache_key }),
    "openai-responses": (prompt_cache_key) => ({ prompt_cache_key }),
  },
  temperature: {
    "openai-chat": (temperature) => ({ temperature }),
    "openai-responses": (temperature) => ({ temperature }),
    "anthropic-messages": (temperature) => ({ ...claude, temperature: Math.min(1, Number(temperature)) }),
    gemini: (temperature) => google({ temperature }),
  },
  topP: {
    "openai-chat": (top_p) => ({ top_p }),
    "openai-responses": (top_p) => ({ top_p }),
    "anthropic-messages": (top_p) => ({ ...claude, top_p }),
    gemini: (topP) => google({ topP }),
  },
  topK: {
    "openai-chat": (top_k) => ({ top_k }),
    "anthropic-messages": (top_k) => ({ ...claude, top_k }),
    gemini: (topK) => google({ topK }),
  },
  presencePenalty: {
    "openai-chat": (presence_penalty) => ({ presence_penalty }),
    gemini: (presencePenalty) => google({ presencePenalty }),
  },
  frequencyPenalty: {
    "openai-chat": (frequency_penalty) => ({ frequency_penalty }),
    gemini: (frequencyPenalty) => google({ frequencyPenalty }),
  },
  outputTokensMax: {
    "openai-chat": (max_tokens) => ({ max_tokens }),
    "openai-responses": (max_output_tokens) => ({ max_output_tokens }),
    "anthropic-messages": (max_tokens) => ({ max_tokens }),
    gemini: (maxOutputTokens) => google({ maxOutputTokens }),
  },
  stop: {
    "openai-chat": (stop) => ({ stop }),
    "anthropic-messages": (stop_sequences) => ({ ...claude, stop_sequences }),
    gemini: (stopSequences) => google({ stopSequences }),
  },
  format: {
    "openai-chat": (name) => ({ response_format: { type: "json_schema", json_schema: { name, schema } } }),
    "openai-responses": (name) => ({ text: { format: { type: "json_schema", name, schema } } }),
  },
  callId: {
    "openai-chat": (id) => ({
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", tool_calls: [{ id, type: "function", function: { name: "f", arguments: "{}" } }] },
        { role: "tool", tool_call_id: id, content: "ok" },
      ],
    }),
    "openai-responses": (call_id) => ({
      input: [
        { role: "user", content: "hi" },
        { type: "function_call", call_id, name: "f", arguments: "{}" },
        { type: "function_call_output", call_id, output: "ok" },
      ],
    }),
    "anthropic-messages": (id) => ({
      ...claude,
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", content: [{ type: "tool_use", id, name: "f", input: {} }] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: "ok" }] },
      ],
    }),
  },
  toolDescription: {
    "openai-chat": (description) => ({ tools: [chatTool("f", String(description))] }),
    "openai-responses": (description) => ({ tools: [{ type: "function", name: "f", description }] }),
    "anthropic-messages": (description) => ({
      ...claude,
      tools: [{ name: "f", description, input_schema: { type: "object" } }],
    }),
    gemini: (description) => ({ tools: [{ functionDeclarations: [{ name: "f", description }] }] }),
  },
  tools: {
    "openai-chat": (names) => ({ tools: (names as string[]).map((name) => chatTool(name)) }),
    "openai-responses": (names) => ({ tools: (names as string[]).map((name) => ({ type: "function", name })) }),
    "anthropic-messages": (names) => ({
      ...claude,
      tools: (names as string[]).map((name) => ({ name, input_schema: { type: "object" } })),
    }),
    gemini: (names) => ({ tools: [{ functionDeclarations: (names as string[]).map((name) => ({ name })) }] }),
  },
};

const begun: Record<ConversationDialect, Json> = {
  "openai-chat": { model: "m", messages: [{ role: "user", content: "hi" }] },
  "openai-responses": { model: "m", input: "hi" },
  "anthropic-messages": { model: "m", messages: [{ role: "user", content: "hi" }] },
  gemini: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};

const models = [
  "some-model",
  "mistral-large-4",
  "deepseek-v4-pro",
  "moonshot-v1-8k",
  "MiniMax-M3",
  "glm-5.3",
  "gpt-4o",
  "gpt-5.5",
  "gemini-1.5-pro",
];

/** Values beyond the bound. */
function beyond(rule: Rule, of: ValueBound["of"]): unknown[] {
  switch (rule.kind) {
    case "range":
      return [
        rule.min === undefined ? [] : [rule.min - 1, 0],
        rule.max === undefined ? [] : [rule.max + 0.5, 2],
      ].flat();
    case "text":
      return [
        "x".repeat(rule.lengthMax + 1),
        '{"device_id":"a b"}',
        "a.b:c/d",
        "me@example.com",
        "+49 30 1234567",
      ].filter((text) => of !== "callId" || text.length > 9);
    case "length":
      return ["Reads a file. ".repeat(200)];
    case "count":
      return [Array.from({ length: rule.max + 3 }, (_, place) => `f${place}`)];
    default:
      return [[" ", "\n\n", "END", ""]];
  }
}

/** Every value of a member with one of these names, at any depth. */
function membersOf(value: unknown, names: readonly string[]): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => (names.includes(name) ? [inner] : membersOf(inner, names)));
}

const wireNames: Partial<Record<ValueBound["of"], string[]>> = {
  user: ["user", "safety_identifier", "user_id"],
  cacheKey: ["prompt_cache_key"],
  temperature: ["temperature"],
  topP: ["top_p", "topP"],
  topK: ["top_k", "topK"],
  presencePenalty: ["presence_penalty", "presencePenalty"],
  frequencyPenalty: ["frequency_penalty", "frequencyPenalty"],
  outputTokensMax: ["max_tokens", "max_output_tokens", "maxOutputTokens"],
  stop: ["stop", "stop_sequences", "stopSequences"],
  callId: ["tool_call_id", "call_id", "tool_use_id"],
  toolDescription: ["description"],
};

function isWithin(value: unknown, rule: Rule): boolean {
  switch (rule.kind) {
    case "range":
      return Number(value) >= (rule.min ?? Number(value)) && Number(value) <= (rule.max ?? Number(value));
    case "text":
      return String(value).length <= rule.lengthMax && rule.pattern?.test(String(value)) !== false;
    case "length":
      return String(value).length <= rule.max;
    case "count":
      return (value as unknown[]).length <= rule.max;
    default:
      return (value as string[]).every((text) => text.trim() !== "");
  }
}

/** Undefined for what the caller's own dialect does not allow. */
const readable = (from: ConversationDialect, body: Json) => {
  const request = unlessRefused(() => codecs[from].decodeRequest({ body, framing: "whole" }));
  return request && consistent(request);
};

for (const bound of valueBounds) {
  const { dialect, of, rule } = bound;
  test(`${of} for ${dialect}${bound.models === undefined ? "" : ` (${bound.models})`} is ${rule.kind === "count" && of === "tools" ? "refused beyond" : "brought within"} its bound from every dialect`, () => {
    assert.match(bound.source, /^https:\/\/[^\s]+$/);
    const model = models.find((name) => bound.model?.test(name.toLowerCase()) !== false) as string;
    let checked = 0;
    for (const from of conversationDialects)
      for (const value of beyond(rule, of)) {
        const body = asking[of][from]?.(value);
        if (body === undefined) continue;
        const request = readable(from, { ...begun[from], ...body });
        if (request === undefined) continue;
        const encode = () =>
          JSON.parse(String(codecs[dialect].encodeRequest(request, "whole", targetOf(dialect, model)).body));
        if (of === "tools") {
          assert.throws(
            encode,
            (error) => error instanceof Refusal && /tools/.test(error.param) && /128/.test(error.message),
          );
          checked++;
          continue;
        }
        const values =
          of === "format"
            ? [encode().response_format?.json_schema.name ?? encode().text?.format.name]
            : membersOf(encode(), wireNames[of] ?? []);
        for (const sent of values) assert.ok(isWithin(sent, rule), `${from}: ${JSON.stringify(sent)}`);
        checked++;
      }
    assert.ok(checked > 0);
  });
}

test("equal ids stay equal, a call keeps its result, and the rest of a long description stands in the instructions", () => {
  const wire = (from: ConversationDialect, body: Json, model: string) =>
    JSON.parse(
      String(
        codecs["openai-chat"].encodeRequest(
          consistent(codecs[from].decodeRequest({ body: { ...begun[from], ...body }, framing: "whole" })),
          "whole",
          targetOf("openai-chat", model),
        ).body,
      ),
    );
  for (const model of ["mistral-large-4", "gpt-5.5"]) {
    const { messages } = wire(
      "anthropic-messages",
      asking.callId["anthropic-messages"]?.("toolu_".repeat(20)) ?? {},
      model,
    );
    assert.equal(messages[1].tool_calls[0].id, messages[2].tool_call_id);
  }
  for (const model of ["mistral-large-4", "ministral-8b", "magistral-medium-latest", "mixtral-8x22b", "devstral-2"]) {
    const { messages } = wire("anthropic-messages", asking.callId["anthropic-messages"]?.("toolu_1") ?? {}, model);
    assert.match(messages[1].tool_calls[0].id, /^[A-Za-z0-9]{9}$/, model);
  }
  const session = '{"device_id":"0f","account_uuid":"","session_id":"5e2b6f50-57dc-4d07-b6ef-5a6b09dfd3e1"}'.padEnd(
    190,
    " ",
  );
  const userOf = () => wire("anthropic-messages", { ...claude, metadata: { user_id: session } }, "some-model").user;
  assert.match(userOf(), /^[0-9a-f]{64}$/);
  assert.equal(userOf(), userOf());

  const described = wire(
    "anthropic-messages",
    asking.toolDescription["anthropic-messages"]?.(`Reads. ${"word ".repeat(300)}END`) ?? {},
    "gpt-4o",
  );
  assert.match(described.messages[0].content, /description of the tool f continues:\n[\s\S]*END$/);
  const whole = wire(
    "anthropic-messages",
    asking.toolDescription["anthropic-messages"]?.(`Reads. ${"word ".repeat(300)}END`) ?? {},
    "gpt-5.5",
  );
  assert.match(whole.tools[0].function.description, /END$/);
});
