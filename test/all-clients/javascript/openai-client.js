// @ts-nocheck: all-clients.ts installs its packages, beside the project.
/**
 * OpenAI's JavaScript client: chat completions and responses, and OpenAI's guides to conversation
 * state, background work and compaction.
 */
import assert from "node:assert/strict";
import { setTimeout as delay } from "node:timers/promises";
import OpenAI, { toFile } from "openai";
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
  slow,
  url,
} from "./checks.js";

const clientOf = (apiKey) => new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 });
const client = clientOf(key);
const { responses, conversations } = client;
const hello = { role: "user", content: "hello there" };
const weather = { name: "get_weather", description: "Says the weather of a city.", parameters: schema, strict: true };
const tools = [{ type: "function", ...weather }];
const tokensOf = ({ usage }) => usage.input_tokens;
const isOver = ({ status }) => status !== "queued" && status !== "in_progress";
/** The results of the calls in an answer. */
const resultsOf = ({ output }) =>
  output
    .filter(({ type }) => type === "function_call")
    .map(({ call_id, arguments: input }) => ({
      type: "function_call_output",
      call_id,
      output: getWeather(JSON.parse(input)),
    }));

/** Runs the body for both models, whole and streamed. */
async function each(body) {
  const ways = [(request) => responses.create(request), (request) => responses.stream(request).finalResponse()];
  for (const ask of ways)
    for (const name of [model, reasoner]) await body((more) => ask({ model: name, ...more }), name);
}

