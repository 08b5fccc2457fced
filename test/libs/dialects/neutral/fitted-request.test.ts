import assert from "node:assert/strict";
import { test } from "node:test";
import type { Target } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { consistent } from "#dialects/neutral/consistent.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;

const schema = { type: "object", properties: {} };
const bodies: Record<ConversationDialect, Json> = {
  "openai-chat": { model: "m", messages: [{ role: "user", content: "hi" }] },
  "openai-responses": { model: "m", input: "hi" },
  "anthropic-messages": { model: "m", max_tokens: 9_000, messages: [{ role: "user", content: "hi" }] },
  gemini: { contents: [{ role: "user", parts: [{ text: "hi" }] }] },
};
const functions = ["f", "g"].map((name) => ({ name, description: "Does it.", parameters: schema }));
const toolsOf: Record<ConversationDialect, Json> = {
  "openai-chat": { tools: functions.map((one) => ({ type: "function", function: one })) },
  "openai-responses": { tools: functions.map((one) => ({ type: "function", ...one })) },
  "anthropic-messages": { tools: functions.map(({ parameters, ...one }) => ({ ...one, input_schema: parameters })) },
  gemini: { tools: [{ functionDeclarations: functions }] },
};
const anyCall: Record<ConversationDialect, Json> = {
  "openai-chat": { tool_choice: "required" },
  "openai-responses": { tool_choice: "required" },
  "anthropic-messages": { tool_choice: { type: "any" } },
  gemini: { toolConfig: { functionCallingConfig: { mode: "ANY" } } },
};
const callOfF: Record<ConversationDialect, Json> = {
  "openai-chat": { tool_choice: { type: "function", function: { name: "f" } } },
  "openai-responses": { tool_choice: { type: "function", name: "f" } },
  "anthropic-messages": { tool_choice: { type: "tool", name: "f" } },
  gemini: { toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["f"] } } },
};
const warm: Record<ConversationDialect, Json> = {
  "openai-chat": { temperature: 0.5, top_p: 0.9, presence_penalty: 1, frequency_penalty: 1 },
  "openai-responses": { temperature: 0.5, top_p: 0.9 },
  "anthropic-messages": { temperature: 0.5, top_p: 0.9, top_k: 5 },
  gemini: { generationConfig: { temperature: 0.5, topP: 0.9, topK: 5, presencePenalty: 1, frequencyPenalty: 1 } },
};

function wireOf(
  from: ConversationDialect,
  to: ConversationDialect,
  model: string,
  fields: Json,
  more: Partial<Target> = {},
): Json {
  const request = consistent(codecs[from].decodeRequest({ body: { ...bodies[from], ...fields }, framing: "whole" }));
  return JSON.parse(String(codecs[to].encodeRequest(request, "whole", targetOf(to, model, more)).body));
}

test("sampling and penalties are left out for models that refuse them, from every dialect", () => {
  const cases: [ConversationDialect, string, names: string[]][] = [
    ["openai-chat", "gpt-4o", ["temperature", "top_p", "presence_penalty"]],
    ["openai-chat", "gpt-5", []],
    ["openai-chat", "gpt-5.6-sol", []],
    ["openai-chat", "gpt-9-new", []],
    ["openai-chat", "o3-mini", []],
    ["openai-chat", "kimi-k3", []],
    ["openai-chat", "kimi-k2-0905-preview", ["temperature", "top_p", "presence_penalty"]],
    ["openai-chat", "grok-4.7", ["temperature", "top_p"]],
    ["openai-chat", "glm-5.3", ["temperature", "top_p"]],
    ["openai-responses", "gpt-4.1", ["temperature", "top_p"]],
    ["openai-responses", "gpt-6.1-sol", []],
    ["anthropic-messages", "claude-opus-4-7", []],
    ["anthropic-messages", "claude-sonnet-5-5", []],
    ["anthropic-messages", "claude-unheard-of", []],
    ["anthropic-messages", "claude-3-5-haiku-20241022", ["temperature", "top_p"]],
    ["gemini", "gemini-3.8-flash", []],
    ["gemini", "gemini-2.5-pro", ["temperature", "topP", "presencePenalty"]],
  ];
  const samplingNames = ["temperature", "top_p", "topP", "presence_penalty", "presencePenalty"];
  for (const [to, model, names] of cases)
    for (const from of conversationDialects) {
      const wire = wireOf(from, to, model, warm[from]);
      const wireFields = { ...wire, ...(wire.generationConfig as Json | undefined) };
      const kept = Object.keys(wireFields).filter((name) => samplingNames.includes(name));
      const expectedNames =
        from === "openai-chat" || from === "gemini" ? names : names.filter((name) => !/penalty/i.test(name));
      assert.deepEqual(kept.toSorted(), expectedNames.toSorted(), `${from} to ${model}`);
    }
  const quiet = wireOf("openai-chat", "openai-chat", "gpt-5.4", { temperature: 0.5, reasoning_effort: "none" });
  assert.deepEqual([quiet.temperature, quiet.reasoning_effort], [0.5, "none"]);
});

