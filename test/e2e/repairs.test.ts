/**
 * Requests that an upstream of the caller's own dialect refuses: they are repaired and sent once
 * more, and the caller gets an answer.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";

const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  chat: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  claude: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  google: { dialect: gemini, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1beta" }
models:
${[
  ["strict", "chat", "sim-text;strict-turns;strict-messages"],
  ["thinking", "chat", "sim-text;reasoning=4;needs-reasoning"],
  ["claude", "claude", "sim-text"],
  ["gemini", "google", "sim-text"],
]
  .map(
    ([id, upstream, model]) =>
      `  - { id: ${id}, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: ${upstream}, model: "${model}" }] }\n`,
  )
  .join("")}`,
});
after(() => gateway[Symbol.asyncDispose]());

const api = gateway.ingresses[0]?.urls.api as string;
const post = (path: string, body: object) =>
  fetch(`${api}${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
    },
    body: JSON.stringify(body),
  });

const call = { id: "call_1", type: "function", function: { name: "f", arguments: "{}" } };
const q = { role: "user", content: "hello there" };
const use = { type: "tool_use", id: "toolu_1", name: "f", input: {} };
const tools = [{ name: "f", input_schema: { type: "object" } }];
const markedText = { type: "text", text: "r", cache_control: { type: "ephemeral" } };
const thought = { type: "thinking", thinking: "Hm.", signature: "made by another account" };

const requests: [string, string, object][] = [
  [
    "instructions in the middle, equal roles and reasoning of another model",
    "/v1/chat/completions",
    {
      model: "strict",
      messages: [
        { role: "assistant", content: "Hello.", reasoning_content: "Hm." },
        { role: "system", content: "Be brief." },
        q,
        q,
      ],
    },
  ],
  [
    "a call whose reasoning was lost",
    "/v1/chat/completions",
    {
      model: "thinking",
      messages: [
        q,
        { role: "assistant", content: null, tool_calls: [call] },
        { role: "tool", tool_call_id: "call_1", content: "r" },
      ],
    },
  ],
  [
    "a call without a result",
    "/v1/chat/completions",
    { model: "strict", messages: [q, { role: "assistant", content: null, tool_calls: [call] }, q] },
  ],
  [
    "a result without a call",
    "/v1/chat/completions",
    { model: "strict", messages: [q, { role: "tool", tool_call_id: "x", content: "r" }] },
  ],
  [
    "thinking without a budget",
    "/v1/messages",
    { model: "claude", max_tokens: 100, thinking: { type: "enabled" }, messages: [q] },
  ],
  [
    "a signature of another account",
    "/v1/messages",
    {
      model: "claude",
      max_tokens: 100,
      messages: [q, { role: "assistant", content: [thought, { type: "text", text: "a" }] }, q],
    },
  ],
  [
    "a signature of another account, while thinking",
    "/v1/messages",
    {
      ...{ model: "claude", max_tokens: 3_000, thinking: { type: "enabled", budget_tokens: 1_024 }, tools },
      messages: [
        q,
        { role: "assistant", content: [thought, use] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "r" }] },
      ],
    },
  ],
  [
    "a cache mark inside of a result",
    "/v1/messages",
    {
      ...{ model: "claude", max_tokens: 100, tools },
      messages: [
        q,
        { role: "assistant", content: [use] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: [markedText] }] },
      ],
    },
  ],
  [
    "a call without a result, of Claude",
    "/v1/messages",
    { model: "claude", max_tokens: 100, tools, messages: [q, { role: "assistant", content: [use] }, q] },
  ],
];

for (const isStreamed of [false, true])
  for (const [name, path, body] of requests)
    test(`the caller gets an answer in spite of ${name}, ${isStreamed ? "streamed" : "whole"}`, async () => {
      const response = await post(path, { ...body, ...(isStreamed && { stream: true }) });
      const text = await response.text();
      assert.equal(response.status, 200, text);
      assert.match(text, /hello|tool/);
    });

test("an error of another kind is passed on as before", async () => {
  const response = await post("/v1/chat/completions", { model: "strict", messages: [q], tool_choice: "required" });
  assert.equal(response.status, 400);
  assert.match(await response.text(), /tool_choice is required/);
});
