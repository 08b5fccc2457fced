/**
 * A caller's bill for each operation besides conversations: by its upstream's count, or by the
 * gateway's own.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type OpenAI from "openai";
import { hashOf } from "#access/key.ts";
import { nanoPerUnit } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

/** A token costs 1, so that money counts tokens. */
const line = (id: string, model: string, more = "") =>
  `  - { id: ${id}, queue: audio, ${more}prices: { inputPerMillion: 1000000, outputPerMillion: 1000000 }, retries: 0, route: [{ upstream: simulator, model: "${model}" }] }`;
const gateway = await startGateway({
  workers: ["audio=16"],
  catalogue: `groups:
  default: { models: ["*"] }
  paying: { models: ["*"], keyLimits: { budgetPerDay: 1000000 } }
  poor: { models: ["*"], keyLimits: { budgetPerDay: 30 } }
upstreams:
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${line("speaker", "sim-speech")}
${line("uncounted-speaker", "sim-speech;usage=never")}
${line("endless-speaker", "sim-speech;tokens=1000;stall=10")}
${line("transcriber", "sim-transcript")}
${line("uncounted-transcriber", "sim-transcript;usage=never")}
${line("moderator", "sim-moderation")}
${line("reranker", "sim-rerank")}
${line("uncounted-reranker", "sim-rerank;usage=never")}
${line("completing", "sim-text;rate=0", "traits: { completions: true }, ")}
${line("conversing", "sim-text;rate=0")}
${line("uncounted", "sim-text;rate=0;usage=never")}
${line("endless", "sim-text;rate=0;size=4096;tokens=5000;stall=20", "traits: { completions: true }, ")}
`,
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});
const keyspace = keyspaceOf("sluice");

/** A new key's spending after this. */
async function spentOn(act: (client: OpenAI, key: string) => Promise<unknown>): Promise<number> {
  const key = await gateway.createKey("paying");
  await act(gateway.client({ key }), key);
  const subject = `key_${hashOf(key).slice(0, 24)}`;
  const ended = async () => (await redis.zcard(keyspace.limit("key", subject, "running"))) === 0;
  await until("nothing runs", ended);
  return Number(await redis.hget(keyspace.limit("key", subject, "budget"), "dayNano")) / nanoPerUnit;
}

const input = "ä".repeat(100);
const voice = "alloy" as const;
const file = () => new File([new Uint8Array(48_000)], "a.wav", { type: "audio/wav" });

test("speech is billed by the characters of its text; as events, by the upstream's count if there is one", async () => {
  const speak = (model: string, more: object = {}) =>
    spentOn(async (client) => (await client.audio.speech.create({ model, input, voice, ...more })).arrayBuffer());
  assert.equal(await speak("speaker"), 100);
  // 200 bytes, and 67 chunks of two tokens.
  assert.equal(await speak("speaker", { stream_format: "sse" }), 50 + 2 * 67);
  assert.equal(await speak("uncounted-speaker", { stream_format: "sse" }), 100);
});

test("speech that its caller leaves is billed by its characters, and its upstream is left too", async () => {
  const spent = await spentOn(async (client) => {
    const response = await client.audio.speech.create({ model: "endless-speaker", input, voice });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    await reader.read();
    await reader.cancel();
    await until("the upstream call is closed", async () =>
      (await gateway.seen("sim-speech;tokens=1000;stall=10")).every(({ closedAt }) => closedAt !== undefined),
    );
  });
  assert.equal(spent, 100);
});

test("a transcript is billed by the upstream's tokens, by the duration that it reports, or by the size of the file", async () => {
  const transcribe = (model: string, response_format: "json" | "verbose_json" | "text") =>
    spentOn((client) => client.audio.transcriptions.create({ model, file: file(), response_format }));
  // Three seconds of ten tokens, and a text of 52 bytes.
  assert.equal(await transcribe("transcriber", "json"), 30 + 13);
  assert.equal(await transcribe("transcriber", "verbose_json"), 3 * 25);
  assert.equal(await transcribe("uncounted-transcriber", "verbose_json"), 3 * 25);
  // The fields of the form, four seconds at most, and their text.
  assert.equal(await transcribe("transcriber", "text"), 250 + 3 * 25 + 3 * 4);
});

test("moderation and rankings are billed by the upstream's count, or else by the length of the request", async () => {
  const body = { model: "moderator", input: "x".repeat(400) };
  assert.equal(await spentOn((client) => client.moderations.create(body)), Math.ceil(JSON.stringify(body).length / 4));
  const rank = (model: string) =>
    spentOn((client) =>
      client.post("/rerank", { body: { model, query: "q".repeat(40), documents: ["d".repeat(400)] } }),
    );
  assert.equal(await rank("reranker"), 110);
  const length = JSON.stringify({ model: "uncounted-reranker", query: "q".repeat(40), documents: ["d".repeat(400)] });
  assert.equal(await rank("uncounted-reranker"), Math.ceil(length.length / 4));
});

test("completions are billed by the upstream's count, and by what was produced when the caller leaves", async () => {
  for (const model of ["completing", "conversing"]) {
    let total = 0;
    const whole = await spentOn(async (client) => {
      const answer = await client.completions.create({ model, prompt: "hello" });
      total = answer.usage?.total_tokens ?? 0;
    });
    assert.deepEqual([whole > 0, whole], [true, total]);
    const streamed = await spentOn(async (client) => {
      for await (const _ of await client.completions.create({ model, prompt: "hello", stream: true }));
    });
    assert.equal(streamed, total);
  }
  const left = await spentOn(async (client) => {
    let read = 0;
    const request = { model: "endless", prompt: "hello", stream: true } as const;
    for await (const { choices } of await client.completions.create(request)) {
      read += choices[0]?.text.length ?? 0;
      if (read >= 20 * 4_096) break;
    }
  });
  const promptTokens = Math.ceil(JSON.stringify({ model: "endless", prompt: "hello", stream: true }).length / 4);
  assert.equal(left, promptTokens + 20 * 1_024);
});

test("a budget that speech has spent refuses more of it", async () => {
  const client = gateway.client({ key: await gateway.createKey("poor") });
  await (await client.audio.speech.create({ model: "speaker", input: "x".repeat(40), voice })).arrayBuffer();
  await assert.rejects(
    client.audio.speech.create({ model: "speaker", input: "x".repeat(20), voice }),
    (error: InstanceType<typeof OpenAI.APIError>) => error.status === 429 && error.code === "insufficient_quota",
  );
});

test("an answer without a count is billed by its text, not by the most that its caller allowed", async () => {
  const bound = { max_tokens: 50_000 };
  const messages = [{ role: "user" as const, content: "hello" }];
  const tokensIn = (text: string) => Math.floor(Buffer.byteLength(text) / 4);
  const requests = {
    chat: { path: "/chat/completions", model: "uncounted", messages },
    messages: { path: "/messages", model: "uncounted", messages },
    responses: { path: "/responses", model: "uncounted", input: "hello", max_output_tokens: 50_000, store: false },
    completions: { path: "/completions", model: "uncounted", prompt: "hello" },
  };
  for (const [name, { path, ...fields }] of Object.entries(requests)) {
    const body = "input" in fields ? fields : { ...fields, ...bound };
    let text = "";
    const spent = await spentOn(async (client) => {
      const answer = (await client.post(path, { body })) as Record<string, never>;
      text = JSON.stringify(answer).match(/"(?:text|content)":"([^"]+)"/)?.[1] ?? "";
    });
    assert.notEqual(text, "", name);
    assert.equal(spent, Math.ceil(JSON.stringify(body).length / 4) + tokensIn(text), name);
  }
});
