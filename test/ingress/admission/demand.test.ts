import assert from "node:assert/strict";
import { test } from "node:test";
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import { type OperationName, operations } from "#operations/operations.ts";
import { answerBytesMaxOf, estimatedUsageOf, type LimitedRequest } from "../../../apps/ingress/admission/estimate.ts";

const model = { id: "m", outputTokensMax: 8_000, contextWindow: 100_000 } as CatalogueModel;

const dialectOf = (body: Record<string, unknown>) =>
  body.contents !== undefined || body.generationConfig !== undefined || body.generation_config !== undefined
    ? "gemini"
    : body.input !== undefined || body.max_output_tokens !== undefined
      ? "openai-responses"
      : "openai-chat";

/** The estimate for a body of 400 bytes. */
function estimateOf(body: Record<string, unknown>, operation: OperationName = "answer", bodyBytes = 400) {
  const demand = operations[operation].demandOf(body, dialectOf(body));
  const request = { endpoint: { operation }, demand };
  return estimatedUsageOf({ request, admitted: { model }, bodyBytes } as LimitedRequest);
}
function reservedFor(...args: Parameters<typeof estimateOf>) {
  const { inputTokens, outputTokens } = estimateOf(...args);
  return { inputTokens, outputTokens };
}
const outputOf = (...args: Parameters<typeof reservedFor>) => reservedFor(...args).outputTokens;
const inputOf = (...args: Parameters<typeof reservedFor>) => reservedFor(...args).inputTokens;

test("an answer's estimated length is the caller's bound in any dialect, or a thousand tokens, and never more than the model's maximum", () => {
  assert.equal(outputOf({}), 1_000);
  for (const body of [
    { max_tokens: 50 },
    { max_completion_tokens: 50 },
    { max_output_tokens: 50 },
    { generationConfig: { maxOutputTokens: 50 } },
    { generation_config: { max_output_tokens: 50 } },
  ])
    assert.equal(outputOf(body), 50, JSON.stringify(body));
  assert.equal(outputOf({ max_tokens: 1_000_000 }), 8_000);
  for (const nothing of [null, -1, 0, 1.5, "50", {}])
    assert.equal(outputOf({ max_tokens: nothing }), 1_000, JSON.stringify(nothing));
});

test("the estimate includes every choice in full, in any dialect", () => {
  assert.equal(outputOf({ n: 100, max_tokens: 50 }), 5_000);
  assert.equal(outputOf({ generationConfig: { candidateCount: 8 } }), 8_000);
  assert.equal(outputOf({ generation_config: { candidate_count: 8, max_output_tokens: 10 } }), 80);
  assert.equal(outputOf({ n: 3, max_tokens: 1_000_000 }), 24_000);
  assert.equal(outputOf({ n: Number.MAX_SAFE_INTEGER, max_tokens: 1 }), 1_000);
  for (const nothing of [null, 0, -5, "7"]) assert.equal(outputOf({ n: nothing }), 1_000, JSON.stringify(nothing));
});

test("the estimate for images depends on their number, size and quality", () => {
  const pictures = (body: Record<string, unknown>) => outputOf({ prompt: "a cat", ...body }, "image-generation");
  assert.equal(pictures({ size: "1024x1024", quality: "low" }), 272);
  assert.equal(pictures({ size: "1024x1536", quality: "medium" }), 1_584);
  assert.equal(pictures({ size: "1536x1024", quality: "high", n: 10 }), 62_400);
  assert.equal(pictures({}), 6_240);
  assert.equal(pictures({ size: "auto", quality: "auto", n: null, stream: true, partial_images: 3 }), 6_540);
  assert.equal(pictures({ size: "99999x99999", quality: "max", n: 10 }), 80_000);
  assert.equal(pictures({ size: "1024x1024", quality: "low", frame_count: 16 }), 16 * 272);
  assert.equal(pictures({ size: "1024x1024", quality: "low", max_tokens: 1 }), 272);
});

