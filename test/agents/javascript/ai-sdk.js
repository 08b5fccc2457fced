// @ts-nocheck: agents.ts installs its packages, beside the project.
/** The AI SDK with one of its providers, named by the first argument. */
globalThis.AI_SDK_LOG_WARNINGS = false;

import assert from "node:assert/strict";
import { APICallError, generateText, isStepCount, Output, streamText, tool } from "ai";
import { z } from "zod";
import { assertUsedTool, getWeather, greeting, key, model, question, reasoner, run, url } from "./checks.js";

const v1 = `${url}/v1`;
/** Given a key, the function from a model's name to the model. */
const providers = {
  openai: async () => {
    const { createOpenAI } = await import("@ai-sdk/openai");
    return (apiKey) => createOpenAI({ baseURL: v1, apiKey });
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

const stored = provider === "openai" ? { store: false } : {};
/** Has a model show its thoughts. */
const thinking = {
  openai: { openai: { ...stored, reasoningEffort: "low", reasoningSummary: "auto" } },
  "openai.chat": { openai: { reasoningEffort: "low" } },
  "openai-compatible": { sluice: { reasoningEffort: "low" } },
  anthropic: { anthropic: { thinking: { type: "adaptive" } } },
  google: { google: { thinkingConfig: { includeThoughts: true, thinkingBudget: 1_024 } } },
};
const settingsOf = (name, providerOptions = { openai: stored }) => ({
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
const refused = {
  "default storage refused by name": async () => {
    const asStored = { model: modelsOf(key)(reasoner), maxRetries: 0, ...loop, messages: [asked] };
    const isNamed = (error) =>
      APICallError.isInstance(error) && error.statusCode === 400 && error.message.includes("openai: { store: false }");
    await assert.rejects(generateText(asStored), isNamed);
  },
};
const onError = () => undefined;

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
  "wrong key": async () => {
    const stranger = { ...settingsOf(model), model: modelsOf("nothing")(model) };
    const isUnauthorized = (error) => APICallError.isInstance(error) && error.statusCode === 401;
    await assert.rejects(generateText({ ...stranger, prompt: "hello there" }), isUnauthorized);
    let seen;
    for await (const part of streamText({ ...stranger, prompt: "hello there", onError }).fullStream)
      if (part.type === "error") seen = part.error;
    assert.ok(isUnauthorized(seen), String(seen));
  },
  ...(provider === "openai" && refused),
});
