/** The simulator refuses values beyond the vendors' bounds, and takes those at the bound. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { startSimulator } from "../support.ts";

const messages = [{ role: "user", content: "hi" }];
const chat = { model: "sim-text", messages };
const responses = { model: "sim-text", input: "hi" };
const claude = { model: "sim-text", max_tokens: 50, messages };
const google = { contents: [{ role: "user", parts: [{ text: "hi" }] }] };
const geminiPath = "/v1beta/models/sim-text:generateContent";
const callOf = (id: string) => ({
  ...chat,
  messages: [
    ...messages,
    { role: "assistant", tool_calls: [{ id, type: "function", function: { name: "f", arguments: "{}" } }] },
    { role: "tool", tool_call_id: id, content: "ok" },
  ],
});

const cases: [path: string, within: object, beyond: object][] = [
  ["/v1/chat/completions", { ...chat, user: "u".repeat(64) }, { ...chat, user: "u".repeat(65) }],
  ["/v1/chat/completions", { ...chat, prompt_cache_key: "k" }, { ...chat, prompt_cache_key: "k".repeat(65) }],
  ["/v1/chat/completions", { ...chat, temperature: 2 }, { ...chat, temperature: 2.1 }],
  ["/v1/chat/completions", { ...chat, presence_penalty: -2 }, { ...chat, presence_penalty: -3 }],
  ["/v1/chat/completions", callOf("c".repeat(40)), callOf("c".repeat(41))],
  ["/v1/responses", { ...responses, safety_identifier: "u" }, { ...responses, safety_identifier: "u".repeat(65) }],
  ["/v1/responses", { ...responses, prompt_cache_key: "k" }, { ...responses, prompt_cache_key: "k".repeat(65) }],
  [
    "/v1/messages",
    { ...claude, metadata: { user_id: '{"device_id":"0f","session_id":"5e"}' } },
    { ...claude, metadata: { user_id: "me@example.com" } },
  ],
  ["/v1/messages", claude, { ...claude, metadata: { user_id: "u".repeat(257) } }],
  ["/v1/messages", claude, { ...claude, metadata: { user_id: "+49 30 1234567" } }],
  [
    geminiPath,
    { ...google, generationConfig: { presencePenalty: 1.99 } },
    { ...google, generationConfig: { presencePenalty: 2 } },
  ],
];

test("values beyond a vendor's bound are refused, and those at the bound are taken", async (t) => {
  const { url } = await startSimulator(t);
  const headers = {
    authorization: "Bearer sk-test-0000",
    "x-api-key": "sk-test-0000",
    "x-goog-api-key": "sk-test-0000",
    "anthropic-version": "2023-06-01",
    "content-type": "application/json",
  };
  const statusOf = async (path: string, body: object) =>
    (await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })).status;
  for (const [path, within, beyond] of cases) {
    assert.equal(await statusOf(path, within), 200, JSON.stringify(within));
    assert.equal(await statusOf(path, beyond), 400, JSON.stringify(beyond));
  }
});