test("the effort is one that the model's family takes, and a model that nobody knows has the newest rules", () => {
  const cases: [ConversationDialect, string, effort: string, sent: unknown][] = [
    ["openai-chat", "gpt-4o", "high", undefined],
    ["openai-chat", "gpt-5-mini", "none", "minimal"],
    ["openai-chat", "gpt-5-mini", "max", "high"],
    ["openai-chat", "gpt-5.1", "minimal", "low"],
    ["openai-chat", "gpt-5.4", "max", "xhigh"],
    ["openai-chat", "gpt-5.6-sol", "max", "max"],
    ["openai-responses", "gpt-5.6-luna", "max", "max"],
    ["openai-responses", "gpt-5.6-luna", "none", "none"],
    ["openai-chat", "gpt-6-astra", "max", "xhigh"],
    ["openai-chat", "gpt-6-astra", "none", "low"],
    ["openai-responses", "gpt-6-astra", "max", "max"],
    ["openai-responses", "openai/gpt-6-astra", "none", "low"],
    ["openai-responses", "gpt-6-sol", "none", "none"],
    ["openai-responses", "gpt-6-luna", "none", "none"],
    ["openai-responses", "gpt-6.1-sol", "none", "low"],
    ["openai-responses", "gpt-6.1-terra", "none", "none"],
    ["openai-chat", "gpt-11", "minimal", "low"],
    ["openai-chat", "o3", "xhigh", "high"],
    ["openai-responses", "o4-mini", "none", "low"],
    ["openai-responses", "gpt-5.5-pro", "low", "medium"],
    ["openai-responses", "gpt-6.1-sol", "minimal", "low"],
    ["openai-chat", "deepseek-v4-pro", "max", "max"],
    ["openai-chat", "kimi-k3", "medium", "high"],
    ["openai-chat", "kimi-k3", "none", "low"],
    ["openai-chat", "glm-5.3", "none", "low"],
    ["openai-chat", "mistral-small-2603", "high", undefined],
    ["openai-chat", "mistral-medium-3.5", "low", "none"],
    ["openai-chat", "my-model", "minimal", "minimal"],
  ];
  for (const [to, model, effort, sent] of cases) {
    const wire = wireOf("openai-responses", to, model, { reasoning: { effort } });
    assert.deepEqual(wire.reasoning_effort ?? (wire.reasoning as Json | undefined)?.effort, sent, `${model} ${effort}`);
  }
  const off = (model: string) => {
    const { thinking, enable_thinking, reasoning_effort } = wireOf("openai-responses", "openai-chat", model, {
      reasoning: { effort: "none" },
    });
    return { thinking, enable_thinking, reasoning_effort };
  };
  const disabled = { type: "disabled" };
  assert.deepEqual(off("deepseek-v4-pro"), {
    thinking: disabled,
    enable_thinking: undefined,
    reasoning_effort: undefined,
  });
  assert.deepEqual(off("qwen3.8-max"), { thinking: undefined, enable_thinking: false, reasoning_effort: undefined });
  assert.deepEqual(off("gpt-5.4"), { thinking: undefined, enable_thinking: undefined, reasoning_effort: "none" });
});

test("a model without reasoning is not asked for a summary of it", () => {
  const shown: Record<ConversationDialect, Json> = {
    "openai-chat": { reasoning: { enabled: true } },
    "openai-responses": { reasoning: { summary: "auto" } },
    "anthropic-messages": { thinking: { type: "adaptive", display: "summarized" } },
    gemini: { generationConfig: { thinkingConfig: { includeThoughts: true } } },
  };
  for (const from of conversationDialects) {
    const { reasoning, include } = wireOf(from, "openai-responses", "gpt-4.1", shown[from]);
    assert.deepEqual([reasoning, include], [undefined, undefined], from);
    assert.ok("summary" in (wireOf(from, "openai-responses", "gpt-5.4", shown[from]).reasoning as Json), from);
  }
});

