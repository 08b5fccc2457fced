// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/** OpenAI's JavaScript client for Azure. */
import assert from "node:assert/strict";
import OpenAI, { AzureOpenAI } from "openai";
import { assertBroken, assertPaused, broken, greeting, key, model, paused, reasoner, run, url } from "./checks.js";

const clientOf = (apiKey) =>
  new AzureOpenAI({ endpoint: url, apiKey, apiVersion: "2025-04-01-preview", maxRetries: 0 });
const client = clientOf(key);
const messages = [{ role: "user", content: "hello there" }];

async function* chatTexts(name) {
  const stream = await client.chat.completions.create({ model: name, messages: messages, stream: true });
  for await (const { choices } of stream) yield choices[0]?.delta.content;
}
async function* responseTexts(name) {
  const stream = await client.responses.create({ model: name, input: "hello there", stream: true });
  for await (const event of stream) {
    if (event.type === "response.failed") throw new Error(event.response.error.message);
    if (event.type === "response.output_text.delta") yield event.delta;
  }
}

await run({
  "chat completions": async () => {
    for (const name of [model, reasoner]) {
      const { choices } = await client.chat.completions.create({ model: name, messages });
      assert.equal(choices[0].message.content, greeting);
      const streamed = await client.chat.completions.stream({ model: name, messages }).finalChatCompletion();
      assert.equal(streamed.choices[0].message.content, greeting);
    }
  },
  responses: async () => {
    for (const name of [model, reasoner]) {
      const first = await client.responses.create({ model: name, input: "hello there" });
      const request = { model: name, input: "hello there", previous_response_id: first.id };
      const second = await client.responses.stream(request).finalResponse();
      assert.equal(second.output_text, greeting);
      assert.ok(second.usage.input_tokens > first.usage.input_tokens);
    }
  },
  "broken stream": async () => {
    await assertBroken(chatTexts(broken));
    await assertBroken(responseTexts(broken));
  },
  "keep-alives": async () => {
    await assertPaused(chatTexts(paused));
    await assertPaused(responseTexts(paused));
  },
  "wrong key": () =>
    assert.rejects(clientOf("nothing").chat.completions.create({ model, messages }), OpenAI.AuthenticationError),
});
