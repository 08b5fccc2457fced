/**
 * Rich requests of the endpoints of embeddings, pictures, moderation, rankings, completions and
 * speech.
 */
import type { Body, RichRequest } from "./rich-request.ts";

const embeddingModels = ["embedding", "gemini-embedding"];
const googleEmbeddingModels = embeddingModels.toReversed();

export const embeddings: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/embeddings",
  models: embeddingModels,
  alsoGood: /^input string$/,
  bodyOf: (model) => ({ model, input: ["a", "b"], dimensions: 8, encoding_format: "float", user: "u1" }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["input", [], "", [[]], [[1.5]], [["a"]], [-1], [1, "a"], Array(3_000).fill("a")],
    ["dimensions", 0, 1.5, 1e9],
    ["encoding_format", "hex"],
  ],
  unsuitable: [["input", [1, 2], Array(150).fill("a")]],
};

const wanted = (): Body => ({
  content: { role: "user", parts: [{ text: "a" }] },
  taskType: "RETRIEVAL_QUERY",
  title: "t",
  outputDimensionality: 8,
});

export const embedContent: RichRequest = {
  dialect: "gemini",
  pathOf: (model) => `/v1beta/models/${model}:embedContent`,
  models: googleEmbeddingModels,
  opaque: /\.role$/,
  bodyOf: (model) => ({ model: `models/${model}`, ...wanted() }),
  outOfRange: [
    ["content.parts", []],
    ["outputDimensionality", 0, 1.5, 1e9],
    ["requests", []],
  ],
  unsuitable: [["content.parts[0]", {}, { inlineData: { mimeType: "image/png", data: "aaaa" } }]],
};

export const batchEmbedContents: RichRequest = {
  ...embedContent,
  pathOf: (model) => `/v1beta/models/${model}:batchEmbedContents`,
  bodyOf: (model) => ({ requests: [1, 2].map(() => ({ model: `models/${model}`, ...wanted() })) }),
  outOfRange: [["requests", []]],
  unsuitable: [["requests[1].outputDimensionality", 9]],
};

export const imageGenerations: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/images/generations",
  models: ["picture", "gemini-picture"],
  bodyOf: (model) => ({
    model,
    prompt: "a cat",
    n: 1,
    size: "1024x1024",
    quality: "low",
    background: "auto",
    output_format: "png",
    output_compression: 100,
    moderation: "auto",
    partial_images: 0,
    stream: false,
    response_format: "b64_json",
    user: "u1",
    safety_identifier: "u1",
    style: "vivid",
  }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["prompt", "", "x".repeat(32_001)],
    ["n", 0, 11, 1.5],
    ["size", "big", "0x0", "1024"],
    ["output_compression", -1, 101],
    ["partial_images", 4, -1],
    ["response_format", "file"],
    ["safety_identifier", "x".repeat(129)],
  ],
  unsuitable: [
    ["n", 2],
    ["background", "transparent"],
    ["output_compression", 50],
    ["response_format", "url"],
  ],
};

export const moderations: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/moderations",
  models: ["moderation"],
  alsoGood: /^input string$/,
  bodyOf: (model) => ({
    model,
    input: [
      { type: "text", text: "a" },
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0KGgo=" } },
    ],
  }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["input", [], [[1]], [{}], [{ type: "audio" }], [{ type: "text" }], [{ type: "image_url", image_url: {} }]],
    ["input[0].type", "sound"],
    ["input[1].image_url", "https://example.com/a.png"],
  ],
};

export const rerank: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v2/rerank",
  models: ["reranker", "cohere-reranker"],
  alsoGood: /^documents\[\d\] (string|object)$/,
  bodyOf: (model) => ({
    model,
    query: "a",
    documents: ["a", { text: "b" }],
    top_n: 1,
    return_documents: false,
    max_tokens_per_doc: 100,
    priority: 0,
  }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["query", ""],
    ["documents", [], [1], [[]], [{ image: "http://10.0.0.1/a.png" }], Array(10_001).fill("a")],
    ["documents[1]", {}, { text: "a", image: "http://10.0.0.1/a.png" }],
    ["top_n", 0, -1, 1.5],
    ["max_tokens_per_doc", 0],
    ["priority", 1_000],
  ],
};

export const completions: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/completions",
  models: ["completing", "gemini-text"],
  alsoGood: /^(prompt|stop) string$/,
  opaque: /^logit_bias\./,
  bodyOf: (model) => ({
    model,
    prompt: ["a"],
    suffix: "",
    max_tokens: 5,
    temperature: 1,
    top_p: 1,
    n: 1,
    best_of: 1,
    stream: false,
    echo: false,
    stop: ["b"],
    presence_penalty: 0,
    frequency_penalty: 0,
    logit_bias: {},
    seed: 1,
    user: "u1",
  }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["prompt", [], [{}], [[-1]], [1.5], Array(3_000).fill("a")],
    ["max_tokens", -1, 1.5],
    ["n", 0, 1_001],
    ["temperature", -1, 3],
    ["logprobs", -1],
  ],
  unsuitable: [
    ["prompt", ["a", "b"], [1, 2]],
    ["suffix", "x"],
    ["best_of", 2],
    ["echo", true],
    ["logprobs", 1],
  ],
};

export const speech: RichRequest = {
  dialect: "openai-chat",
  pathOf: () => "/v1/audio/speech",
  models: ["speaker"],
  alsoGood: /^voice object$/,
  bodyOf: (model) => ({
    model,
    input: "a",
    voice: "alloy",
    instructions: "slowly",
    response_format: "mp3",
    speed: 1,
    stream_format: "audio",
  }),
  outOfRange: [
    ["model", "", "x".repeat(300)],
    ["input", ""],
    ["voice", {}, { name: "a" }],
    ["speed", 0, 5],
    ["stream_format", "wav"],
  ],
};
