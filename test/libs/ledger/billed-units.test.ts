/**
 * Every unit that a vendor bills, from the usage on the wire to the cost at the vendor's list
 * prices.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { unitKinds } from "#api/usage.ts";
import { upstreamCostOf } from "#catalogue/upstream-cost.ts";
import { UsageReader } from "#dialects/anthropic-messages/answer.ts";
import { GeminiDecoder } from "#dialects/gemini/answer.ts";
import { audioUsageOf } from "#dialects/openai/audio.ts";
import { usageOf as chatUsageOf } from "#dialects/openai-chat/answer.ts";
import { imageAnswerOf } from "#dialects/openai-images/verbatim.ts";
import { usageOf as responsesUsageOf } from "#dialects/openai-responses/answer.ts";
import { type Usage, unitNames } from "#dialects/usage.ts";
import { priced } from "#ledger/bill.ts";
import { unitsOf } from "#ledger/money.ts";
import { isPartial, type Prices, unpricedUnitsOf } from "#ledger/prices.ts";
import { billedFields } from "#ledger/record-fields.ts";
import { decodeUsageRecord, encodeUsageRecord } from "#ledger/usage-record.ts";
import { OpenaiSession } from "#operations/realtime/openai-session.ts";
import { rerankExchange } from "#operations/rerank/exchange.ts";
import { jsonBytesOf } from "#wire/json/parse.ts";
import { usageRecord } from "../../control/records.ts";

const pricesOf = (amounts: Partial<Prices>): Prices => ({
  inputPerMillion: 0,
  outputPerMillion: 0,
  images: [],
  tiers: [],
  serviceTiers: {},
  ...amounts,
});

const anthropic = (...reports: object[]): Usage | undefined => {
  const reader = new UsageReader();
  for (const report of reports) reader.read(report);
  return reader.usage;
};
const gemini = (...responses: Record<string, unknown>[]): Usage | undefined => {
  const decoder = new GeminiDecoder();
  for (const response of responses) decoder.push({ event: undefined, data: jsonBytesOf(response) });
  return decoder.usage;
};
const realtime = (usage: object): Usage | undefined => {
  const session = new OpenaiSession("m");
  session.read(Buffer.from('{"type":"session.created","session":{"model":"m"}}'));
  session.read(Buffer.from(JSON.stringify({ type: "response.done", response: { usage } })));
  return session.usage;
};
const images = (usage: object): Usage | undefined => {
  const answer = imageAnswerOf(Buffer.from(JSON.stringify({ data: [{ b64_json: "eA==" }], usage })), {
    size: undefined,
    quality: undefined,
  });
  return answer.kind === "answer" ? answer.usage : undefined;
};
const ranking = (billed_units: object): Usage | undefined => {
  const context = { id: "r", model: "m", count: 1, ranked: 1, documents: undefined };
  const answer = { results: [{ index: 0, relevance_score: 1 }], meta: { billed_units } };
  const read = rerankExchange.read(context, jsonBytesOf(answer));
  return read.kind === "answer" ? read.usage : undefined;
};
const grounded = (modelVersion: string, webSearchQueries: string[], groundingChunks: object[] = []) => ({
  modelVersion,
  candidates: [{ finishReason: "STOP", groundingMetadata: { webSearchQueries, groundingChunks } }],
  usageMetadata: { promptTokenCount: 1_000, candidatesTokenCount: 1_000, totalTokenCount: 2_000 },
});

const sonnet = pricesOf({
  inputPerMillion: 3,
  cachedInputPerMillion: 0.3,
  cacheWritePerMillion: 3.75,
  cacheWrite1hPerMillion: 6,
  outputPerMillion: 15,
  perWebSearch: 0.01,
  serviceTiers: { batch: 0.5, fast: 2, us: 1.1 },
});
const { cacheWrite1hPerMillion: _, ...sonnetWithoutHours } = sonnet;
const flash = pricesOf({ inputPerMillion: 0.3, outputPerMillion: 2.5, perWebSearch: 0.035, perMapSearch: 0.025 });
const flashImage = pricesOf({ inputPerMillion: 0.3, outputPerMillion: 2.5, imageOutputPerMillion: 30 });
const audio = pricesOf({
  inputPerMillion: 4,
  cachedInputPerMillion: 0.4,
  audioInputPerMillion: 32,
  cachedAudioPerMillion: 0.2,
  imageInputPerMillion: 5,
  outputPerMillion: 16,
  audioOutputPerMillion: 64,
});
const gpt = pricesOf({
  inputPerMillion: 1.25,
  cachedInputPerMillion: 0.125,
  outputPerMillion: 10,
  perWebSearch: 0.01,
  perFileSearch: 0.0025,
  perCodeSession: 0.03,
  serviceTiers: { flex: 0.5, priority: 2 },
});
const grok = pricesOf({ inputPerMillion: 2, cachedInputPerMillion: 0.5, outputPerMillion: 6, perWebSearch: 0.005 });

/** 1,000 tokens of input, of which 500 were read from the cache and 400 written to it. */
const cachedChat = (details: object, more: object = {}) =>
  chatUsageOf({
    usage: {
      prompt_tokens: 1_000,
      completion_tokens: 0,
      total_tokens: 1_000,
      prompt_tokens_details: { cached_tokens: 500, ...details },
      ...more,
    },
  });