test("functions go without reasoning where chat completions of the model refuse both together", () => {
  const effortOf = (model: string, fields: Json, more?: Partial<Target>) =>
    wireOf("anthropic-messages", "openai-chat", model, { ...toolsOf["anthropic-messages"], ...fields }, more)
      .reasoning_effort;
  // It takes no functions there with any effort: https://github.com/genkit-ai/genkit/pull/6303
  assert.equal(effortOf("gpt-6-astra", {}), undefined);
  for (const model of ["gpt-5.4", "gpt-5.6-sol", "gpt-6-sol", "gpt-12"]) {
    assert.equal(effortOf(model, {}), "none", model);
    assert.equal(effortOf(model, { output_config: { effort: "high" } }), "none", model);
  }
  assert.equal(effortOf("gpt-5.2", { output_config: { effort: "high" } }), "high");
  assert.equal(effortOf("gpt-5.4", {}, { reasons: false }), undefined);
  assert.equal(effortOf("my-model", {}), undefined);
  assert.equal(
    wireOf("anthropic-messages", "openai-chat", "gpt-5.4", { output_config: { effort: "high" } }).reasoning_effort,
    "high",
  );
});

test("a required call becomes an instruction, or switches thinking off, where the model can't be forced", () => {
  const narrowed = /must call the tool f/;
  for (const from of conversationDialects) {
    for (const [to, model] of [
      ["openai-chat", "glm-5.3"],
      ["openai-chat", "kimi-k3"],
      ["anthropic-messages", "claude-opus-5-5"],
      ["anthropic-messages", "claude-sonnet-5-5"],
      ["anthropic-messages", "claude-fable-5-1"],
      ["anthropic-messages", "claude-opus-9"],
    ] as const) {
      const any = wireOf(from, to, model, { ...toolsOf[from], ...anyCall[from] });
      assert.equal((any.tools as unknown[]).length, 2);
      assert.match(
        JSON.stringify(any.messages) + JSON.stringify(any.system),
        /must call one of the tools/,
        `${from} to ${model}`,
      );
      const one = wireOf(from, to, model, { ...toolsOf[from], ...callOfF[from] });
      assert.equal((one.tools as unknown[]).length, 1);
      assert.match(JSON.stringify(one.messages) + JSON.stringify(one.system), narrowed);
      assert.deepEqual(one.tool_choice, to === "openai-chat" ? "auto" : { type: "auto" });
    }
    for (const [model, off] of [
      ["deepseek-v4-pro", { thinking: { type: "disabled" } }],
      ["kimi-k2.6", { thinking: { type: "disabled" } }],
      ["qwen3.8-max", { enable_thinking: false }],
    ] as const) {
      const wire = wireOf(from, "openai-chat", model, { ...toolsOf[from], ...callOfF[from] });
      assert.deepEqual(wire.tool_choice, { type: "function", function: { name: "f" } });
      assert.deepEqual({ ...wire, ...off }, wire, `${from} to ${model}`);
    }
    const free = wireOf(from, "openai-chat", "gpt-4o", { ...toolsOf[from], ...callOfF[from] });
    assert.deepEqual(free.tool_choice, { type: "function", function: { name: "f" } });
    assert.equal(JSON.stringify(free).includes("must call"), false);
  }
});

test("a format beside tools is an instruction for Gemini's models until 2.5", () => {
  const requestBody = {
    ...toolsOf["openai-chat"],
    response_format: { type: "json_schema", json_schema: { name: "n", schema } },
  };
  const older = wireOf("openai-chat", "gemini", "gemini-2.5-flash", requestBody);
  assert.equal(older.generationConfig, undefined);
  assert.match(JSON.stringify(older.systemInstruction), /JSON schema/);
  const newer = wireOf("openai-chat", "gemini", "gemini-3.5-flash", requestBody);
  assert.ok((newer.generationConfig as Json).responseJsonSchema);
});

test("verbosity goes to the models that take it", () => {
  const verbosityOf = (to: ConversationDialect, model: string) => {
    const wire = wireOf("openai-responses", to, model, { text: { verbosity: "low" } });
    return wire.verbosity ?? (wire.text as Json | undefined)?.verbosity;
  };
  assert.deepEqual(
    (
      [
        ["openai-chat", "gpt-5.4"],
        ["openai-chat", "gpt-4o"],
        ["openai-chat", "my-model"],
        ["openai-responses", "gpt-6.1-sol"],
        ["openai-responses", "gpt-4.1"],
      ] as const
    ).map(([to, model]) => verbosityOf(to, model)),
    ["low", undefined, undefined, "low", undefined],
  );
});
