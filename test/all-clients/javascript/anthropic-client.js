// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/** Anthropic's JavaScript client or, with the argument `vertex`, the one for Vertex AI. */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import Anthropic, { toFile } from "@anthropic-ai/sdk";
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

async function vertex() {
  const { AnthropicVertex } = await import("@anthropic-ai/vertex-sdk");
  const { OAuth2Client } = await import("google-auth-library");
  const place = { projectId: "project", region: "us-east5", baseURL: `${url}/v1`, maxRetries: 0 };
  return (token) => {
    const authClient = new OAuth2Client();
    authClient.setCredentials({ access_token: token });
    return new AnthropicVertex({ ...place, authClient });
  };
}
const isVertex = process.argv[2] === "vertex";
const clientOf = isVertex ? await vertex() : (apiKey) => new Anthropic({ apiKey, baseURL: url, maxRetries: 0 });
const { messages } = clientOf(key);
const hello = { role: "user", content: "hello there" };
const tools = [{ name: "get_weather", description: "Says the weather of a city.", input_schema: schema }];
const textOf = ({ content }) => content.map(({ text = "" }) => text).join("");

async function useFiles() {
  const own = clientOf(key);
  const files = own.files ?? own.beta.files;
  const file = await files.upload({ file: await toFile(Buffer.from("a text"), "a.txt", { type: "text/plain" }) });
  assert.equal((await files.retrieveMetadata(file.id)).filename, "a.txt");
  assert.equal(await (await files.download(file.id)).text(), "a text");
  const document = { type: "document", source: { type: "file", file_id: file.id } };
  const content = [document, { type: "text", text: "hello there" }];
  const answer = await own.messages.create({ model, max_tokens: 2000, messages: [{ role: "user", content }] });
  assert.ok(textOf(answer).includes("hello there"));
  assert.equal((await files.delete(file.id)).id, file.id);
}

async function useBatches() {
  const { batches } = messages;
  const params = { model, max_tokens: 2_000, messages: [hello] };
  let batch = await batches.create({ requests: ["a", "b"].map((custom_id) => ({ custom_id, params })) });
  while (batch.processing_status !== "ended") {
    await delay(200);
    batch = await batches.retrieve(batch.id);
  }
  const results = [];
  for await (const { custom_id, result } of await batches.results(batch.id))
    results.push([custom_id, textOf(result.message)]);
  assert.deepEqual(results, [
    ["a", greeting],
    ["b", greeting],
  ]);
  assert.equal((await batches.delete(batch.id)).id, batch.id);
}

/** Runs the body for both models, whole and streamed; `ask` adds the model and the thinking. */
async function each(body) {
  const ways = [(request) => messages.create(request), (request) => messages.stream(request).finalMessage()];
  for (const way of ways)
    for (const name of [model, reasoner]) {
      const thinking = { type: name === reasoner ? "adaptive" : "disabled" };
      await body((more) => way({ model: name, max_tokens: 2_000, thinking, ...more }), name);
    }
}

const modelList = {
  "model list": async () => {
    const ids = [];
    for await (const { id } of clientOf(key).models.list({ limit: 2 })) ids.push(id);
    assert.ok(ids.includes(model) && ids.includes(reasoner));
  },
};

async function* texts(name) {
  const stream = await messages.create({ model: name, max_tokens: 2_000, messages: [hello], stream: true });
  for await (const { delta } of stream) if (delta?.type === "text_delta") yield delta.text;
}

await run({
  "an answer": () =>
    each(async (ask, name) => {
      const message = await ask({ messages: [hello], system: "Be brief." });
      assert.deepEqual([textOf(message), message.stop_reason, message.model], [greeting, "end_turn", name]);
      assert.ok(message.usage.input_tokens > 0 && message.usage.output_tokens > 0);
    }),
  "tool loop and second turn": () =>
    each(async (ask) => {
      const turns = [{ role: "user", content: question }];
      const first = await ask({ messages: turns, tools });
      assert.equal(first.stop_reason, "tool_use");
      const results = first.content
        .filter(({ type }) => type === "tool_use")
        .map(({ id, input }) => ({ type: "tool_result", tool_use_id: id, content: getWeather(input) }));
      turns.push({ role: "assistant", content: first.content }, { role: "user", content: results });
      const second = await ask({ messages: turns, tools });
      assertUsedTool(textOf(second));
      turns.push({ role: "assistant", content: second.content }, hello);
      assert.equal(textOf(await ask({ messages: turns, tools })), greeting);
    }),
  "count tokens": async () => {
    assert.ok((await messages.countTokens({ model, messages: [hello] })).input_tokens > 0);
  },
  ...(!isVertex && modelList),
  ...(!isVertex && { files: useFiles, batches: useBatches }),
  "broken stream": () => assertBroken(texts(broken)),
  "keep-alives": () => assertPaused(texts(paused)),
  "wrong key": () =>
    assert.rejects(
      clientOf("nothing").messages.create({ model, max_tokens: 100, messages: [hello] }),
      Anthropic.AuthenticationError,
    ),
});
