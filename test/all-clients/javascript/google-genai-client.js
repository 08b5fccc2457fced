// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/** Google's JavaScript client. */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import { ApiError, GoogleGenAI } from "@google/genai";
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

const clientOf = (apiKey) => new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } });
const { models, chats, files, batches } = clientOf(key);
const declaration = { name: "get_weather", description: "Says the weather of a city.", parametersJsonSchema: schema };
const tools = [{ functionDeclarations: [declaration] }];

const ways = [
  async (chat, message) => {
    const { text, functionCalls } = await chat.sendMessage({ message });
    return { text, functionCalls };
  },
  async (chat, message) => {
    let text = "";
    const functionCalls = [];
    for await (const chunk of await chat.sendMessageStream({ message })) {
      text += chunk.text ?? "";
      functionCalls.push(...(chunk.functionCalls ?? []));
    }
    return { text, functionCalls };
  },
];

async function* texts(name) {
  const stream = await models.generateContentStream({ model: name, contents: "hello there" });
  for await (const { text } of stream) yield text;
}

await run({
  "whole answer": async () => {
    for (const name of [model, reasoner]) {
      const { text, usageMetadata } = await models.generateContent({ model: name, contents: "hello there" });
      assert.equal(text, greeting);
      assert.ok(usageMetadata.totalTokenCount > 0);
    }
  },
  "streamed answer": async () => {
    for (const name of [model, reasoner]) {
      let text = "";
      for await (const chunk of await models.generateContentStream({ model: name, contents: "hello there" }))
        text += chunk.text ?? "";
      assert.equal(text, greeting);
    }
  },
  "tool loop and second turn in a chat": async () => {
    for (const send of ways)
      for (const name of [model, reasoner]) {
        const chat = chats.create({ model: name, config: { tools } });
        const { functionCalls } = await send(chat, question);
        const results = functionCalls.map(({ id, name: called, args }) => ({
          functionResponse: { id, name: called, response: { output: getWeather(args) } },
        }));
        assertUsedTool((await send(chat, results)).text);
        assert.equal((await send(chat, "hello there")).text, greeting);
      }
  },
  "count tokens": async () => {
    assert.ok((await models.countTokens({ model, contents: "hello there" })).totalTokens > 0);
  },
  files: async () => {
    const file = await files.upload({ file: new Blob(["a text"]), config: { mimeType: "text/plain" } });
    assert.equal((await files.get({ name: file.name })).uri, file.uri);
    const parts = [{ text: "hello there" }, { fileData: { fileUri: file.uri, mimeType: file.mimeType } }];
    const { text } = await models.generateContent({ model, contents: [{ role: "user", parts }] });
    assert.ok(text.includes("hello there"), text);
    await files.delete({ name: file.name });
  },
  batches: async () => {
    const request = { contents: [{ role: "user", parts: [{ text: "hello there" }] }] };
    let job = await batches.create({ model, src: [request, request] });
    while (["JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_QUEUED"].includes(job.state)) {
      await delay(200);
      job = await batches.get({ name: job.name });
    }
    assert.equal(job.state, "JOB_STATE_SUCCEEDED");
    const texts = job.dest.inlinedResponses.map(({ response }) => response.candidates[0].content.parts[0].text);
    assert.deepEqual(texts, [greeting, greeting]);
    await batches.delete({ name: job.name });
  },
  "broken stream": () => assertBroken(texts(broken)),
  "keep-alives": () => assertPaused(texts(paused)),
  "wrong key": () =>
    assert.rejects(
      clientOf("nothing").models.generateContent({ model, contents: "hello there" }),
      (error) => error instanceof ApiError && error.status === 400,
    ),
});
