// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/** The AI SDK with one of its providers, named by the first argument. */
globalThis.AI_SDK_LOG_WARNINGS = false;

import assert from "node:assert/strict";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
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
  url,
} from "./checks.js";

const v1 = `${url}/v1`;
/** The inputs of the requests to Responses, oldest first. */
const inputs = [];
const recordingFetch = (address, init) => {
  const { input } = init?.body === undefined ? {} : JSON.parse(String(init.body));
  if (Array.isArray(input)) inputs.push(input);
  return fetch(address, init);
};
const openai = async () => {
  const { createOpenAI } = await import("@ai-sdk/openai");
  return (apiKey) => createOpenAI({ baseURL: v1, apiKey, fetch: recordingFetch });
};
/** Given a key, the function from a model's name to the model. */
const providers = {
  openai,
  "openai.unstored": openai,
  azure: async () => {
    const { createAzure } = await import("@ai-sdk/azure");
    return (apiKey) => createAzure({ baseURL: `${url}/openai`, apiKey });
  },
  "openai.chat": async () => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return (apiKey) => createOpenAI({ baseURL: v1, apiKey }).chat;
  },
  "openai-compatible": async () => {
    const { createOpenAICompatible } = await import("@ai-sdk/openai-compatible");
    return (apiKey) =>
      createOpenAICompatible({
        name: "sluice",
        baseURL: v1,
        apiKey,
        includeUsage: true,
        supportsStructuredOutputs: true,
      });
  },
  anthropic: async () => {
    const { createAnthropic } = await import("@ai-sdk/anthropic");
    return (apiKey) => createAnthropic({ baseURL: v1, apiKey });
  },
  google: async () => {
    const { createGoogle } = await import("@ai-sdk/google");
    return (apiKey) => createGoogle({ baseURL: `${url}/v1beta`, apiKey });
  },
};
const provider = process.argv[2] ?? "";
const modelsOf = await providers[provider]();

const stored = provider === "openai.unstored" ? { store: false } : {};
/** Has a model show its thoughts. */
const thinking = {
  openai: { openai: { reasoningEffort: "low", reasoningSummary: "auto" } },
  "openai.unstored": { openai: { ...stored, reasoningEffort: "low", reasoningSummary: "auto" } },
  azure: { azure: { reasoningEffort: "low", reasoningSummary: "auto" } },
  "openai.chat": { openai: { reasoningEffort: "low" } },
  "openai-compatible": { sluice: { reasoningEffort: "low" } },
  anthropic: { anthropic: { thinking: { type: "adaptive" } } },
  google: { google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 } } },
};
const settingsOf = (name, providerOptions = provider === "openai" ? undefined : { openai: stored }) => ({
  model: modelsOf(key)(name),
  maxRetries: 0,
  providerOptions,
});
const all = [settingsOf(model), settingsOf(reasoner), settingsOf(reasoner, thinking[provider])];

