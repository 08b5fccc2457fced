// @ts-nocheck: agents.ts installs its packages, beside the project.
/** OpenAI's Agents SDK for JavaScript, at its default settings: the Responses API, and nothing said about storage. */
import assert from "node:assert/strict";
import { Agent, MemorySession, OpenAIProvider, Runner, tool, user } from "@openai/agents";
import { z } from "zod";
import { assertUsedTool, getWeather, greeting, key, model, question, reasoner, run, url } from "./checks.js";

const runnerOf = (apiKey) =>
  new Runner({ modelProvider: new OpenAIProvider({ apiKey, baseURL: `${url}/v1` }), tracingDisabled: true });
const runner = runnerOf(key);
const weather = tool({
  name: "get_weather",
  description: "Says the weather of a city.",
  parameters: z.object({ city: z.string() }),
  execute: async (input) => getWeather(input),
});
const agentOf = (name) => new Agent({ name: "Weather", instructions: "Be brief.", model: name, tools: [weather] });

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
  "wrong key": () =>
    assert.rejects(runnerOf("nothing").run(agentOf(model), "hello there"), (error) => {
      assert.deepEqual([error.constructor.name, error.status], ["AuthenticationError", 401]);
      return true;
    }),
});
