/**
 * Every kind of usage that has a price, from an upstream's answer to the exact cost in the ledger.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { openSession } from "../e2e/realtime-support.ts";
import { startControl } from "../support/control.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

interface UsageRecord {
  cost: string;
  tokens: Record<"input" | "cacheRead" | "cacheWrite" | "audioInput" | "output" | "reasoning" | "audioOutput", number>;
  images: number;
  imageSize: string | null;
  imageQuality: string | null;
  serviceTier: string | null;
  isEstimated: boolean;
}

const upstream = await startScriptedUpstream();
const gateway = await startGateway({
  workers: ["*=16"],
  catalogue: `groups:
  default: { models: ["*"] }
  dearer: { models: ["*"], priceRatio: 1.1 }
upstreams:
  chat: { dialect: openai-chat, alsoSpeaks: [openai-responses, openai-images, anthropic-messages], circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
  gemini: { dialect: gemini, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}beta" }
models:
  - id: spoken
    prices:
      { inputPerMillion: 2.5, cachedInputPerMillion: 0.3, outputPerMillion: 10, audioInputPerMillion: 40, audioOutputPerMillion: 80, serviceTiers: { flex: 0.5 } }
    route: [{ upstream: chat, model: theirs }]
  - id: heard
    prices: { inputPerMillion: 0.3, audioInputPerMillion: 1, outputPerMillion: 2.5, tiers: [{ aboveInputTokens: 1000, inputPerMillion: 0.6 }] }
    route: [{ upstream: gemini, model: theirs }]
  - id: written
    prices: { inputPerMillion: 3, cachedInputPerMillion: 0.3, cacheWritePerMillion: 3.75, outputPerMillion: 15, serviceTiers: { priority: 2 } }
    route: [{ upstream: chat, model: theirs }]
  - id: talked
    queue: realtime
    capabilities: [realtime]
    prices: { inputPerMillion: 4, cachedInputPerMillion: 0.4, outputPerMillion: 16, audioInputPerMillion: 32, audioOutputPerMillion: 64 }
    route: [{ upstream: simulator, model: sim-realtime }]
  - id: drawn
    queue: image
    prices:
      inputPerMillion: 5
      outputPerMillion: 40
      images: [{ size: 1024x1024, quality: low, price: 0.011 }, { size: 1024x1024, price: 0.042 }]
    route: [{ upstream: chat, model: theirs }]
`,
});
const control = await startControl({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
});
after(async () => {
  await control[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
const messages = [{ role: "user" as const, content: "Hello" }];

/** Sends a request that the upstream answers with `answer`, and waits for its record. */
async function recordOf(
  path: string,
  body: object,
  answer: object,
  { account, group = "default" }: { account: string; group?: string },
): Promise<UsageRecord> {
  upstream.answerWith(jsonAnswer(answer));
  const key = await gateway.createKey(group, { account });
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  assert.equal(response.status, 200, await response.text());
  return onlyRecordOf(account);
}

async function onlyRecordOf(account: string): Promise<UsageRecord> {
  let records: UsageRecord[] = [];
  await until("the ledger has the record", async () => {
    records = (await control.get<{ items: UsageRecord[] }>(`/usage/records?account=${account}`)).items;
    return records.length > 0;
  });
  assert.equal(records.length, 1);
  return records[0] as UsageRecord;
}

const choices = [{ index: 0, message: { role: "assistant", content: "hi" }, finish_reason: "stop" }];

test("audio tokens and the service tier of a chat completion", async () => {
  const record = await recordOf(
    "/v1/chat/completions",
    { model: "spoken", messages },
    {
      id: "c",
      object: "chat.completion",
      created: 1,
      model: "theirs",
      service_tier: "flex",
      choices,
      usage: {
        prompt_tokens: 101,
        completion_tokens: 33,
        total_tokens: 134,
        prompt_tokens_details: { cached_tokens: 20, audio_tokens: 50 },
        completion_tokens_details: { audio_tokens: 30, reasoning_tokens: 0 },
      },
    },
    { account: "chat" },
  );
  assert.deepEqual([record.tokens.audioInput, record.tokens.audioOutput, record.serviceTier], [50, 30, "flex"]);
  // (31 × 2.5 + 20 × 0.3 + 50 × 40 + 3 × 10 + 30 × 80) / 1,000,000 / 2
  assert.equal(record.cost, "0.00225675");
});