const written = { prompt_tokens: 400, completion_tokens: 100, cache_creation_input_tokens: 300 };
const byNewApi = { claude_cache_creation_1_h_tokens: 200, claude_cache_creation_5_m_tokens: 100 };
const hourWrites: [vendor: string, usage: Usage | undefined][] = [
  // https://github.com/QuantumNous/new-api/issues/6212
  ["new-api", chatUsageOf({ usage: { ...written, ...byNewApi } })],
  [
    "new-api in messages",
    anthropic({ input_tokens: 100, output_tokens: 100, cache_creation_input_tokens: 300, ...byNewApi }),
  ],
  [
    "Anthropic, in a chat completion",
    chatUsageOf({
      usage: { ...written, cache_creation: { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 200 } },
    }),
  ],
];
const cacheWrites: [vendor: string, usage: Usage | undefined][] = [
  ["OpenAI", cachedChat({ cache_write_tokens: 400 })],
  [
    // https://www.alibabacloud.com/help/en/model-studio/context-cache
    "Qwen",
    cachedChat({
      cache_type: "ephemeral",
      cache_creation_input_tokens: 400,
      cache_creation: { ephemeral_5m_input_tokens: 400 },
    }),
  ],
  [
    "Qwen's Responses",
    responsesUsageOf({
      usage: {
        input_tokens: 1_000,
        output_tokens: 0,
        total_tokens: 1_000,
        input_tokens_details: { cached_tokens: 500 },
        x_details: [{ prompt_tokens_details: { cached_tokens: 500, cache_creation_input_tokens: 400 } }],
      },
    }),
  ],
  [
    // https://github.com/BerriAI/litellm/issues/11364
    "LiteLLM",
    cachedChat({ cache_creation_tokens: 400 }, { cache_creation_input_tokens: 400, cache_read_input_tokens: 500 }),
  ],
  ["new-api", cachedChat({ cached_creation_tokens: 400 })],
  // https://github.com/maximhq/bifrost/pull/6500
  ["Bifrost", cachedChat({ cached_tokens: undefined, cached_read_tokens: 500, cached_write_tokens: 400 })],
  // https://github.com/cline/cline/pull/10266
  ["Vercel", cachedChat({}, { cache_creation_input_tokens: 400 })],
  ["Cline", cachedChat({ cached_tokens: 0 }, { cache_read_input_tokens: 500, cache_creation_input_tokens: 400 })],
  [
    "a gateway to DeepSeek",
    cachedChat({ cached_tokens: 0, cache_write_tokens: 400 }, { prompt_cache_hit_tokens: 500 }),
  ],
  [
    // https://github.com/orangeboyChen/codebuddy2api/pull/115
    "Responses with the usage of a chat completion",
    responsesUsageOf({
      usage: { prompt_tokens: 1_000, prompt_tokens_details: { cached_tokens: 500, cache_write_tokens: 400 } },
    }),
  ],
  [
    "a chat completion with the names of Responses beside zeros",
    cachedChat(
      {},
      {
        ...{ prompt_tokens: 0, prompt_tokens_details: null, input_tokens: 1_000 },
        input_tokens_details: { cached_tokens: 500, cache_write_tokens: 400 },
      },
    ),
  ],
];