test("the estimate for images has what their price depends on", () => {
  const imagesOf = (body: Record<string, unknown>) =>
    estimateOf({ prompt: "a cat", ...body }, "image-generation").images;
  assert.deepEqual(imagesOf({ n: 3, size: "1024x1024", quality: "low" }), {
    count: 3,
    size: "1024x1024",
    quality: "low",
  });
  assert.deepEqual(imagesOf({ size: "auto", quality: "auto" }), { count: 1 });
  assert.equal(estimateOf({}).images, undefined);
});

test("files in base64 count by their kind, whatever their bytes, in every form", () => {
  const bytes = 720_000;
  const base64 = "A".repeat(bytes);
  const [png, pdf, wav] = ["image/png", "application/pdf", "audio/wav"].map((type) => `data:${type};base64,${base64}`);
  const chat = (...content: object[]) => ({
    messages: [{ role: "user", content: [{ type: "text", text: "x" }, ...content] }],
  });
  const responses = (...content: object[]) => ({ input: [{ role: "user", content }] });
  const gemini = (...parts: object[]) => ({ contents: [{ role: "user", parts }] });
  const source = (media_type: string) => ({ type: "base64", media_type, data: base64 });
  const [image, document, recording] = [2_000, bytes / 32, Math.ceil(bytes / 256)];
  const forms: [body: Record<string, unknown>, tokens: number, count?: number][] = [
    [chat({ type: "image_url", image_url: { url: png } }), image],
    [chat({ type: "image_url", image_url: png }), image],
    [chat({ type: "image", source: source("image/jpeg") }), image],
    [chat({ type: "document", source: source("application/pdf") }), document],
    [chat({ type: "tool_result", content: [{ type: "image", source: source("image/jpeg") }] }), image],
    [chat({ type: "input_audio", input_audio: { data: base64, format: "wav" } }), recording],
    [chat({ type: "audio_url", audio_url: { url: wav } }), recording],
    [chat({ type: "file", file: { filename: "a.pdf", file_data: pdf } }), document],
    [chat({ type: "file", file: { filename: "a.pdf", file_data: base64 } }), document],
    [{ messages: [{ role: "user", content: "x", images: [base64, base64] }] }, 2 * image, 2],
    [responses({ type: "input_image", image_url: png }), image],
    [responses({ type: "input_file", file_data: pdf, filename: "a.pdf" }), document],
    [{ input: [{ type: "image_generation_call", result: base64 }] }, image],
    [{ input: [{ type: "function_call_output", output: [{ type: "input_image", image_url: png }] }] }, image],
    [{ input: [{ type: "computer_call_output", output: { type: "computer_screenshot", image_url: png } }] }, image],
    [gemini({ inlineData: { mimeType: "image/png", data: base64 } }), image],
    [gemini({ inline_data: { mime_type: "audio/mp3", data: base64 } }), recording],
    [gemini({ inlineData: { mimeType: "application/pdf", data: base64 } }), document],
  ];
  const around = 400;
  for (const [body, tokens, count = 1] of forms) {
    const name = JSON.stringify(body).replaceAll(base64, "…");
    assert.equal(inputOf(body, "answer", around + count * bytes), Math.min(100_000, around / 4 + tokens), name);
  }
});

test("base64 in a text, and a document of text, count as text", () => {
  const text = "A".repeat(4_000);
  for (const content of [
    `data:image/png;base64,${text}`,
    [{ type: "text", text: `data:image/png;base64,${text}` }],
    [{ type: "document", source: { type: "text", media_type: "text/plain", data: text } }],
    [{ type: "document", source: { type: "base64", media_type: "text/plain", data: text } }],
    [{ type: "tool_use", id: "c", name: "f", input: { data: text, result: text } }],
    [{ type: "image_url", image_url: 1 }, { type: "input_audio", input_audio: { data: 1 } }, { inlineData: null }],
  ])
    assert.equal(inputOf({ messages: [{ role: "user", content }] }, "answer", 4_400), 1_100, JSON.stringify(content));
});

