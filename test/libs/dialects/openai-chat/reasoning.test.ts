/**
 * Reasoning of chat servers over several turns: every form comes back as it was sent, through
 * callers of every dialect.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { foldedOf } from "#dialects/neutral/neutral.ts";
import { wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { reasoningFieldsOf } from "#dialects/openai-chat/reasoning.ts";
import { listOf, objectOf, parsedObject } from "#wire/json/parse.ts";
import { targetOf } from "../../../support/target.ts";

type Json = Record<string, unknown>;

const call = { id: "call_1", type: "function", function: { name: "look", arguments: '{"at":1}' } };
const details = [
  { type: "reasoning.text", text: "Hm.", signature: "S", format: "anthropic-claude-v1", index: 0 },
  { type: "reasoning.encrypted", data: "E", id: "call_1", format: "google-gemini-v1", index: 1 },
];

/** Members of an assistant's message as real servers send them. */
const forms: Record<string, Json> = {
  "reasoning_content (DeepSeek, Kimi, GLM, Qwen)": { content: null, reasoning_content: "Hm.", tool_calls: [call] },
  "reasoning (Groq, vLLM)": { content: null, reasoning: "Hm.", tool_calls: [call] },
  "reasoning and reasoning_details (OpenRouter)": {
    content: "Looking.",
    reasoning: "Hm.",
    reasoning_details: details,
    tool_calls: [call],
  },
  "reasoning_details alone (MiniMax)": { content: null, reasoning_details: details.slice(0, 1), tool_calls: [call] },
  "encrypted reasoning alone": { content: null, reasoning_details: details.slice(1), tool_calls: [call] },
  "an opaque text (Copilot)": { content: null, reasoning_text: "Hm.", reasoning_opaque: "O", tool_calls: [call] },
  "parts of the type thinking (Mistral)": {
    content: [
      { type: "thinking", thinking: [{ type: "text", text: "Hm." }], signature: "S" },
      { type: "text", text: "Looking." },
    ],
    tool_calls: [call],
  },
  "parts of the type reasoning (Databricks)": {
    content: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "Hm.", signature: "S" }] },
      { type: "text", text: "Looking." },
    ],
    tool_calls: [call],
  },
  "a signature of the call (Gemini)": {
    content: null,
    tool_calls: [{ ...call, extra_content: { google: { thought_signature: "G" } } }],
  },
  "tags in the text (MiniMax)": { content: "<think>Hm.</think>Looking.", tool_calls: [call] },
  "reasoning before a text": { content: "Done.", reasoning_content: "Hm." },
};

const requestBodies: Record<ConversationDialect, Json> = {
  "openai-chat": { model: "m", messages: [{ role: "user", content: "q" }] },
  "anthropic-messages": { max_tokens: 100, messages: [{ role: "user", content: "q" }] },
  "openai-responses": { input: [{ role: "user", content: "q" }] },
  gemini: { contents: [{ role: "user", parts: [{ text: "q" }] }] },
};

/**
 * The caller's next request: the answer comes back as its clients send it back, with the result of
 * its call.
 */
function nextOf(dialect: ConversationDialect, answer: Json, hasCall: boolean): Json {
  switch (dialect) {
    case "anthropic-messages": {
      const result = hasCall
        ? [{ type: "tool_result", tool_use_id: "call_1", content: "r" }]
        : [{ type: "text", text: "go on" }];
      const messages = [...listOf(requestBodies[dialect].messages), { role: "assistant", content: answer.content }];
      return { ...requestBodies[dialect], messages: [...messages, { role: "user", content: result }] };
    }
    case "openai-responses": {
      const result = hasCall
        ? { type: "function_call_output", call_id: "call_1", output: "r" }
        : { role: "user", content: "go on" };
      return { input: [...listOf(requestBodies[dialect].input), ...listOf(answer.output), result] };
    }
    case "gemini": {
      const [candidate] = listOf(answer.candidates).map(objectOf);
      const result = hasCall
        ? { functionResponse: { id: "call_1", name: "look", response: { output: "r" } } }
        : { text: "go on" };
      const contents = [...listOf(requestBodies[dialect].contents), candidate?.content];
      return { contents: [...contents, { role: "user", parts: [result] }] };
    }
    case "openai-chat": {
      const [choice] = listOf(answer.choices).map(objectOf);
      const result = hasCall
        ? { role: "tool", tool_call_id: "call_1", content: "r" }
        : { role: "user", content: "go on" };
      return {
        ...requestBodies[dialect],
        messages: [...listOf(requestBodies[dialect].messages), choice?.message, result],
      };
    }
    default:
      return dialect satisfies never;
  }
}

const bodyOf = (wire: { body: Buffer }): Json => parsedObject(wire.body) ?? {};

/**
 * The assistant's message that a model gets in the next turn, if another model of a chat server
 * sent `message` before.
 */
