// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/**
 * LangChain's ChatOpenAI for JavaScript, over chat completions or, with the argument `responses`,
 * over Responses.
 */
import assert from "node:assert/strict";
import { HumanMessage } from "@langchain/core/messages";
import { tool } from "@langchain/core/tools";
import { ChatOpenAI } from "@langchain/openai";
import { createAgent } from "langchain";
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

const usesResponses = process.argv[2] === "responses";
const modelOf = (name, apiKey = key) =>
  new ChatOpenAI({
    model: name,
    apiKey,
    maxRetries: 0,
    configuration: { baseURL: `${url}/v1` },
    ...(usesResponses && { useResponsesApi: true }),
  });
const weather = tool(getWeather, {
  name: "get_weather",
  description: "Says the weather of a city.",
  schema: z.object({ city: z.string() }),
});

/** Two turns; the model's messages are sent back as LangChain made them. */
async function loop(ask) {
  for (const name of [model, reasoner]) {
    const bound = modelOf(name).bindTools([weather]);
    const messages = [new HumanMessage(question)];
    messages.push(await ask(bound, messages));
    for (const call of messages.at(-1).tool_calls) messages.push(await weather.invoke(call));
    messages.push(await ask(bound, messages));
    assertUsedTool(messages.at(-1).text);
    messages.push(new HumanMessage("hello there"));
    assert.equal((await ask(bound, messages)).text, greeting);
  }
}

const stored = {
  previous_response_id: async () => {
    for (const name of [model, reasoner]) {
      const first = await modelOf(name).invoke("hello there");
      const options = { previous_response_id: first.response_metadata.id };
      const second = await modelOf(name).invoke("hello there", options);
      assert.equal(second.text, greeting);
      assert.ok(second.usage_metadata.input_tokens > first.usage_metadata.input_tokens);
    }
  },
};

async function* texts(name) {
  for await (const { text } of await modelOf(name).stream("hello there")) yield text;
}

await run({
  "whole answer": async () => {
    for (const name of [model, reasoner]) {
      const { text, usage_metadata: usage } = await modelOf(name).invoke("hello there");
      assert.equal(text, greeting);
      assert.ok(usage.total_tokens > 0);
    }
  },
  "streamed answer": async () => {
    for (const name of [model, reasoner]) {
      let text = "";
      for await (const chunk of await modelOf(name).stream("hello there")) text += chunk.text;
      assert.equal(text, greeting);
    }
  },
  "tool loop": () => loop((bound, messages) => bound.invoke(messages)),
  "streamed tool loop": () =>
    loop(async (bound, messages) => {
      let whole;
      for await (const chunk of await bound.stream(messages)) whole = whole === undefined ? chunk : whole.concat(chunk);
      return whole;
    }),
  agent: async () => {
    for (const name of [model, reasoner]) {
      const agent = createAgent({ model: modelOf(name), tools: [weather] });
      const { messages } = await agent.invoke({ messages: [new HumanMessage(question)] });
      assertUsedTool(messages.at(-1).text);
      const next = await agent.invoke({ messages: [...messages, new HumanMessage("hello there")] });
      assert.equal(next.messages.at(-1).text, greeting);
    }
  },
  ...(usesResponses && stored),
  "structured output": async () => {
    for (const name of [model, reasoner]) {
      const schema = z.object({ color: z.enum(["red", "green"]) });
      const { color } = await modelOf(name)
        .withStructuredOutput(schema, { method: "jsonSchema" })
        .invoke("hello there");
      assert.ok(["red", "green"].includes(color));
    }
  },
  "broken stream": () => assertBroken(texts(broken)),
  "keep-alives": () => assertPaused(texts(paused)),
  "wrong key": () =>
    assert.rejects(modelOf(model, "nothing").invoke("hello there"), (error) => {
      assert.equal(error.status ?? error.cause?.status, 401, String(error));
      return true;
    }),
});
