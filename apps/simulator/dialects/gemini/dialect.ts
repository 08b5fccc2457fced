/**
 * Gemini: POST /{version}/models/{model}:generateContent, :streamGenerateContent, :countTokens,
 * :embedContent and :batchEmbedContents, of AI Studio and Vertex AI.
 */

import { seedOf } from "../../answer/chunks.ts";
import { compose } from "../../answer/compose.ts";
import { pngOf } from "../../answer/png.ts";
import { vectorOf } from "../../answer/vector.ts";
import { answerBytesMax } from "../../settings.ts";
import { type Dialect, headerIn, refuse, type SimulatedRequest, type Whole, wholeOf } from "../dialect.ts";
import { shaped } from "../shape.ts";
import { geminiErrorBody } from "./error.ts";
import { contentQuestionOf, contentTokensOf, countOf, textOf } from "./request.ts";
import { type ContentAnswer, candidateOf, contentWholeOf } from "./response.ts";
import { camelOf, checkedEmbed, checkedEmbedBatch, type EmbedRequest } from "./schema.ts";
import { contentScriptOf } from "./stream.ts";

/** Embeddings of one content or of a batch. */
const dimensionsDefault = 768;
/** The most characters of a number in JSON. */
const numberBytes = 16;

function embeddingOf(raw: unknown, withUsage: boolean): Whole {
  const body = shaped(checkedEmbed, camelOf(raw));
  return vectorsWholeOf(`"embedding":${vectorJsonOf(body)}`, [body], withUsage);
}

function embeddingsOf(raw: unknown, withUsage: boolean): Whole {
  const body = shaped(checkedEmbedBatch, camelOf(raw));
  const bytes = body.requests.reduce(
    (sum, { outputDimensionality }) => sum + (outputDimensionality ?? dimensionsDefault) * numberBytes,
    0,
  );
  if (bytes > answerBytesMax) refuse(`So many vectors are more than ${answerBytesMax} bytes.`, "requests");
  return vectorsWholeOf(`"embeddings":[${body.requests.map(vectorJsonOf).join(",")}]`, body.requests, withUsage);
}

function vectorsWholeOf(vectors: string, requests: EmbedRequest[], withUsage: boolean): Whole {
  const promptTokens = requests.reduce((sum, { content }) => sum + contentTokensOf(content), 0);
  const usage = withUsage ? `,"usageMetadata":{"promptTokenCount":${promptTokens}}` : "";
  return { kind: "whole", body: `{${vectors}${usage}}`, tokens: 0 };
}

/** Nine digits represent a 32-bit float exactly. */
function vectorJsonOf({ content, outputDimensionality }: EmbedRequest): string {
  const vector = vectorOf(textOf(content.parts), outputDimensionality ?? dimensionsDefault);
  return `{"values":[${Array.from(vector, (value) => Number(value.toPrecision(9))).join(",")}]}`;
}

const verbs = [
  "generateContent",
  "streamGenerateContent",
  "countTokens",
  "embedContent",
  "batchEmbedContents",
] as const;

/** A model's name may contain slashes and colons. */
function calledIn(path: string): { model: string; verb: (typeof verbs)[number] } | undefined {
  const [, model, name] =
    /^\/v1(?:alpha|beta1?)?\/(?:projects\/[^/]+\/locations\/[^/]+\/)?(?:publishers\/google\/)?models\/(.+):(\w+)$/s.exec(
      path,
    ) ?? [];
  const verb = verbs.find((one) => one === name);
  return model === undefined || verb === undefined ? undefined : { model, verb };
}

/** https://cloud.google.com/apis/docs/system-parameters */
const asksForEvents = (query: URLSearchParams) => /^sse\b/.test(query.get("$alt") ?? query.get("alt") ?? "");

export const gemini: Dialect = {
  name: "gemini",
  serves: (method, path) => method === "POST" && calledIn(path) !== undefined,
  modelOf: ({ path }) => calledIn(path)?.model,
  errorBody: geminiErrorBody,
  retryInBody: true,
  limitHeaders: () => ({}),
  credentialOf: ({ headers, query }) => headerIn(headers["x-goog-api-key"]) ?? query.get("key") ?? undefined,
  credentialFault: (credential) =>
    credential === undefined
      ? { status: 403, message: "Method doesn't allow unregistered callers. Please use API Key to call this API." }
      : { status: 400, message: "API key not valid. Please pass a valid API key.", reason: "API_KEY_INVALID" },
  answer(request) {
    const { model = "", verb = "generateContent" } = calledIn(request.path) ?? {};
    const withUsage = request.settings.usage !== "never";
    switch (verb) {
      case "countTokens": {
        const tokenCount = countOf(request.body);
        return wholeOf({ totalTokens: tokenCount, promptTokensDetails: [{ modality: "TEXT", tokenCount }] });
      }
      case "embedContent":
        return embeddingOf(request.body, withUsage);
      case "batchEmbedContents":
        return embeddingsOf(request.body, withUsage);
      case "generateContent":
        return contentWholeOf(answerOf(request, model));
      case "streamGenerateContent":
        return contentScriptOf(answerOf(request, model), asksForEvents(request.query) ? "sse" : "array");
    }
  },
};

/**
 * A tenth of a second of silence, in the format of Google's speech:
 * https://ai.google.dev/gemini-api/docs/speech-generation
 */
const recording = { mimeType: "audio/L16;codec=pcm;rate=24000", data: Buffer.alloc(4_800).toString("base64") };

function answerOf({ body, digest, settings }: SimulatedRequest, model: string): ContentAnswer {
  const request = contentQuestionOf(body, model, digest);
  const composed = compose(request.question, settings, (fault) => refuse(fault, "generation_config"));
  const isPromptBlocked = settings.filterTokens === 0;
  const seed = seedOf(request.question.userText);
  const mediaAt = (index: number) => {
    const { image, isSpoken } = request;
    if (image === undefined) return isSpoken ? recording : undefined;
    const png = pngOf({ ...image, seed: (seed + index * 0x9e3779b1) >>> 0, bytesMin: settings.imageBytesMin });
    return { mimeType: "image/png", data: png.toString("base64") };
  };
  return {
    id: digest.slice(0, 22),
    model,
    usage: composed.usage,
    withUsage: settings.usage !== "never",
    isPromptBlocked,
    candidates: (isPromptBlocked ? [] : composed.choices).map((choice, index) => {
      const { showsThoughts, isThinking, hasText } = request;
      return candidateOf(choice, {
        id: `${digest.slice(0, 16)}${index}`,
        showsThoughts,
        isThinking,
        hasText,
        media: mediaAt(index),
      });
    }),
  };
}