function returned(caller: ConversationDialect, message: Json, from: string, to: string): Json {
  const decode = (body: Json) => codecs[caller].decodeRequest({ body, framing: "whole" });
  const upstream = { choices: [{ index: 0, message: { role: "assistant", ...message }, finish_reason: "stop" }] };
  const answer = foldedOf(codecs["openai-chat"].decodeAnswer(upstream));
  assert.ok(answer !== undefined && "blocks" in answer);
  const encoded = codecs[caller].encodeAnswer(answer, {
    ...{ id: "1", model: "m", createdAt: 1, framing: "whole", upstreamModel: from },
    ...{ body: requestBodies[caller], request: decode(requestBodies[caller]) },
  });
  const next = nextOf(caller, JSON.parse(encoded), message.tool_calls !== undefined);
  const sent = bodyOf(codecs["openai-chat"].encodeRequest(decode(next), "whole", targetOf("openai-chat", to)));
  return listOf(sent.messages).map(objectOf)[1] ?? {};
}

const callers: ConversationDialect[] = ["anthropic-messages", "openai-responses", "gemini", "openai-chat"];

const plainOf: Partial<Record<ConversationDialect, Json>> = { "openai-chat": { content: "Looking." } };

for (const caller of callers)
  for (const [name, message] of Object.entries(forms))
    test(`${caller} callers bring back ${name}`, () => {
      const back = returned(caller, message, "theirs", "theirs");
      // The stream of an answer in chat completions has its reasoning in one field, so the caller's
      // next request has it there as well, also that of Mistral's parts.
      if (caller === "openai-chat") delete back.reasoning_content;
      const { reasoning_content: text, ...others } = name.endsWith("(Mistral)")
        ? { ...message, ...plainOf[caller] }
        : message;
      assert.deepEqual(back, {
        role: "assistant",
        ...(caller === "openai-chat" ? others : message),
        ...(caller !== "openai-chat" && text !== undefined && { reasoning_content: text }),
      });
    });

for (const caller of callers)
  for (const [name, message] of Object.entries(forms))
    test(`another model gets nothing of ${name} from ${caller} callers`, () => {
      if (caller === "openai-chat") return;
      const content = Array.isArray(message.content) ? "Looking." : message.content;
      assert.deepEqual(returned(caller, message, "theirs", "gpt-5.6"), {
        role: "assistant",
        content,
        ...(message.tool_calls !== undefined && { tool_calls: [call] }),
      });
    });

test("a model that requires reasoning gets what is readable of other models of its format, and a blank where nothing is", () => {
  const readable = { content: null, reasoning: "Hm.", tool_calls: [call] };
  const back = (message: Json) =>
    returned("anthropic-messages", message, "theirs", "deepseek-v4-pro").reasoning_content;
  assert.equal(back(readable), "Hm.");
  assert.equal(back({ content: null, tool_calls: [call] }), " ");
  assert.equal(back({ content: "Done." }), undefined);
});

test("a model that requires reasoning gets it, or a blank, in every turn of a conversation with calls", () => {
  const use = { type: "tool_use", id: "c", name: "f", input: {} };
  const text = (value: string) => ({ type: "text", text: value });
  const turns = [
    { role: "user", content: "q" },
    { role: "assistant", content: "Before." },
    { role: "user", content: "q" },
    { role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature: "" }, use] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "r" }] },
    { role: "assistant", content: [text("After.")] },
    { role: "user", content: "q" },
  ];
  const reasoningIn = (messages: object[], model: string) => {
    const request = codecs["anthropic-messages"].decodeRequest({ body: { max_tokens: 1, messages }, framing: "whole" });
    const wire = codecs["openai-chat"].encodeRequest(request, "whole", targetOf("openai-chat", model));
    const sent = listOf(bodyOf(wire).messages).map(objectOf);
    return sent.filter(({ role }) => role === "assistant").map(({ reasoning_content: reasoning }) => reasoning);
  };
  assert.deepEqual(reasoningIn(turns, "deepseek-v4-pro"), [" ", "Hm.", " "]);
  assert.deepEqual(reasoningIn([...turns.slice(0, 2), { role: "user", content: "q" }], "deepseek-v4-pro"), [undefined]);
  assert.deepEqual(reasoningIn(turns, "gpt-4.1"), [undefined, undefined, undefined]);
});

test("thinking of other vendors is not sent to a model that requires reasoning, but unsigned thinking is", () => {
  const sentWith = (thinking: object) => {
    const use = { type: "tool_use", id: "c", name: "f", input: {} };
    const body = {
      max_tokens: 1,
      messages: [
        { role: "user", content: "q" },
        { role: "assistant", content: [thinking, use] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "c", content: "r" }] },
      ],
    };
    const request = codecs["anthropic-messages"].decodeRequest({ body, framing: "whole" });
    const wire = codecs["openai-chat"].encodeRequest(request, "whole", targetOf("openai-chat", "moonshotai/kimi-k3"));
    return listOf(bodyOf(wire).messages).map(objectOf)[1]?.reasoning_content;
  };
  assert.equal(sentWith({ type: "thinking", thinking: "Hm.", signature: "claude" }), " ");
  assert.equal(sentWith({ type: "redacted_thinking", data: "claude" }), " ");
  assert.equal(
    sentWith({ type: "thinking", thinking: "Hm.", signature: wrappedSignatureOf({ dialect: "gemini", data: "G" }) }),
    " ",
  );
  assert.equal(sentWith({ type: "thinking", thinking: "Hm.", signature: "" }), "Hm.");
  assert.equal(sentWith({ type: "thinking", thinking: "Hm." }), "Hm.");
});

