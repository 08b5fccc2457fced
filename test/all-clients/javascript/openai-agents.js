// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/**
 * OpenAI's Agents SDK for JavaScript, at its default settings: the Responses API, and nothing said
 * about storage.
 */
import assert from "node:assert/strict";
import {
  Agent,
  MemorySession,
  OpenAIConversationsSession,
  OpenAIProvider,
  OpenAIResponsesCompactionSession,
  Runner,
  tool,
  user,
} from "@openai/agents";
import OpenAI from "openai";
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

const runnerOf = (apiKey) =>
  new Runner({ modelProvider: new OpenAIProvider({ apiKey, baseURL: `${url}/v1` }), tracingDisabled: true });
const runner = runnerOf(key);
const client = new OpenAI({ apiKey: key, baseURL: `${url}/v1`, maxRetries: 0 });
const weather = tool({
  name: "get_weather",
  description: "Says the weather of a city.",
  parameters: z.object({ city: z.string() }),
  execute: async (input) => getWeather(input),
});
const agentOf = (name) => new Agent({ name: "Weather", instructions: "Be brief.", model: name, tools: [weather] });

const tokensOf = (result) => result.rawResponses.at(-1).usage.inputTokens;
/** A tool loop and a turn after it, with the same settings, whole and streamed. */
async function twoTurns(agent, optionsOf) {
  for (const stream of [false, true]) {
    const options = await optionsOf();
    const turn = async (input, more = {}) => {
      const result = await runner.run(agent, input, { ...options, ...more, stream });
      if (stream) await result.completed;
      return result;
    };
    const first = await turn(question);
    assertUsedTool(first.finalOutput);
    const more = "previousResponseId" in options ? { previousResponseId: first.lastResponseId } : {};
    const second = await turn("hello there", more);
    assert.equal(second.finalOutput, greeting);
    assert.ok(tokensOf(second) > tokensOf(first));
  }
}

async function* texts(name) {
  const stream = await runner.run(agentOf(name), "hello there", { stream: true });
  yield* stream.toTextStream();
  await stream.completed;
}

await run({
  "tool loop and second turn": async () => {
    for (const name of [model, reasoner]) {
      const first = await runner.run(agentOf(name), question);
      assertUsedTool(first.finalOutput);
      const second = await runner.run(agentOf(name), [...first.history, user("hello there")]);
      assert.equal(second.finalOutput, greeting);
    }
  },
  streamed: async () => {
    for (const name of [model, reasoner]) {
      const first = await runner.run(agentOf(name), question, { stream: true });
      await first.completed;
      assertUsedTool(first.finalOutput);
      const second = await runner.run(agentOf(name), [...first.history, user("hello there")], { stream: true });
      await second.completed;
      assert.equal(second.finalOutput, greeting);
    }
  },
  session: async () => {
    for (const name of [model, reasoner]) {
      const session = new MemorySession();
      assertUsedTool((await runner.run(agentOf(name), question, { session })).finalOutput);
      assert.equal((await runner.run(agentOf(name), "hello there", { session })).finalOutput, greeting);
    }
  },
  previousResponseId: async () => {
    for (const name of [model, reasoner]) {
      const { id } = await client.responses.create({ model: name, input: "hello there" });
      await twoTurns(agentOf(name), () => ({ previousResponseId: id }));
    }
  },
  conversationId: async () => {
    for (const name of [model, reasoner])
      await twoTurns(agentOf(name), async () => ({ conversationId: (await client.conversations.create()).id }));
  },
  OpenAIConversationsSession: async () => {
    for (const name of [model, reasoner])
      await twoTurns(agentOf(name), () => ({ session: new OpenAIConversationsSession({ client }) }));
  },
  OpenAIResponsesCompactionSession: async () => {
    const shouldTriggerCompaction = () => true;
    const session = new OpenAIResponsesCompactionSession({ client, model: reasoner, shouldTriggerCompaction });
    assertUsedTool((await runner.run(agentOf(reasoner), question, { session })).finalOutput);
    const items = await session.getItems();
    assert.equal(items.filter(({ type }) => type === "compaction").length, 1, JSON.stringify(items));
    // A dialect may join the summary and the question to one turn, which the simulator then
    // repeats.
    assert.ok((await runner.run(agentOf(reasoner), "hello there", { session })).finalOutput);
  },
  handoff: async () => {
    const specialist = agentOf(reasoner);
    const triage = Agent.create({ name: "Triage", model: reasoner, handoffs: [specialist] });
    const result = await runner.run(triage, "Use transfer_to_Weather.");
    assert.equal(result.lastAgent, specialist);
  },
  "structured output": async () => {
    for (const name of [model, reasoner]) {
      const agent = new Agent({
        name: "Colors",
        model: name,
        outputType: z.object({ color: z.enum(["red", "green"]) }),
      });
      assert.ok(["red", "green"].includes((await runner.run(agent, "hello there")).finalOutput.color));
    }
  },
  "broken stream": () => assertBroken(texts(broken)),
  "keep-alives": () => assertPaused(texts(paused)),
  "wrong key": () =>
    assert.rejects(runnerOf("nothing").run(agentOf(model), "hello there"), (error) => {
      assert.deepEqual([error.constructor.name, error.status], ["AuthenticationError", 401]);
      return true;
    }),
});