const cases: [name: string, prices: Prices, usage: Usage | undefined, cost: string][] = [
  [
    // The example of
    // https://platform.claude.com/docs/en/build-with-claude/prompt-caching#1-hour-cache-duration,
    // with the sum of its writes.
    "cache writes of five minutes and of an hour",
    sonnet,
    anthropic({
      input_tokens: 2_048,
      cache_read_input_tokens: 1_800,
      cache_creation_input_tokens: 556,
      output_tokens: 503,
      cache_creation: { ephemeral_5m_input_tokens: 456, ephemeral_1h_input_tokens: 100 },
    }),
    // 2,048 × 3 + 1,800 × 0.3 + 456 × 3.75 + 100 × 6 + 503 × 15 = 16,539 millionths
    "0.016539",
  ],
  ...(["compaction", "advisor_message"] as const).map((type): (typeof cases)[number] => [
    // https://github.com/pydantic/pydantic-ai/issues/5065, with writes and reads of the cache
    `the round "${type}" of Anthropic is not in the totals of its answer`,
    sonnet,
    anthropic(
      { input_tokens: 23_000, output_tokens: 1 },
      {
        input_tokens: 23_000,
        cache_read_input_tokens: 0,
        output_tokens: 1_000,
        iterations: [
          {
            type,
            input_tokens: 100_000,
            cache_read_input_tokens: 70_000,
            cache_creation_input_tokens: 10_000,
            cache_creation: { ephemeral_5m_input_tokens: 4_000, ephemeral_1h_input_tokens: 6_000 },
            output_tokens: 3_500,
          },
          { type: "message", input_tokens: 23_000, output_tokens: 1_000 },
          { type: "fallback_message", input_tokens: 5_000, output_tokens: 700 },
          null,
        ],
      },
    ),
    // 123,000 × 3 + 70,000 × 0.3 + 4,000 × 3.75 + 6,000 × 6 + 4,500 × 15 = 508,500 millionths
    "0.5085",
  ]),
  [
    "an hour's cache writes cost 1.6 times those of five minutes where the catalogue has no price for them",
    sonnetWithoutHours as Prices,
    anthropic({ cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 1_000_000 } }),
    "6",
  ],
  [
    "web searches of Anthropic, reported at the end of a stream",
    sonnet,
    anthropic(
      { input_tokens: 1_000, output_tokens: 1 },
      { output_tokens: 1_000, server_tool_use: { web_search_requests: 3, web_fetch_requests: 2 } },
    ),
    "0.048",
  ],
  [
    "batch, fast and regional answers of Anthropic",
    sonnet,
    anthropic({ input_tokens: 1_000_000, service_tier: "batch", speed: "fast", inference_geo: "us" }),
    "3.3",
  ],
  [
    "searches that OpenAI counts itself",
    gpt,
    responsesUsageOf({
      usage: { input_tokens: 1_000, output_tokens: 100, total_tokens: 1_100 },
      tool_usage: { web_search: { num_requests: 2 } },
      output: [{ type: "web_search_call" }, { type: "web_search_call" }, { type: "web_search_call" }],
    }),
    "0.02225",
  ],
  [
    "hosted tools of a Responses upstream without counts: searches, and not the pages that were opened; each container once",
    gpt,
    responsesUsageOf({
      usage: { input_tokens: 0, output_tokens: 0 },
      output: [
        { type: "web_search_call", action: { type: "search" } },
        { type: "web_search_call", action: { type: "open_page" } },
        { type: "file_search_call" },
        { type: "code_interpreter_call", container_id: "c1" },
        { type: "code_interpreter_call", container_id: "c1" },
      ],
    }),
    "0.0425",
  ],
  [
    "a flex answer of OpenAI",
    gpt,
    responsesUsageOf({ usage: { input_tokens: 1_000_000, output_tokens: 0 }, service_tier: "flex" }),
    "0.625",
  ],
  [
    "reasoning that xAI counts beside the completion, and its searches",
    grok,
    chatUsageOf({
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 100,
        total_tokens: 1_500,
        prompt_tokens_details: { cached_tokens: 200 },
        completion_tokens_details: { reasoning_tokens: 400 },
        server_side_tool_usage_details: { web_search_calls: 1, x_search_calls: 2 },
      },
    }),
    // 800 × 2 + 200 × 0.5 + 500 × 6 = 4,700 millionths, and three searches
    "0.0197",
  ],
  [
    "reasoning inside the completion is not added",
    grok,
    chatUsageOf({
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 500,
        total_tokens: 1_500,
        completion_tokens_details: { reasoning_tokens: 400 },
      },
    }),
    "0.005",
  ],
  [
    // https://discuss.ai.google.dev/t/127400
    "thinking that Google's endpoint for OpenAI's format has in the total alone",
    pricesOf({ inputPerMillion: 1, outputPerMillion: 10, reasoningPerMillion: 10 }),
    chatUsageOf({
      model: "gemini-3-flash-preview",
      usage: { completion_tokens: 3, prompt_tokens: 9, total_tokens: 105 },
    }),
    "0.000969",
  ],
  [
    "a total of another model that is larger than its parts",
    pricesOf({ inputPerMillion: 1, outputPerMillion: 10 }),
    chatUsageOf({ model: "claude-sonnet-5", usage: { completion_tokens: 3, prompt_tokens: 9, total_tokens: 105 } }),
    "0.000039",
  ],
  [
    // https://github.com/QuantumNous/new-api/issues/5005
    "tokens from the cache beside the prompt",
    pricesOf({ inputPerMillion: 1, cachedInputPerMillion: 0.1, outputPerMillion: 5 }),
    chatUsageOf({
      usage: { prompt_tokens: 56_322, completion_tokens: 87, prompt_tokens_details: { cached_tokens: 72_960 } },
    }),
    // 56,322 × 1 + 72,960 × 0.1 + 87 × 5
    "0.064053",
  ],
  [
    "tokens of the cache that the total has, and the prompt has not",
    pricesOf({ inputPerMillion: 1, cachedInputPerMillion: 0.1, cacheWritePerMillion: 1.25, outputPerMillion: 5 }),
    chatUsageOf({
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 100,
        total_tokens: 1_600,
        prompt_tokens_details: { cached_tokens: 300, cache_write_tokens: 200 },
      },
    }),
    // 1,000 × 1 + 300 × 0.1 + 200 × 1.25 + 100 × 5
    "0.00178",
  ],
  [
    "the cache in Anthropic's names alone, beside the prompt",
    pricesOf({ inputPerMillion: 1, cacheWritePerMillion: 1.25, outputPerMillion: 5 }),
    chatUsageOf({ usage: { input_tokens: 100, output_tokens: 100, cache_creation_input_tokens: 300 } }),
    // 100 × 1 + 300 × 1.25 + 100 × 5
    "0.000975",
  ],
  ...hourWrites.map(([vendor, usage]): (typeof cases)[number] => [
    `writes for an hour as ${vendor} names them`,
    pricesOf({ inputPerMillion: 1, cacheWritePerMillion: 1.25, outputPerMillion: 5 }),
    usage,
    // 100 × 1 + 100 × 1.25 + 200 × 2 + 100 × 5
    "0.001125",
  ]),
  [
    // https://openrouter.ai/docs/client-sdks/typescript/models/sttusage
    "a transcript with a duration that is billed by its tokens",
    pricesOf({ inputPerMillion: 2.5, outputPerMillion: 10, perAudioSecond: 1 }),
    audioUsageOf({ seconds: 9.2, total_tokens: 113, input_tokens: 83, output_tokens: 30, cost: 0.000508 }),
    "0.0005075",
  ],
  [
    // https://github.com/pydantic/genai-prices/pull/591
    "audio that Mistral has in the total alone",
    pricesOf({ inputPerMillion: 1, audioInputPerMillion: 4, outputPerMillion: 10 }),
    chatUsageOf({
      model: "voxtral-small-latest",
      usage: {
        prompt_audio_seconds: 30,
        prompt_tokens: 3,
        completion_tokens: 1,
        total_tokens: 379,
        prompt_tokens_details: { cached_tokens: 0 },
      },
    }),
    // 3 × 1 + 375 × 4 + 1 × 10
    "0.001513",
  ],
  [
    "a transcript of Mistral by its seconds",
    pricesOf({ inputPerMillion: 1, perAudioSecond: 0.00005 }),
    audioUsageOf({
      prompt_audio_seconds: 12,
      prompt_tokens: 3,
      total_tokens: 419,
      completion_tokens: 41,
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 375 },
    }),
    "0.0006",
  ],
  [
    // https://github.com/maximhq/bifrost/issues/4239
    "search units of a ranking",
    pricesOf({ perSearchUnit: 0.002 }),
    ranking({ search_units: 3 }),
    "0.006",
  ],
  ["a ranking with a price per request", pricesOf({ perRequest: 0.002 }), ranking({ search_units: 3 }), "0.002"],
  ...[{ output_tokens_details: { image_tokens: 7_024 } }, {}].map((details): (typeof cases)[number] => [
    // https://github.com/Wei-Shaw/sub2api/issues/1999
    `pictures that OpenAI's own tool made, ${Object.keys(details).length === 0 ? "without" : "with"} details`,
    pricesOf({ inputPerMillion: 1, imageInputPerMillion: 8, outputPerMillion: 10, imageOutputPerMillion: 30 }),
    responsesUsageOf({
      output: [],
      usage: { input_tokens: 1_820, output_tokens: 210, total_tokens: 2_030 },
      tool_usage: {
        image_gen: {
          input_tokens: 300,
          input_tokens_details: { image_tokens: 200, text_tokens: 100 },
          output_tokens: 7_024,
          total_tokens: 7_324,
          ...details,
        },
        web_search: { num_requests: 0 },
      },
    }),
    // 1,920 × 1 + 200 × 8 + 210 × 10 + 7,024 × 30
    "0.21634",
  ]),
  [
    "SGLang's reasoning is a part of the completion",
    pricesOf({ outputPerMillion: 10, reasoningPerMillion: 3 }),
    chatUsageOf({
      usage: { prompt_tokens: 0, completion_tokens: 1_000, total_tokens: 1_000, reasoning_tokens: 600 },
    }),
    "0.0058",
  ],
  [
    // https://docs.perplexity.ai/guides/pricing#detailed-pricing-breakdown-for-sonar-deep-research,
    // with the usage of https://github.com/bgeneto/open-webui-cost-tracker/issues/6
    "Perplexity's citations, reasoning and searches beside prompt and completion",
    pricesOf({ inputPerMillion: 2, outputPerMillion: 8, reasoningPerMillion: 3, perWebSearch: 0.005 }),
    chatUsageOf({
      usage: {
        prompt_tokens: 108,
        completion_tokens: 3_256,
        total_tokens: 3_364,
        citation_tokens: 7_299,
        num_search_queries: 74,
        reasoning_tokens: 73_248,
      },
    }),
    // 7,407 × 2 + 3,256 × 8 + 73,248 × 3 = 260,606 millionths, and 74 searches
    "0.630606",
  ],
  ...cacheWrites.map(([vendor, usage]): (typeof cases)[number] => [
    `cache writes of ${vendor}`,
    pricesOf({ inputPerMillion: 1, cachedInputPerMillion: 0.1, cacheWritePerMillion: 1.25, outputPerMillion: 0 }),
    usage,
    // 100 × 1 + 500 × 0.1 + 400 × 1.25
    "0.00065",
  ]),
  [
    "an hour's cache writes of Qwen",
    pricesOf({ inputPerMillion: 1, cacheWritePerMillion: 1.25, cacheWrite1hPerMillion: 2 }),
    chatUsageOf({
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 0,
        prompt_tokens_details: {
          cache_creation_input_tokens: 1_000,
          cache_creation: { ephemeral_5m_input_tokens: 400, ephemeral_1h_input_tokens: 600 },
        },
      },
    }),
    "0.0017",
  ],
  [
    "DeepSeek's tokens from the cache",
    pricesOf({ inputPerMillion: 1, cachedInputPerMillion: 0.1, outputPerMillion: 2 }),
    chatUsageOf({
      usage: {
        prompt_tokens: 1_000,
        completion_tokens: 0,
        prompt_cache_hit_tokens: 600,
        prompt_cache_miss_tokens: 400,
      },
    }),
    "0.00046",
  ],
  [
    // 0.039 for an image of 1,290 tokens:
    // https://ai.google.dev/gemini-api/docs/pricing#gemini-2.5-flash-image
    "an image of Gemini, and the text beside it",
    flashImage,
    gemini({
      usageMetadata: {
        promptTokenCount: 0,
        candidatesTokenCount: 1_300,
        totalTokenCount: 1_300,
        candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1_290 }],
      },
    }),
    "0.038725",
  ],
  [
    "thinking that is a part of Gemini's answer",
    flash,
    gemini({
      usageMetadata: {
        promptTokenCount: 1_000,
        candidatesTokenCount: 500,
        thoughtsTokenCount: 200,
        totalTokenCount: 1_500,
      },
    }),
    "0.00155",
  ],
  [
    "a grounded prompt of Gemini 2.5 is one search, however many queries it took",
    flash,
    gemini(grounded("gemini-2.5-flash", ["a", "b"])),
    "0.0378",
  ],
  ["each query of a newer Gemini is a search", flash, gemini(grounded("gemini-3.8-flash", ["a", "b"])), "0.0728"],
  [
    "searches stay counted when a later event has the usage",
    flash,
    gemini(grounded("gemini-3.8-flash", ["a"]), {
      usageMetadata: { promptTokenCount: 1_000, candidatesTokenCount: 1_000, totalTokenCount: 2_000 },
    }),
    "0.0378",
  ],
  [
    "places of a map",
    flash,
    gemini(grounded("gemini-2.5-flash", [], [{ maps: { uri: "https://maps.example" } }])),
    "0.0278",
  ],
  [
    "Vertex AI's priority traffic",
    pricesOf({ inputPerMillion: 1, serviceTiers: { priority: 1.8 } }),
    gemini({ usageMetadata: { promptTokenCount: 1_000_000, trafficType: "ON_DEMAND_PRIORITY" } }),
    "1.8",
  ],
  [
    "speech, pictures and cached speech of a session",
    audio,
    realtime({
      total_tokens: 2_000,
      input_tokens: 1_000,
      output_tokens: 1_000,
      input_token_details: {
        text_tokens: 400,
        audio_tokens: 400,
        image_tokens: 200,
        cached_tokens: 300,
        cached_tokens_details: { text_tokens: 100, audio_tokens: 200, image_tokens: 0 },
      },
      output_token_details: { text_tokens: 100, audio_tokens: 900 },
    }),
    // 300 × 4 + 200 × 32 + 200 × 5 + 100 × 0.4 + 200 × 0.2 + 100 × 16 + 900 × 64 = 67,880
    // millionths
    "0.06788",
  ],
  [
    "the images that an image model was given, and those that it made",
    pricesOf({ inputPerMillion: 5, imageInputPerMillion: 8, outputPerMillion: 30 }),
    images({
      input_tokens: 300,
      output_tokens: 1_000,
      total_tokens: 1_300,
      input_tokens_details: { text_tokens: 100, image_tokens: 200 },
    }),
    "0.0321",
  ],
  [
    // https://github.com/BerriAI/litellm/issues/31142
    "the output of an image model is images, where nothing says otherwise",
    pricesOf({ inputPerMillion: 5, outputPerMillion: 10, imageOutputPerMillion: 30 }),
    images({ input_tokens: 100, output_tokens: 1_000, total_tokens: 1_100 }),
    "0.0305",
  ],
  [
    "the text that an image model wrote costs as much as text",
    pricesOf({ inputPerMillion: 5, outputPerMillion: 10, imageOutputPerMillion: 30 }),
    images({
      input_tokens: 100,
      output_tokens: 1_000,
      total_tokens: 1_100,
      output_tokens_details: { image_tokens: 900, text_tokens: 100 },
    }),
    "0.0285",
  ],
  [
    "an image with a price of its own costs no tokens besides, also where those of text are free",
    pricesOf({ inputPerMillion: 5, outputPerMillion: 0, imageOutputPerMillion: 30, images: [{ price: 0.04 }] }),
    images({ input_tokens: 100, output_tokens: 1_000, total_tokens: 1_100 }),
    "0.0405",
  ],
  [
    "seconds of audio",
    pricesOf({ inputPerMillion: 4, perAudioSecond: 0.0001 }),
    audioUsageOf({ type: "duration", seconds: 60 }),
    "0.006",
  ],
  [
    "seconds of audio without a price of their own are tokens",
    pricesOf({ inputPerMillion: 4 }),
    audioUsageOf({ type: "duration", seconds: 60 }),
    "0.006",
  ],
];

