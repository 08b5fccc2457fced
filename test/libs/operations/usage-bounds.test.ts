import assert from "node:assert/strict";
import { test } from "node:test";
import { plainUsageOf, plausible, type Usage } from "#dialects/usage.ts";
import { type OperationName, operations } from "#operations/operations.ts";
import { GeminiSession } from "#operations/realtime/gemini-session.ts";
import { OpenaiSession } from "#operations/realtime/openai-session.ts";
import { usageBoundsOf } from "#operations/usage-bounds.ts";

const model = { contextWindow: 10_000, outputTokensMax: 1_000 };
const much = 9e15;
const everything: Usage = {
  inputTokens: much,
  cachedInputTokens: much,
  cacheWriteTokens: much,
  outputTokens: much,
  reasoningTokens: much,
  audioInputTokens: much,
  audioOutputTokens: much,
  units: {
    cacheWrite1hTokens: much,
    cachedAudioTokens: much,
    imageInputTokens: much,
    imageOutputTokens: much,
    webSearches: much,
    mapSearches: much,
    fileSearches: much,
    codeSessions: much,
    searchUnits: much,
    audioSeconds: much,
  },
  images: { count: much },
};

/** An absurd report for this request, as it is billed. */
function cappedFor(
  operation: OperationName,
  body: Record<string, unknown>,
  report: Usage = everything,
  limits: object = model,
) {
  const demand = operations[operation].demandOf(body, body.contents === undefined ? "openai-chat" : "gemini");
  return plausible(report, usageBoundsOf(limits, demand));
}

test("an absurd report is billed as the most that the model and the request allow, in every kind of unit", () => {
  const { units, images, ...tokens } = cappedFor("answer", { messages: [] });
  assert.deepEqual(tokens, {
    inputTokens: 10_000,
    cachedInputTokens: 10_000,
    cacheWriteTokens: 0,
    outputTokens: 1_000,
    reasoningTokens: 1_000,
    isCapped: true,
  });
  assert.deepEqual(units, {
    cachedAudioTokens: 10_000,
    webSearches: 100,
    mapSearches: 100,
    fileSearches: 100,
    codeSessions: 100,
    searchUnits: 100,
    audioSeconds: 7_200,
  });
  assert.equal(images?.count, 1_000);
  const written = { ...everything, cachedInputTokens: 0, reasoningTokens: 0 };
  assert.deepEqual(cappedFor("answer", {}, written).units?.cacheWrite1hTokens, 10_000);
  const heard = { ...everything, cachedInputTokens: 0, cacheWriteTokens: 0, reasoningTokens: 0 };
  const audio = cappedFor("answer", {}, heard);
  assert.deepEqual([audio.audioInputTokens, audio.audioOutputTokens], [10_000, 1_000]);
  const seen = { ...heard, audioInputTokens: 0, audioOutputTokens: 0 };
  const { imageInputTokens, imageOutputTokens } = cappedFor("answer", {}, seen).units ?? {};
  assert.deepEqual([imageInputTokens, imageOutputTokens], [10_000, 1_000]);
});

