// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/** Ollama's JavaScript client. */
import assert from "node:assert/strict";
import { Ollama } from "ollama";
import {
  assertBroken,
  assertPaused,
  assertUsedTool,
  broken,
  getWeather,
  greeting,
  key,
  model,
  paused,
  question,
  reasoner,
  run,
  schema,
  url,
} from "./checks.js";

const clientOf = (apiKey) => new Ollama({ host: url, headers: { authorization: `Bearer ${apiKey}` } });
const client = clientOf(key);
const hello = { role: "user", content: "hello there" };
const weather = { name: "get_weather", description: "Says the weather of a city.", parameters: schema };
const tools = [{ type: "function", function: weather }];

async function* texts(name) {
  const stream = await client.chat({ model: name, messages: [hello], stream: true });
  for await (const { message } of stream) yield message.content;
}

await run({
  "whole answer": async () => {
    for (const name of [model, reasoner]) {
      const { message, done } = await client.chat({ model: name, messages: [hello] });
      assert.deepEqual([message.content, done], [greeting, true]);
    }
  },
  "streamed answer": async () => {
    for (const name of [model, reasoner]) {
      let text = "";
      for await (const { message } of await client.chat({ model: name, messages: [hello], stream: true }))
        text += message.content;
      assert.equal(text, greeting);
    }
  },
  "tool loop": async () => {
    for (const name of [model, reasoner]) {
      const messages = [{ role: "user", content: question }];
      const first = await client.chat({ model: name, messages, tools });
      const [{ function: call }] = first.message.tool_calls;
      messages.push(first.message, { role: "tool", tool_name: call.name, content: getWeather(call.arguments) });
      assertUsedTool((await client.chat({ model: name, messages, tools })).message.content);
    }
  },
  generate: async () => {
    assert.equal((await client.generate({ model, prompt: "hello there" })).response, greeting);
  },
  "model list": async () => {
    const { models } = await client.list();
    assert.ok(models.some(({ name }) => name.startsWith(model)));
  },
  "broken stream": () => assertBroken(texts(broken)),
  "keep-alives": () => assertPaused(texts(paused)),
  "wrong key": () => assert.rejects(clientOf("nothing").chat({ model, messages: [hello] })),
});