test("audio tokens and the service tier of a response", async () => {
  const record = await recordOf(
    "/v1/responses",
    { model: "spoken", input: "Hello", store: false },
    {
      id: "resp_1",
      object: "response",
      created_at: 1,
      status: "completed",
      model: "theirs",
      service_tier: "default",
      output: [
        {
          type: "message",
          id: "msg_1",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "hi", annotations: [] }],
        },
      ],
      usage: {
        input_tokens: 10,
        output_tokens: 4,
        total_tokens: 14,
        input_tokens_details: { audio_tokens: 6, cached_tokens: 0 },
        output_tokens_details: { audio_tokens: 3, reasoning_tokens: 0 },
      },
    },
    { account: "responses" },
  );
  // (4 × 2.5 + 6 × 40 + 1 × 10 + 3 × 80) / 1,000,000
  assert.deepEqual([record.cost, record.serviceTier], ["0.0005", "default"]);
});

test("audio of Gemini, and the price of a long prompt", async () => {
  const record = await recordOf(
    "/v1beta/models/heard:generateContent",
    { contents: [{ role: "user", parts: [{ text: "Hello" }] }] },
    {
      candidates: [{ content: { role: "model", parts: [{ text: "hi" }] }, finishReason: "STOP", index: 0 }],
      usageMetadata: {
        promptTokenCount: 1200,
        candidatesTokenCount: 5,
        totalTokenCount: 1205,
        promptTokensDetails: [
          { modality: "TEXT", tokenCount: 1000 },
          { modality: "AUDIO", tokenCount: 200 },
        ],
      },
    },
    { account: "gemini", group: "dearer" },
  );
  assert.equal(record.tokens.audioInput, 200);
  // (1,000 × 0.6 + 200 × 1 + 5 × 2.5) / 1,000,000 × 1.1
  assert.equal(record.cost, "0.00089375");
});

test("cache writes and the service tier of a message", async () => {
  const record = await recordOf(
    "/v1/messages",
    { model: "written", max_tokens: 10, messages },
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      model: "theirs",
      content: [{ type: "text", text: "hi" }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: 7,
        cache_read_input_tokens: 100,
        cache_creation_input_tokens: 200,
        output_tokens: 3,
        service_tier: "priority",
      },
    },
    { account: "messages" },
  );
  assert.deepEqual([record.tokens.cacheWrite, record.serviceTier], [200, "priority"]);
  // (7 × 3 + 100 × 0.3 + 200 × 3.75 + 3 × 15) / 1,000,000 × 2
  assert.equal(record.cost, "0.001692");
});

test("audio of a session, in and out", async () => {
  const key = await gateway.createKey("default", { account: "session" });
  const session = await openSession({ url: gateway.url, key }, "talked");
  await session.until("session.created");
  session.send({ type: "input_audio_buffer.append", audio: Buffer.alloc(4_800).toString("base64") });
  session.send({ type: "input_audio_buffer.commit" });
  session.send({ type: "response.create" });
  const { usage } = (await session.until("response.done")).response;
  session.socket.close();
  const record = await onlyRecordOf("session");
  const { input_token_details: input, output_token_details: output } = usage;
  assert.ok(input.audio_tokens > 0 && output.audio_tokens > 0);
  assert.deepEqual(
    [record.tokens.audioInput, record.tokens.audioOutput, record.tokens.input, record.tokens.output],
    [input.audio_tokens, output.audio_tokens, usage.input_tokens, usage.output_tokens],
  );
  assert.equal(Math.round(Number(record.cost) * 1e9), (input.audio_tokens * 32 + output.audio_tokens * 64) * 1_000);
});

test("images by size and quality, named by the answer or else by the request", async () => {
  const data = [{ b64_json: "AA==" }, { b64_json: "AA==" }];
  const draw = (more: object, answer: object, account: string) =>
    recordOf(
      "/v1/images/generations",
      { model: "drawn", prompt: "a cat", ...more },
      { created: 1, data, ...answer },
      { account },
    );
  const usage = { input_tokens: 10, output_tokens: 544, total_tokens: 554 };
  const low = await draw({ n: 2 }, { size: "1024x1024", quality: "low", usage }, "image-low");
  assert.deepEqual([low.images, low.imageSize, low.imageQuality], [2, "1024x1024", "low"]);
  // 10 × 5 / 1,000,000 + 2 × 0.011
  assert.equal(low.cost, "0.02205");
  const drawn = await draw({ n: 2, size: "1024x1024", quality: "high" }, { usage }, "image-asked");
  assert.deepEqual([drawn.images, drawn.imageSize, drawn.imageQuality], [2, "1024x1024", "high"]);
  // 10 × 5 / 1,000,000 + 2 × 0.042
  assert.equal(drawn.cost, "0.08405");
  const other = await draw({ n: 2, size: "1536x1024" }, { usage }, "image-other");
  // No price for this size: (10 × 5 + 544 × 40) / 1,000,000
  assert.equal(other.cost, "0.02181");
  const unreported = await draw({ n: 2, size: "1024x1024" }, {}, "image-unreported");
  assert.ok(unreported.isEstimated && unreported.tokens.input > 0);
  assert.ok(Number(unreported.cost) > 0.084 && Number(unreported.cost) < 0.085);
});
