/** The batches of three vendors, with their official clients and their refusals. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI, { toFile } from "openai";
import { createSimulator } from "../../apps/simulator/server.ts";
import { until } from "../support/time.ts";

const simulator = createSimulator({ key: "key" });
const url = await simulator.listen();
after(() => simulator[Symbol.asyncDispose]());

const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "key", maxRetries: 0 });
const anthropic = new Anthropic({ baseURL: url, apiKey: "key", maxRetries: 0 });
const google = new GoogleGenAI({ apiKey: "key", httpOptions: { baseUrl: url, apiVersion: "v1beta" } });

const line = (id: string, more: object = {}, body: object = {}) =>
  JSON.stringify({
    ...{ custom_id: id, method: "POST", url: "/v1/chat/completions" },
    body: { model: "sim-fast", messages: [{ role: "user", content: id }], ...body },
    ...more,
  });

async function run(lines: string[]) {
  const file = await toFile(Buffer.from(lines.join("\n")), "in.jsonl");
  const { id: input_file_id } = await openai.files.create({ purpose: "batch", file });
  const created = { input_file_id, endpoint: "/v1/chat/completions", completion_window: "24h" } as const;
  const { id } = await openai.batches.create(created);
  const isOver = async () => /completed|failed/.test((await openai.batches.retrieve(id)).status);
  await until("the end of the batch", isOver);
  return openai.batches.retrieve(id);
}

test("OpenAI's batches answer each line, and list the newest first", async () => {
  const batch = await run([line("a"), line("b", {}, { temperature: 9 })]);
  assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 });
  for (const [file, id] of [
    [batch.output_file_id, "a"],
    [batch.error_file_id, "b"],
  ])
    assert.equal(JSON.parse(await (await openai.files.content(file ?? "")).text()).custom_id, id);
  const [newest] = (await openai.batches.list({ limit: 1 })).data;
  assert.equal(newest?.id, batch.id);
  await assert.rejects(openai.batches.cancel(batch.id), { status: 409 });
});

const faults: Record<string, string[]> = {
  invalid_json_line: ["{"],
  url_mismatch: [line("a", { url: "/v1/embeddings" })],
  duplicate_custom_id: [line("a"), line("a")],
  mismatched_model: [line("a"), line("b", {}, { model: "sim-text" })],
  invalid_request: [line("a", {}, { stream: true })],
};
for (const [code, lines] of Object.entries(faults))
  test(`a batch of OpenAI fails as a whole: ${code}`, async () => {
    const batch = await run(lines);
    assert.deepEqual([batch.status, batch.errors?.data?.[0]?.code], ["failed", code]);
  });

test("OpenAI takes only files of lines for batches", async () => {
  const file = await toFile(Buffer.from(line("a")), "in.txt");
  await assert.rejects(openai.files.create({ purpose: "batch", file }), { status: 400 });
  const { id } = await openai.files.create({ purpose: "user_data", file });
  const body = { input_file_id: id, endpoint: "/v1/chat/completions", completion_window: "24h" } as const;
  await assert.rejects(openai.batches.create(body), { status: 400 });
});

test("Anthropic's batches show counts and results at their end", async () => {
  const params = { model: "sim-fast", max_tokens: 9, messages: [{ role: "user" as const, content: "a" }] };
  const { batches } = anthropic.messages;
  const { id } = await batches.create({ requests: [{ custom_id: "a", params }] });
  await until("the end", async () => (await batches.retrieve(id)).processing_status === "ended");
  assert.equal((await batches.retrieve(id)).request_counts.succeeded, 1);
  await assert.rejects(batches.cancel(id), { status: 400 });
  for (const requests of [
    [],
    [{ custom_id: "a b", params }],
    [{ custom_id: "a", params: { ...params, max_tokens: 0 } }],
  ])
    await assert.rejects(batches.create({ requests }), { status: 400 });
  assert.deepEqual(await batches.delete(id), { id, type: "message_batch_deleted" });
  await assert.rejects(batches.retrieve(id), { status: 404 });
});

test("Google's batches have their responses inline, and partial answers", async () => {
  const src = [{ contents: [{ role: "user", parts: [{ text: "a" }] }], metadata: { key: "1" } }];
  const { name = "" } = await google.batches.create({ model: "sim-fast", src, config: { displayName: "named" } });
  await until("the end", async () => (await google.batches.get({ name })).state === "JOB_STATE_SUCCEEDED");
  const { dest } = await google.batches.get({ name });
  assert.equal(dest?.inlinedResponses?.[0]?.metadata?.key, "1");
  const part = await fetch(`${url}/v1beta/${name}?fields=done,metadata/displayName`, {
    headers: { "x-goog-api-key": "key" },
  });
  assert.deepEqual(await part.json(), { done: true, metadata: { displayName: "named" } });
  await google.batches.delete({ name });
  await assert.rejects(google.batches.get({ name }), { status: 404 });
});
