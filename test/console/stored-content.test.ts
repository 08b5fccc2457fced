/** Stored content as a conversation, in each dialect. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { readableOf, storedAnswerOf, storedRequestOf } from "../../apps/console/parts/stored-content.ts";

const image = "data:image/png;base64,[12000 bytes]";
const text = (content: string) => ({ kind: "text", name: "", text: content });

const requests: Record<string, object> = {
  "openai-chat": {
    messages: [
      { role: "system", content: "Be brief." },
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image_url", image_url: { url: image } },
        ],
      },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c", function: { name: "weather", arguments: '{"a":1}' } }],
      },
      { role: "tool", tool_call_id: "c", content: "sunny" },
    ],
    tools: [{ type: "function", function: { name: "weather", description: "Says it." } }],
  },
  "openai-responses": {
    instructions: "Be brief.",
    input: [
      {
        role: "user",
        content: [
          { type: "input_text", text: "Look" },
          { type: "input_image", image_url: image },
        ],
      },
      { type: "function_call", call_id: "c", name: "weather", arguments: '{"a":1}' },
      { type: "function_call_output", call_id: "c", output: "sunny" },
    ],
    tools: [{ type: "function", name: "weather", description: "Says it." }],
  },
  "anthropic-messages": {
    system: [{ type: "text", text: "Be brief." }],
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "image", source: { type: "base64", data: "[12000 bytes]" } },
        ],
      },
      { role: "assistant", content: [{ type: "tool_use", id: "c", name: "weather", input: { a: 1 } }] },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: "c", content: [{ type: "text", text: "sunny" }] }],
      },
    ],
    tools: [{ name: "weather", description: "Says it.", input_schema: {} }],
  },
  gemini: {
    systemInstruction: { parts: [{ text: "Be brief." }] },
    contents: [
      { role: "user", parts: [{ text: "Look" }, { inlineData: { mimeType: "image/png", data: "[12000 bytes]" } }] },
      { role: "model", parts: [{ functionCall: { name: "weather", args: { a: 1 } } }] },
      { role: "user", parts: [{ functionResponse: { name: "weather", response: "sunny" } }] },
    ],
    tools: [{ functionDeclarations: [{ name: "weather", description: "Says it." }] }],
  },
};

for (const [dialect, body] of Object.entries(requests))
  test(`${dialect}: system prompt, tools, texts, images, calls and results`, () => {
    const request = storedRequestOf(JSON.stringify(body));
    assert.ok(request);
    const { system, messages, tools } = request;
    const all = messages.flatMap(({ parts }) => parts);
    assert.deepEqual(
      [...system, ...all].filter(({ kind }) => kind === "text").map(({ text }) => text),
      ["Be brief.", "Look"],
    );
    assert.deepEqual(tools, [{ name: "weather", description: "Says it." }]);
    const [data] = all.filter(({ kind }) => kind === "data");
    assert.match(data?.text ?? "", /\[12000 bytes\]/);
    const [call] = all.filter(({ kind }) => kind === "call");
    assert.deepEqual([call?.name, JSON.parse(call?.text ?? "")], ["weather", { a: 1 }]);
    assert.deepEqual(
      all.filter(({ kind }) => kind === "result").map(({ name, text }) => [name, text]),
      [["weather", "sunny"]],
    );
  });

test("requests of other operations show what was asked", () => {
  for (const body of [{ input: "Say it" }, { prompt: "Say it" }, { query: "Say it" }, { input: ["Say it"] }])
    assert.deepEqual(storedRequestOf(JSON.stringify(body))?.messages, [{ role: "user", parts: [text("Say it")] }]);
  assert.equal(storedRequestOf('{"messages":[{"role":"us'), undefined);
  assert.equal(storedRequestOf(""), undefined);
});

const wholes: Record<string, object> = {
  "openai-chat": { choices: [{ message: { role: "assistant", content: "Hi", reasoning_content: "Hm" } }] },
  "openai-responses": {
    output: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "Hm" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "Hi" }] },
    ],
  },
  "anthropic-messages": {
    content: [
      { type: "thinking", thinking: "Hm" },
      { type: "text", text: "Hi" },
    ],
  },
  gemini: { candidates: [{ content: { role: "model", parts: [{ text: "Hm", thought: true }, { text: "Hi" }] } }] },
};
for (const [dialect, body] of Object.entries(wholes))
  test(`${dialect}: a whole answer`, async () => {
    assert.deepEqual(await storedAnswerOf("application/json", JSON.stringify(body), dialect), {
      role: "assistant",
      parts: [{ kind: "reasoning", name: "", text: "Hm" }, text("Hi")],
    });
  });

test("a streamed answer, also one that breaks off in an event", async () => {
  const event = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;
  const whole = `${event("Hel")}: keep-alive\n\n${event("lo")}data: [DONE]\n\n`;
  const answer = { role: "assistant", parts: [text("Hello")] };
  assert.deepEqual(await storedAnswerOf("text/event-stream; charset=utf-8", whole, "openai-chat"), answer);
  const broken = `${event("Hel")}${event("lo")}data: {"choices":[{"del`;
  assert.deepEqual(await storedAnswerOf("text/event-stream", broken, "openai-chat"), answer);
});

test("errors have the words of the gateway, and answers without text are empty", async () => {
  assert.deepEqual(await storedAnswerOf("application/json", '{"error":{"message":"No."}}', "gemini"), {
    role: "error",
    parts: [text("No.")],
  });
  assert.deepEqual(await storedAnswerOf("application/json", '{"data":[{"embedding":[1]}]}', "openai-chat"), {
    role: "assistant",
    parts: [],
  });
  assert.deepEqual(await storedAnswerOf("", "", "openai-chat"), { role: "assistant", parts: [] });
  assert.equal(readableOf('{"a":1}'), '{\n  "a": 1\n}');
  assert.equal(readableOf('{"a":'), '{"a":');
});
