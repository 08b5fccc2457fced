/**
 * Gemini: POST /{version}/models/{model}:generateContent, :streamGenerateContent, :countTokens,
 * :embedContent and :batchEmbedContents, of AI Studio and Vertex AI.
 */
import { seedOf } from "../../answer/chunks.ts";
import { compose } from "../../answer/compose.ts";
import { pngOf } from "../../answer/png.ts";
import { type Dialect, headerIn, refuse, type SimulatedRequest, wholeOf } from "../dialect.ts";
import { embeddingOf, embeddingsOf } from "./embed.ts";
import { geminiErrorBody } from "./error.ts";
import { askedOf, countOf } from "./request.ts";
import { type ContentAnswer, candidateOf, contentWholeOf } from "./response.ts";
import { contentScriptOf } from "./stream.ts";

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

export const gemini: Dialect = {
  name: "gemini",
  serves: (method, path) => method === "POST" && calledIn(path) !== undefined,
  modelOf: ({ path }) => calledIn(path)?.model,
  errorBody: geminiErrorBody,
  retryInBody: true,
  credentialOf: ({ headers, query }) => headerIn(headers["x-goog-api-key"]) ?? query.get("key") ?? undefined,
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
        return contentScriptOf(answerOf(request, model), request.query.get("alt") === "sse" ? "sse" : "array");
    }
  },
};

/**
 * A tenth of a second of silence, in the format of Google's speech:
 * https://ai.google.dev/gemini-api/docs/speech-generation
 */
const recording = { mimeType: "audio/L16;codec=pcm;rate=24000", data: Buffer.alloc(4_800).toString("base64") };

function answerOf({ body, digest, settings }: SimulatedRequest, model: string): ContentAnswer {
  const asked = askedOf(body, model, digest);
  const composed = compose(asked.question, settings, (fault) => refuse(fault, "generation_config"));
  const isPromptBlocked = settings.filterTokens === 0;
  const seed = seedOf(asked.question.userText);
  const mediaAt = (index: number) => {
    const { image, isSpoken } = asked;
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
      const { showsThoughts, isThinking, hasText } = asked;
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