const billOf = (prices: Prices, usage: Usage | undefined, at?: number) =>
  priced(
    { groups: new Map(), version: "v" },
    "default",
    { id: "m", prices },
    usage ?? assert.fail("there is no usage"),
    at,
  );

for (const [name, prices, usage, cost] of cases)
  test(`billed: ${name}`, () => {
    const bill = billOf(prices, usage);
    assert.equal(unitsOf(bill.cost), cost);
    assert.deepEqual(unpricedUnitsOf(bill.unitPrices), []);
    const record = usageRecord(billedFields(bill, undefined));
    assert.deepEqual(decodeUsageRecord(JSON.parse(encodeUsageRecord(record))), record);
  });

const cachePrices = pricesOf({ inputPerMillion: 3, cachedInputPerMillion: 0.3, cacheWritePerMillion: 3.75 });
const savings: [name: string, usage: object, saving: string | null][] = [
  ["what was read", { input_tokens: 10, cache_read_input_tokens: 1_000_000 }, "2.7"],
  ["writes cost more than they save", { input_tokens: 10, cache_creation_input_tokens: 1_000_000 }, "-0.75"],
  [
    "a write for an hour costs twice the input",
    {
      input_tokens: 10,
      cache_creation_input_tokens: 1_000_000,
      cache_creation: { ephemeral_5m_input_tokens: 0, ephemeral_1h_input_tokens: 1_000_000 },
    },
    "-3",
  ],
  ["both", { input_tokens: 10, cache_read_input_tokens: 1_000_000, cache_creation_input_tokens: 200_000 }, "2.55"],
  ["no cache", { input_tokens: 10 }, null],
];