const weather = tool({
  description: "Says the weather of a city.",
  inputSchema: z.object({ city: z.string() }),
  execute: async (input) => getWeather(input),
});
const loop = { tools: { get_weather: weather }, stopWhen: isStepCount(5) };
const asked = { role: "user", content: question };
const hello = { role: "user", content: "hello there" };
const answer = Output.object({ schema: z.object({ color: z.enum(["red", "green"]) }) });
const optionsOf = (more) => ({ providerOptions: { openai: more } });
const tokensOf = async ({ usage }) => (await usage).inputTokens;
const isReference = ({ type }) => type === "item_reference";
const post = async (path) => {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const response = await fetch(`${v1}${path}`, { method: "POST", headers, body: "{}" });
  assert.equal(response.status, 200);
  return response.json();
};
/** A whole answer, and the same of a stream. */
const ways = [
  async (settings) => {
    const { text, usage, steps, providerMetadata, responseMessages } = await generateText(settings);
    return { text, usage, steps, id: providerMetadata.openai.responseId, responseMessages };
  },
  async (settings) => {
    const result = streamText(settings);
    const text = await result.text;
    const [{ openai: metadata }, steps] = [await result.providerMetadata, await result.steps];
    const { responseId: id } = metadata;
    return { text, usage: result.usage, steps, id, responseMessages: await result.responseMessages };
  },
];
/** Only for the default provider: what it refers to is stored. */
const conversationState = {
  "second turn refers to items": async () => {
    for (const ask of ways)
      for (const settings of [settingsOf(reasoner), settingsOf(reasoner, thinking.openai)]) {
        const first = await ask({ ...settings, messages: [hello] });
        const second = await ask({ ...settings, messages: [hello, ...first.responseMessages, hello] });
        assert.equal(second.text, greeting);
        assert.ok((await tokensOf(second)) > (await tokensOf(first)));
        assert.ok(inputs.at(-1).some(isReference), JSON.stringify(inputs.at(-1)));
      }
  },
  "tool loop refers to reasoning": async () => {
    for (const ask of ways) {
      const { text } = await ask({ ...settingsOf(reasoner), ...loop, messages: [asked] });
      assertUsedTool(text);
      assert.ok(inputs.at(-1).some(isReference), JSON.stringify(inputs.at(-1)));
    }
  },
  previousResponseId: async () => {
    for (const ask of ways)
      for (const name of [model, reasoner]) {
        const first = await ask({ ...settingsOf(name), messages: [hello] });
        const more = optionsOf({ previousResponseId: first.id });
        const second = await ask({ ...settingsOf(name), ...more, messages: [hello] });
        assert.equal(second.text, greeting);
        assert.ok((await tokensOf(second)) > (await tokensOf(first)));
        assertUsedTool((await ask({ ...settingsOf(name), ...loop, ...more, messages: [asked] })).text);
      }
  },
  conversation: async () => {
    for (const ask of ways)
      for (const name of [model, reasoner]) {
        const more = optionsOf({ conversation: (await post("/conversations")).id });
        const first = await ask({ ...settingsOf(name), ...more, messages: [hello] });
        const second = await ask({ ...settingsOf(name), ...more, messages: [hello] });
        assert.equal(second.text, greeting);
        assert.ok((await tokensOf(second)) > (await tokensOf(first)));
        // Each step asks the question again, so the simulator may call the tool again.
        const { steps } = await ask({ ...settingsOf(name), ...loop, ...more, messages: [asked] });
        assert.ok(steps.length >= 2 && steps[0].toolResults[0].output === "It rains.", JSON.stringify(steps));
      }
  },
};
const onError = () => undefined;

async function* texts(name) {
  for await (const part of streamText({ ...settingsOf(name), prompt: "hello there", onError }).fullStream) {
    if (part.type === "error") throw part.error;
    if (part.type === "text-delta") yield part.text;
  }
}

await run({
  generateText: async () => {
    for (const settings of all) {
      const { text, finishReason, usage } = await generateText({ ...settings, prompt: "hello there" });
      assert.deepEqual([text, finishReason], [greeting, "stop"]);
      assert.ok(usage.totalTokens > 0);
    }
  },
  streamText: async () => {
    for (const settings of all) {
      const result = streamText({ ...settings, prompt: "hello there" });
      let text = "";
      for await (const chunk of result.textStream) text += chunk;
      assert.deepEqual([text, await result.finishReason], [greeting, "stop"]);
      assert.ok((await result.usage).totalTokens > 0);
    }
  },
  "tool loop and second turn": async () => {
    for (const settings of all) {
      const first = await generateText({ ...settings, ...loop, messages: [asked] });
      assertUsedTool(first.text);
      assert.equal(first.steps.length, 2);
      const second = await generateText({ ...settings, ...loop, messages: [asked, ...first.responseMessages, hello] });
      assert.equal(second.text, greeting);
    }
  },
  "streamed tool loop": async () => {
    for (const settings of all) {
      const first = streamText({ ...settings, ...loop, messages: [asked] });
      assertUsedTool(await first.text);
      assert.equal((await first.steps).length, 2);
      const second = streamText({ ...settings, ...loop, messages: [asked, ...(await first.responseMessages), hello] });
      assert.equal(await second.text, greeting);
    }
  },
  "structured output": async () => {
    for (const settings of all) {
      const { output } = await generateText({ ...settings, prompt: "hello there", output: answer });
      assert.ok(["red", "green"].includes(output.color));
      assert.deepEqual(await streamText({ ...settings, prompt: "hello there", output: answer }).output, output);
    }
  },
  "broken stream": () => assertBroken(texts(broken)),
  "keep-alives": () => assertPaused(texts(paused)),
  "wrong key": async () => {
    const stranger = { ...settingsOf(model), model: modelsOf("nothing")(model) };
    const status = provider === "google" ? 400 : 401;
    const isUnauthorized = (error) => APICallError.isInstance(error) && error.statusCode === status;
    await assert.rejects(generateText({ ...stranger, prompt: "hello there" }), isUnauthorized);
    let seen;
    for await (const part of streamText({ ...stranger, prompt: "hello there", onError }).fullStream)
      if (part.type === "error") seen = part.error;
    assert.ok(isUnauthorized(seen), String(seen));
  },
  ...(provider === "openai" && conversationState),
});