async function* chatTexts(name) {
  const stream = await client.chat.completions.create({ model: name, messages: [hello], stream: true });
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
      const request = { model: name, messages: [hello] };
      const { choices, usage } = await client.chat.completions.create(request);
      assert.deepEqual([choices[0].message.content, choices[0].finish_reason], [greeting, "stop"]);
      assert.ok(usage.total_tokens > 0);
      const streamed = await client.chat.completions.stream(request).finalChatCompletion();
      assert.equal(streamed.choices[0].message.content, greeting);
    }
  },
  "tool runner over chat": async () => {
    for (const name of [model, reasoner]) {
      const runner = client.chat.completions.runTools({
        model: name,
        messages: [{ role: "user", content: question }],
        tools: [{ type: "function", function: { ...weather, function: getWeather, parse: JSON.parse } }],
      });
      assertUsedTool(await runner.finalContent());
    }
  },
  // https://platform.openai.com/docs/guides/function-calling
  "documented loop over responses": () =>
    each(async (ask) => {
      const input = [{ role: "user", content: question }];
      const first = await ask({ input, tools });
      input.push(...first.output, ...resultsOf(first));
      const second = await ask({ input, tools });
      assertUsedTool(second.output_text);
      input.push(...second.output, hello);
      assert.equal((await ask({ input, tools })).output_text, greeting);
    }),
  // https://platform.openai.com/docs/guides/conversation-state
  previous_response_id: () =>
    each(async (ask) => {
      const first = await ask({ input: question, tools });
      const second = await ask({ input: resultsOf(first), previous_response_id: first.id, tools });
      assertUsedTool(second.output_text);
      const third = await ask({ input: "hello there", previous_response_id: second.id, tools });
      assert.equal(third.output_text, greeting);
      assert.ok(tokensOf(third) > tokensOf(second) && tokensOf(second) > tokensOf(first));
      assert.deepEqual((await responses.retrieve(third.id)).output_text, greeting);
      const texts = [];
      for await (const item of responses.inputItems.list(third.id)) texts.push(item.content[0].text);
      assert.deepEqual(texts, ["hello there"]);
      await responses.delete(third.id);
      await assert.rejects(responses.retrieve(third.id), OpenAI.NotFoundError);
      const next = ask({ input: "hello there", previous_response_id: third.id });
      await assert.rejects(next, (error) => error.code === "previous_response_not_found");
    }),
  conversations: () =>
    each(async (ask) => {
      const seed = { type: "message", role: "user", content: "My name is Ada." };
      const { id } = await conversations.create({ items: [seed], metadata: { topic: "names" } });
      const first = await ask({ input: "hello there", conversation: id });
      const second = await ask({ input: "hello there", conversation: { id } });
      assert.equal(second.output_text, greeting);
      assert.ok(tokensOf(second) > tokensOf(first));
      await conversations.items.create(id, { items: [{ type: "message", role: "user", content: "Goodbye." }] });
      const texts = [];
      for await (const item of conversations.items.list(id, { order: "asc", limit: 2 }))
        if (item.type === "message") texts.push(item.content[0].text);
      assert.deepEqual(texts, [seed.content, "hello there", first.output_text, "hello there", greeting, "Goodbye."]);
      assert.deepEqual((await conversations.update(id, { metadata: { topic: "x" } })).metadata, { topic: "x" });
      await conversations.delete(id);
      await assert.rejects(conversations.retrieve(id), OpenAI.NotFoundError);
    }),
  // https://platform.openai.com/docs/guides/background
  "background, polled": async () => {
    for (const name of [model, reasoner]) {
      let response = await responses.create({ model: name, input: "hello there", background: true });
      assert.equal(response.status, "queued");
      while (!isOver(response)) {
        await delay(50);
        response = await responses.retrieve(response.id);
      }
      assert.deepEqual([response.status, response.output_text], ["completed", greeting]);
    }
  },
  "background, streamed and resumed": async () => {
    const events = [];
    const stream = await responses.create({ model: slow, input: "hello there", background: true, stream: true });
    for await (const event of stream) if (events.push(event) === 8) break;
    const { id } = events[0].response;
    for await (const event of await responses.retrieve(id, { stream: true, starting_after: 7 })) events.push(event);
    assert.deepEqual(
      events.map(({ sequence_number: number }) => number),
      [...events.keys()],
    );
    const { type, response } = events.at(-1);
    const text = events.map((event) => (event.type === "response.output_text.delta" ? event.delta : "")).join("");
    assert.equal(type, "response.completed");
    assert.equal(text, response.output[0].content[0].text);
    const replayed = await responses.stream({ response_id: id, starting_after: 4 }).finalResponse();
    assert.equal(replayed.output_text, text);
  },
  "background, cancelled": async () => {
    const { id } = await responses.create({ model: slow, input: "hello there", background: true });
    assert.equal((await responses.cancel(id)).status, "cancelled");
    assert.equal((await responses.cancel(id)).status, "cancelled");
    assert.equal((await responses.retrieve(id)).status, "cancelled");
  },
  // https://platform.openai.com/docs/guides/compaction
  compaction: () =>
    each(async (ask, name) => {
      const history = { role: "user", content: "My name is Ada." };
      const first = await ask({ input: [history] });
      for (const more of [{ input: [history, ...first.output] }, { previous_response_id: first.id }]) {
        const { output } = await responses.compact({ model: name, ...more });
        assert.deepEqual(
          output.map(({ type }) => type),
          ["message", "compaction"],
        );
        const next = await ask({ input: [...output, hello] });
        assert.ok(next.output_text !== "" && tokensOf(next) > tokensOf(first));
      }
    }),
  files: async () => {
    const { files, uploads } = client;
    const bytes = Buffer.from("a text");
    const file = await files.create({ file: await toFile(bytes, "a.txt"), purpose: "user_data" });
    assert.equal((await files.waitForProcessing(file.id)).status, "processed");
    assert.equal(await (await files.content(file.id)).text(), "a text");
    assert.ok((await files.list({ limit: 100 })).data.some(({ id }) => id === file.id));
    const content = [
      { type: "input_file", file_id: file.id },
      { type: "input_text", text: "hello there" },
    ];
    const { output_text } = await responses.create({ model, input: [{ role: "user", content }] });
    assert.ok(output_text.includes("hello there"), output_text);
    assert.ok((await files.delete(file.id)).deleted);
    const head = { bytes: bytes.length, filename: "b.txt", mime_type: "text/plain", purpose: "user_data" };
    const upload = await uploads.create(head);
    const part = await uploads.parts.create(upload.id, { data: await toFile(bytes, "part") });
    const completed = await uploads.complete(upload.id, { part_ids: [part.id] });
    assert.equal(await (await files.content(completed.file.id)).text(), "a text");
  },
  batches: async () => {
    const { files, batches } = client;
    const body = { model, messages: [hello] };
    const lines = ["a", "b"].map((custom_id) =>
      JSON.stringify({ custom_id, method: "POST", url: "/v1/chat/completions", body }),
    );
    const input = await files.create({
      file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"),
      purpose: "batch",
    });
    const place = { endpoint: "/v1/chat/completions", completion_window: "24h" };
    let batch = await batches.create({ input_file_id: input.id, ...place });
    while (!["completed", "failed", "expired", "cancelled"].includes(batch.status)) {
      await delay(200);
      batch = await batches.retrieve(batch.id);
    }
    assert.deepEqual([batch.status, batch.request_counts.completed], ["completed", 2]);
    const results = (await (await files.content(batch.output_file_id)).text())
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    assert.deepEqual(
      results.map(({ custom_id, response }) => [custom_id, response.body.choices[0].message.content]),
      [
        ["a", greeting],
        ["b", greeting],
      ],
    );
  },
  "broken stream": async () => {
    await assertBroken(chatTexts(broken));
    await assertBroken(responseTexts(broken));
  },
  "keep-alives": async () => {
    await assertPaused(chatTexts(paused));
    await assertPaused(responseTexts(paused));
  },
  "wrong key": async () => {
    const stranger = clientOf("nothing");
    await assert.rejects(stranger.responses.create({ model, input: "hello there" }), OpenAI.AuthenticationError);
    const request = { model, messages: [hello], stream: true };
    await assert.rejects(stranger.chat.completions.create(request), OpenAI.AuthenticationError);
  },
});