for (const [name, usage, saving] of savings)
  test(`saved by the cache: ${name}`, () => {
    const { cacheSaving } = billedFields(billOf(cachePrices, anthropic(usage)), undefined);
    assert.equal(cacheSaving && unitsOf(BigInt(cacheSaving)), saving);
  });

test("a price that the catalogue does not know is null in the record, and not zero", () => {
  const usage = anthropic({ input_tokens: 1, server_tool_use: { web_search_requests: 3 } });
  const bill = billOf(pricesOf({ inputPerMillion: 1 }), usage);
  assert.deepEqual(unpricedUnitsOf(bill.unitPrices), ["webSearches"]);
  const { otherUnits } = billedFields(bill, undefined);
  assert.deepEqual(otherUnits, [["webSearches", 3, null]]);
  assert.equal(isPartial(otherUnits), true, "the cost leaves them out");
  assert.equal(isPartial([["webSearches", 3, 5]]), false);
  assert.equal(isPartial([["imageInputTokens", 3, null]]), false, "they cost as much as other input");
  assert.equal(isPartial(null), false);
  const costAt = (prices: Partial<Prices>) => {
    const route = [{ upstream: "u", model: "m", prices: pricesOf(prices) }];
    return upstreamCostOf({ route }, { upstream: "u", target: "m" }, bill.usage, 0);
  };
  assert.equal(costAt({ inputPerMillion: 1 }), undefined, "an upstream's cost is unknown without one of its prices");
  assert.equal(costAt({ inputPerMillion: 1, perWebSearch: 0.01 }), 30_001_000n);
});