const hosted = [{ type: "web_search" }];
const own = [
  { type: "function", function: { name: "f" } },
  { type: "custom", name: "g" },
];
/** The tokens of an absurd report, by what the request asks for. */
const absurdReports: [operation: OperationName, body: Record<string, unknown>, input: number, output: number][] = [
  ["answer", {}, 10_000, 1_000],
  ["answer", { context_management: { edits: [{ type: "compact_20260112" }] } }, 320_000, 1_000],
  ["answer", { context_management: [{ type: "compaction", compact_threshold: 5_000 }] }, 320_000, 1_000],
  ["answer", { context_management: { edits: [{ type: "clear_thinking_20251015" }] } }, 10_000, 1_000],
  ["answer", { max_tokens: 5 }, 10_000, 1_000],
  ["answer", { n: 3 }, 30_000, 3_000],
  ["answer", { contents: [], generationConfig: { candidateCount: 3 } }, 30_000, 3_000],
  ["answer", { tools: own }, 10_000, 1_000],
  ["answer", { tools: [{ name: "f", input_schema: {} }] }, 10_000, 1_000],
  ["answer", { contents: [], tools: [{ functionDeclarations: [] }] }, 10_000, 1_000],
  ["answer", { tools: [...own, ...hosted] }, 320_000, 1_000],
  ["answer", { tools: [{ type: "web_search_20250305", name: "web_search" }] }, 320_000, 1_000],
  ["answer", { contents: [], tools: [{ googleSearch: {} }] }, 320_000, 1_000],
  ["answer", { web_search_options: {} }, 320_000, 1_000],
  ["completion", { prompt: ["a", "b"], n: 2 }, 40_000, 4_000],
  ["embedding", { input: Array(2_000).fill("a") }, 20_000_000, 1_000],
  ["moderation", { input: ["a", "b"] }, 20_000, 1_000],
  ["rerank", { documents: Array(50).fill("a") }, 500_000, 1_000],
  ["speech", { input: "a".repeat(4_000) }, 96_000, 1_000],
  ["transcription", { file: { size: 16_000_000 } }, 600_000, 4_000],
  ["image-generation", { n: 2, size: "1024x1024", quality: "low" }, 20_000, 2_000],
  ["image-generation", { n: 2, size: "1024x1024", quality: "high" }, 20_000, 8_320],
  ["image-generation", { size: "2048*2048", quality: "high" }, 10_000, 16_640],
  ["image-generation", { size: "2K", quality: "high" }, 10_000, 16_640],
  [
    "image-generation",
    { sequential_image_generation_options: { max_images: 3 }, size: "1024x1024", quality: "high" },
    30_000,
    12_480,
  ],
];

test("tokens are bounded by the window and the longest answer, for each choice, prompt and round", () => {
  for (const [operation, body, input, output] of absurdReports) {
    const { inputTokens, outputTokens } = cappedFor(operation, body);
    assert.deepEqual([inputTokens, outputTokens], [input, output], `${operation} ${JSON.stringify(body).slice(0, 80)}`);
  }
  const unknown = cappedFor("answer", {}, everything, {});
  assert.deepEqual([unknown.inputTokens, unknown.outputTokens], [2_000_000, 2_000_000]);
  assert.equal(cappedFor("transcription", { file: { size: 160_000 } }).units?.audioSeconds, 240);
  assert.equal(cappedFor("image-generation", { n: 2 }).images?.count, 2);
  assert.equal(cappedFor("answer", { tools: hosted }).units?.webSearches, 1_000);
});

test("a report within the bounds is billed as it is", () => {
  const usage: Usage = { ...plainUsageOf(10_000, 1_000), units: { webSearches: 3 }, images: { count: 1 } };
  assert.deepEqual(cappedFor("answer", {}, usage), usage);
});

test("each answer of a session is bounded by itself", () => {
  const bounds = usageBoundsOf(model, { choices: 1, mediaTokens: undefined, attachedTokens: 0 });
  const openai = new OpenaiSession("ours", bounds);
  openai.read(Buffer.from('{"type":"session.created","session":{}}'));
  const usage = { input_tokens: much, output_tokens: much };
  for (let count = 0; count < 2; count++)
    openai.read(Buffer.from(JSON.stringify({ type: "response.done", response: { usage } })));
  assert.deepEqual(
    [openai.usage?.inputTokens, openai.usage?.outputTokens, openai.usage?.isCapped],
    [20_000, 2_000, true],
  );
  const gemini = new GeminiSession(bounds);
  const usageMetadata = { promptTokenCount: much, responseTokenCount: much };
  for (let count = 0; count < 2; count++)
    gemini.read(Buffer.from(JSON.stringify({ usageMetadata, serverContent: { turnComplete: true } })));
  assert.deepEqual(
    [gemini.usage?.inputTokens, gemini.usage?.outputTokens, gemini.usage?.isCapped],
    [20_000, 2_000, true],
  );
});