test("the images of an edit count as input, whatever the size of the form", () => {
  const edit = {
    prompt: "a cat",
    image: ["image/png", "image/webp"],
    mask: "image/png",
    size: "1024x1024",
    quality: "low",
    n: 2,
  };
  assert.deepEqual(reservedFor(edit, "image-edit", 30_000_000), {
    inputTokens: 1_000 + 3 * 6_240,
    outputTokens: 2 * 272,
  });
});

test("speech and images in a conversation count as long answers, unless the caller bounds them", () => {
  assert.equal(outputOf({ modalities: ["text", "audio"], audio: { voice: "alloy", format: "wav" } }), 8_000);
  assert.equal(outputOf({ generationConfig: { responseModalities: ["TEXT", "IMAGE"] } }), 8_000);
  assert.equal(outputOf({ modalities: ["audio"], max_completion_tokens: 300, n: 2 }), 600);
  assert.equal(outputOf({ modalities: ["text"] }), 1_000);
});

test("a file that is sent by address or id counts as input in any dialect; an address elsewhere is text", () => {
  const url = "https://example.com/cat.png";
  const bodies: Record<string, unknown>[] = [
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] },
    { messages: [{ role: "user", content: [{ type: "image_url", image_url: url }] }] },
    { messages: [{ role: "user", content: [{ type: "file", file: { file_id: "file-1" } }] }] },
    { messages: [{ role: "user", content: [{ type: "image", source: { type: "url", url } }] }] },
    {
      messages: [
        {
          role: "user",
          content: [{ type: "tool_result", content: [{ type: "document", source: { type: "url", url } }] }],
        },
      ],
    },
    { input: [{ role: "user", content: [{ type: "input_image", image_url: url }] }] },
    { input: [{ role: "user", content: [{ type: "input_file", file_url: url }] }] },
    { contents: [{ parts: [{ fileData: { fileUri: "gs://bucket/talk.mp3", mimeType: "audio/mp3" } }] }] },
    { contents: [{ parts: [{ file_data: { file_uri: url } }] }] },
  ];
  for (const body of bodies) assert.equal(inputOf(body), 2_100, JSON.stringify(body));
  const inBody = [
    {
      messages: [{ role: "user", content: url }],
      tools: [{ type: "function", function: { parameters: { $schema: "http://json-schema.org/draft-07/schema#" } } }],
    },
    {
      messages: [
        { role: "assistant", tool_calls: [{ function: { name: "fetch", arguments: JSON.stringify({ url }) } }] },
      ],
    },
  ];
  for (const body of inBody) assert.equal(inputOf(body), 100, JSON.stringify(body));
  const many = {
    messages: [{ content: Array.from({ length: 1_000 }, () => ({ type: "image_url", image_url: { url } })) }],
  };
  assert.equal(inputOf(many), model.contextWindow);
});

test("a token count reserves nothing, and an embedding no output", () => {
  assert.deepEqual(reservedFor({ messages: [], n: 5 }, "token-count"), { inputTokens: 0, outputTokens: 0 });
  assert.deepEqual(reservedFor({ input: ["a", "b"], n: 5 }, "embedding"), { inputTokens: 100, outputTokens: 0 });
});

test("speech is estimated by its characters, and a recording by its size as MP3", () => {
  assert.deepEqual(reservedFor({ input: "\u{1f600}".repeat(30) }, "speech"), { inputTokens: 30, outputTokens: 0 });
  const file = { name: "a.mp3", type: "audio/mpeg", size: 160_001 };
  assert.deepEqual(reservedFor({ file }, "transcription", 160_400), {
    inputTokens: 250 + 11 * 25,
    outputTokens: 11 * 4,
  });
});