test("a changed signature brings no field into a request that the format does not have", () => {
  const data = JSON.stringify({
    in: ["__proto__", "role"],
    fields: { role: "system", __proto__: 1, reasoning_details: [1] },
  });
  const signature = wrappedSignatureOf({ dialect: "openai-chat", data });
  const body = {
    max_tokens: 1,
    messages: [
      { role: "user", content: "q" },
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "t", signature },
          { type: "text", text: "a" },
        ],
      },
      { role: "user", content: "go on" },
    ],
  };
  const request = codecs["anthropic-messages"].decodeRequest({ body, framing: "whole" });
  const wire = codecs["openai-chat"].encodeRequest(request, "whole", targetOf("openai-chat", "m"));
  assert.deepEqual(listOf(bodyOf(wire).messages)[1], { role: "assistant", content: "a", reasoning_details: [1] });
});

test("LiteLLM's blocks of thinking come back whole, each with its signature", () => {
  const block = (thinking: string, signature = "") => ({ type: "thinking", thinking, signature });
  for (const signed of [block("", "S"), block("Hm.", "S")]) {
    const decoder = codecs["openai-chat"].streamDecoder();
    const deltas = [
      { reasoning_content: "H", thinking_blocks: [block("H")] },
      { reasoning_content: "m.", thinking_blocks: [block("m.")] },
      { reasoning_content: "", thinking_blocks: [signed] },
      { thinking_blocks: [{ type: "redacted_thinking", data: "E" }] },
      { reasoning_content: "So.", thinking_blocks: [block("So.")] },
      { reasoning_content: "", thinking_blocks: [block("", "T")] },
      { content: "Hi" },
    ];
    const chunks = [...deltas.map((delta) => ({ choices: [{ index: 0, delta }] }))];
    const end = { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] };
    const events = [...chunks, end].flatMap((chunk) =>
      decoder.push({ event: undefined, data: Buffer.from(JSON.stringify(chunk)) }),
    );
    const answer = foldedOf([...events, ...decoder.end()]);
    assert.ok(answer !== undefined && "blocks" in answer);
    assert.deepEqual(reasoningFieldsOf(answer.blocks, undefined).fields, {
      reasoning_content: "Hm.So.",
      thinking_blocks: [block("Hm.", "S"), { type: "redacted_thinking", data: "E" }, block("So.", "T")],
    });
  }
});

test("details that arrive after the reasoning, in chunks and with a call, are blocks of their own between the others", () => {
  const decoder = codecs["openai-chat"].streamDecoder();
  const detail = (more: object) => ({ type: "reasoning.encrypted", format: "f", index: 1, ...more });
  const deltas = [
    { role: "assistant", content: "" },
    { reasoning: "H", reasoning_details: [{ type: "reasoning.text", text: "H", index: 0 }] },
    { reasoning: "m.", reasoning_details: [{ type: "reasoning.text", text: "m.", index: 0 }] },
    { content: "Looking.", reasoning_details: [detail({ data: "E" })] },
    { reasoning_details: [detail({ data: "F", id: "call_1" })] },
    { tool_calls: [{ ...call, index: 0, extra_content: { google: { thought_signature: "G" } } }] },
  ];
  const chunks = deltas.map((delta) => ({ choices: [{ index: 0, delta }] }));
  const end = { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] };
  const events = [...chunks, end].flatMap((chunk) =>
    decoder.push({ event: undefined, data: Buffer.from(JSON.stringify(chunk)) }),
  );
  const answer = foldedOf([...events, ...decoder.end()]);
  assert.ok(answer !== undefined && "blocks" in answer);
  const [first, text, details, signed, called] = answer.blocks;
  assert.deepEqual(
    [first, text, details, signed, called].map((block) => [
      block?.kind,
      block !== undefined && "text" in block && block.text,
    ]),
    [
      ["reasoning", "Hm."],
      ["text", "Looking."],
      ["reasoning", ""],
      ["reasoning", ""],
      ["call", false],
    ],
  );
  const { fields, ofCalls } = reasoningFieldsOf(answer.blocks, undefined);
  assert.deepEqual(fields, {
    reasoning: "Hm.",
    reasoning_details: [
      { type: "reasoning.text", text: "Hm.", index: 0 },
      { type: "reasoning.encrypted", format: "f", index: 1, data: "EF", id: "call_1" },
    ],
  });
  assert.deepEqual(ofCalls, [{ google: { thought_signature: "G" } }]);
});