test("prices begin and end at a moment, and differ by the time of day", () => {
  const prices = pricesOf({
    inputPerMillion: 0.75,
    periods: [
      { from: "2027-01-01", inputPerMillion: 1.5 },
      { hours: "16:30-00:30", ratio: 0.5 },
      { from: "2026-06-01T12:00:00Z", until: "2026-06-02T12:00:00Z", inputPerMillion: 0.1 },
    ],
  });
  const usage = chatUsageOf({ usage: { prompt_tokens: 1_000_000, completion_tokens: 0 } });
  const at = (moment: string) => unitsOf(billOf(prices, usage, Date.parse(moment)).cost);
  for (const [moment, cost] of [
    ["2026-12-31T12:00:00Z", "0.75"],
    ["2026-12-31T16:29:59Z", "0.75"],
    ["2026-12-31T16:30:00Z", "0.375"],
    ["2026-12-31T23:59:59Z", "0.375"],
    ["2027-01-01T00:00:00Z", "0.75"],
    ["2027-01-01T00:30:00Z", "1.5"],
    ["2026-06-01T11:59:59Z", "0.75"],
    ["2026-06-01T12:00:00Z", "0.1"],
    ["2026-06-02T11:59:59Z", "0.1"],
    ["2026-06-02T12:00:00Z", "0.75"],
  ] as const)
    assert.equal(at(moment), cost, moment);
  assert.equal(unitsOf(billOf(prices, usage).cost), "0.75", "without a moment no period applies");
});

test("the API names every unit", () => {
  assert.deepEqual(unitKinds, unitNames);
});

test("units never exceed the tokens that contain them", () => {
  const usage = gemini({
    usageMetadata: {
      promptTokenCount: 10,
      candidatesTokenCount: 10,
      thoughtsTokenCount: 4,
      promptTokensDetails: [{ modality: "IMAGE", tokenCount: 1e15 }],
      candidatesTokensDetails: [{ modality: "IMAGE", tokenCount: 1e15 }],
    },
  });
  assert.deepEqual(usage?.units, { imageInputTokens: 10, imageOutputTokens: 10 });
});