test("completions count every prompt and every try; moderation and rankings have no output", () => {
  const complete = (body: Record<string, unknown>) => outputOf({ max_tokens: 10, ...body }, "completion");
  assert.equal(complete({ prompt: "a" }), 10);
  assert.equal(complete({ prompt: ["a", "b"], n: 3 }), 60);
  assert.equal(complete({ prompt: [1, 2, 3], n: 2, best_of: 5 }), 50);
  assert.equal(complete({ prompt: [[1], [2]], max_tokens: 0 }), 2);
  assert.equal(outputOf({ prompt: "a" }, "completion"), 1_000);
  assert.deepEqual(reservedFor({ input: "a" }, "moderation"), { inputTokens: 100, outputTokens: 0 });
  assert.deepEqual(reservedFor({ query: "a" }, "rerank"), { inputTokens: 100, outputTokens: 0 });
  const image = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  assert.equal(inputOf({ input: [image] }, "moderation"), 2_100);
});

const mebibyte = 1 << 20;
/** The largest answer to each kind of request, in MiB; undefined for the usual 32. */
const largest: [operation: OperationName, body: Record<string, unknown>, mebibytes: number | undefined][] = [
  ["answer", {}, undefined],
  ["answer", { max_tokens: 8_000 }, undefined],
  ["answer", { n: 2 }, undefined],
  ["answer", { n: 8 }, 32 + 7 * 16 + 4],
  ["answer", { n: 1_000_000, max_tokens: 1_000_000 }, 480],
  ["answer", { logprobs: true, top_logprobs: 20 }, 32 + 49],
  ["answer", { max_output_tokens: 8_000, top_logprobs: 20 }, 32 + 49],
  ["answer", { generationConfig: { responseLogprobs: true, logprobs: 20 } }, 32 + 49],
  ["answer", { generationConfig: { candidateCount: 8 } }, 32 + 7 * 16 + 4],
  ["completion", { prompt: "a" }, undefined],
  ["completion", { prompt: Array(2_048).fill("a"), max_tokens: 8_000 }, 32 + 489],
  ["completion", { prompt: "a", n: 8, logprobs: 5 }, 32 + 113],
  ["embedding", { input: "a" }, undefined],
  ["embedding", { input: Array(2_000).fill("a") }, 32 + 188],
  ["embedding", { input: Array(2_048).fill([1, 2]), dimensions: 256 }, undefined],
  ["embedding", { input: Array(100_000).fill(1) }, undefined],
  ["embedding", { content: {}, outputDimensionality: 65_536 }, undefined],
  ["embedding", { requests: Array(2_000).fill({ content: {} }) }, 32 + 188],
  ["embedding", { requests: Array(2_000).fill({ content: {}, outputDimensionality: 3_072 }) }, 32 + 141],
  ["image-generation", { n: 1 }, undefined],
  ["image-generation", { n: 8 }, 32 + 8 * 16 + 3],
  ["image-generation", { n: 10, size: "1024x1024" }, 32 + 160 + 3],
  ["image-generation", { n: 2, size: "4096x4096" }, 32 + 192 + 1],
  ["image-generation", { n: 10, size: "99999x99999", frame_count: 16 }, 480],
  ["image-edit", { n: 10 }, 32 + 160 + 4],
  ["image-variation", { n: 10 }, 32 + 160 + 4],
  ["speech", { input: "a" }, undefined],
  ["transcription", { file: { size: 25_000_000 } }, undefined],
  ["translation", { file: { size: 25_000_000 } }, undefined],
  ["moderation", { input: Array(2_048).fill("a") }, undefined],
  ["rerank", { documents: Array(10_000).fill("a") }, undefined],
  ["rerank-with-documents", { documents: Array(10_000).fill("a") }, undefined],
  ["token-count", {}, undefined],
];

test("a whole answer may be as large as what its request asks for, in every operation", () => {
  for (const [operation, body, expected] of largest) {
    const demand = operations[operation].demandOf(body, dialectOf(body));
    const bytes = answerBytesMaxOf(model, demand);
    const most = expected === undefined ? undefined : Math.min(480, expected);
    const mebibytes = bytes === undefined ? undefined : Math.ceil(bytes / mebibyte);
    assert.ok(
      mebibytes === most || Math.abs((mebibytes ?? 0) - (most ?? 0)) <= 2,
      `${operation} ${JSON.stringify(body).slice(0, 80)}: ${mebibytes}`,
    );
  }
});
