/** The gateway lets upstreams cache prompts, for callers of every dialect. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

const upstream = await startScriptedUpstream(jsonAnswer(chatCompletion));
const gateway = await startGateway({
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  scripted: { dialect: openai-chat, baseUrl: "${upstream.url}" }
  claude: { dialect: anthropic-messages, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: gpt, promptCache: { auto: true }, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: scripted, model: gpt }] }
  - { id: plain, promptCache: {}, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: scripted, model: gpt, promptCache: { auto: false } }] }
  - { id: claude, promptCache: { ttl: 1h }, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: claude, model: "sim-claude;prompt-cache" }] }
`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const long = "All work and no play makes a dull day. ".repeat(150);
const conversation = [
  { role: "system", content: long },
  { role: "user", content: "one" },
];

async function keyOf(model: string, more: object, session: string): Promise<string | undefined> {
  const response = await gateway.post(
    { model, messages: conversation, ...more },
    { headers: { "x-sluice-session": session } },
  );
  assert.equal(response.status, 200, await response.text());
  return upstream.last().json.prompt_cache_key;
}

test("an upstream of OpenAI gets a key for the session, which does not show its name", async () => {
  const key = await keyOf("gpt", {}, "ada");
  assert.match(String(key), /^[0-9A-Za-z_-]{22}$/);
  assert.equal(await keyOf("gpt", {}, "ada"), key);
  assert.notEqual(await keyOf("gpt", {}, "bob"), key);
  assert.equal(await keyOf("gpt", { prompt_cache_key: "own" }, "ada"), "own");
  assert.equal(await keyOf("plain", {}, "ada"), undefined, "its target says no");
});

test("an upstream of Anthropic gets marks, also from callers of other dialects", async () => {
  const usageOf = async (messages: object[]) => {
    const response = await gateway.post({ model: "claude", messages });
    const { usage } = (await response.json()) as { usage: { prompt_tokens_details: { cached_tokens: number } } };
    return usage.prompt_tokens_details.cached_tokens;
  };
  assert.equal(await usageOf(conversation), 0);
  const more = [...conversation, { role: "assistant", content: "two" }, { role: "user", content: "three" }];
  assert.ok((await usageOf(more)) > 1_024);
  const send = async () => {
    const response = await fetch(`${gateway.url}/v1/messages`, {
      method: "POST",
      headers: { "x-api-key": gateway.key, "anthropic-version": "2023-06-01", "content-type": "application/json" },
      body: JSON.stringify({ model: "claude", max_tokens: 9, system: `x${long}`, messages: conversation.slice(1) }),
    });
    return ((await response.json()) as { usage: Record<string, number & Record<string, number>> }).usage;
  };
  assert.ok(Number((await send()).cache_creation?.ephemeral_1h_input_tokens) > 1_024);
  assert.ok(Number((await send()).cache_read_input_tokens) > 1_024);
});
