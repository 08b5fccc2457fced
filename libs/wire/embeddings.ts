/**
 * Embeddings in OpenAI's and Google's formats, each way.
 * https://platform.openai.com/docs/api-reference/embeddings, https://ai.google.dev/api/embeddings
 */
import Type from "typebox";
import { refuse } from "./carry.ts";
import type { WireRequest } from "./codec.ts";
import type { ConversationDialect } from "./dialect.ts";
import { camelOf, pathOf, resourceOf } from "./gemini/names.ts";
import { jsonOf, listOf, objectOf, textOf } from "./json.ts";
import { plainUsageOf, tokensOf, type Usage } from "./usage.ts";

const inputsMax = 2_048;
/** Of one request to Google: https://ai.google.dev/api/embeddings#method:-models.batchembedcontents */
const googleInputsMax = 100;
const nullable = (type: string) => ({ type: [type, "null"] });
const optional = (schema: Record<string, unknown>) => Type.Optional(Type.Unsafe<unknown>(schema));

export const embeddingRequestSchema = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 256 }),
  input: Type.Unsafe<unknown>({
    type: ["string", "array"],
    minItems: 1,
    minLength: 1,
    maxItems: 100_000,
    items: { type: ["string", "integer", "array"], minimum: 0, minItems: 1, items: { type: "integer", minimum: 0 } },
  }),
  dimensions: optional({ ...nullable("integer"), minimum: 1, maximum: 65_536 }),
  encoding_format: Type.Optional(Type.Enum(["float", "base64"])),
  user: optional(nullable("string")),
});

const part = { type: "object", properties: { text: nullable("string") } };
const content = { type: "object", required: ["parts"], properties: { parts: { type: "array", minItems: 1, maxItems: 1_000, items: part } } };
const size = { ...nullable("integer"), minimum: 1, maximum: 65_536 };
const googleEmbedding = {
  content,
  model: nullable("string"),
  taskType: nullable("string"),
  task_type: nullable("string"),
  title: nullable("string"),
  outputDimensionality: size,
  output_dimensionality: size,
  embedContentConfig: { ...nullable("object"), properties: { outputDimensionality: size, output_dimensionality: size } },
};

export const embedContentSchema = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  required: ["content"],
  properties: { ...googleEmbedding, requests: { type: "null" } },
});
export const batchEmbedContentsSchema = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  required: ["requests"],
  properties: {
    requests: { type: "array", minItems: 1, maxItems: inputsMax, items: { type: "object", required: ["content"], properties: googleEmbedding } },
  },
});

/** What is to be embedded, whoever asks. */
interface Wanted {
  texts: string[];
  dimensions: number | undefined;
}

/** Throws Refusal for what the other format has no place for. */
function wantedOf(dialect: ConversationDialect, written: Record<string, unknown>): Wanted {
  if (dialect !== "gemini") {
    const body = written;
    const inputs = typeof body.input === "string" ? [body.input] : listOf(body.input);
    const texts = inputs.map((input, place) =>
      typeof input === "string" ? input : refuse(`input[${place}]`, "must be a text: tokens of one model mean nothing to another"),
    );
    if (texts.length > inputsMax) refuse("input", `may hold ${inputsMax} texts at most`);
    return { texts, dimensions: typeof body.dimensions === "number" ? body.dimensions : undefined };
  }
  const body = objectOf(camelOf(written));
  const requests = isBatch(body) ? listOf(body.requests).map(objectOf) : [body];
  const texts = requests.map((request, place) => {
    const path = isBatch(body) ? `requests[${place}].content` : "content";
    return listOf(objectOf(request.content).parts)
      .map((part, at) =>
        typeof objectOf(part).text === "string" ? (objectOf(part).text as string) : refuse(`${path}.parts[${at}]`, "must be a text for this model"),
      )
      .join("\n");
  });
  const sizes = new Set(requests.map((request) => request.outputDimensionality ?? objectOf(request.embedContentConfig).outputDimensionality));
  if (sizes.size > 1) refuse("requests", "must all ask for one outputDimensionality for this model");
  const [dimensions] = sizes;
  return { texts, dimensions: typeof dimensions === "number" ? dimensions : undefined };
}

const isBatch = (body: Record<string, unknown>): boolean => Array.isArray(body.requests);

/** The request to an upstream, and how to read its answer for the caller. */
export interface EmbeddingExchange {
  request: WireRequest;
  /** All texts, for upstreams that don't say how many tokens they took. */
  texts: string[];
  /** The caller's answer; undefined when the upstream's is none. */
  answerOf(answer: Record<string, unknown>): { body: string; usage: Usage | undefined } | undefined;
}

/** `to` is the upstream's dialect; both of OpenAI's embed alike. `model` is its name there, `id` the catalogue's. Throws Refusal. */
export function embeddingExchangeOf(
  from: ConversationDialect,
  to: ConversationDialect,
  body: Record<string, unknown>,
  model: string,
  id: string,
): EmbeddingExchange {
  const base64 = from !== "gemini" && body.encoding_format === "base64";
  const isBatched = isBatch(body);
  if (to === "gemini") {
    const name = resourceOf(model);
    const own = from === "gemini";
    const { texts, dimensions } = own ? { texts: [], dimensions: undefined } : wantedOf(from, body);
    if (texts.length > googleInputsMax) refuse("input", `may hold ${googleInputsMax} texts at most for this model`);
    const requests = own
      ? (isBatched ? listOf(body.requests).map(objectOf) : [body]).map((request) => ({ ...request, model: name }))
      : texts.map((text) => ({ model: name, content: { parts: [{ text }] }, ...(dimensions !== undefined && { outputDimensionality: dimensions }) }));
    const sent = own && !isBatched ? { ...body, model: name } : { requests };
    return {
      request: { path: pathOf(model, own && !isBatched ? "embedContent" : "batchEmbedContents"), headers: {}, body: Buffer.from(jsonOf(sent)) },
      texts: own ? [] : texts,
      answerOf(answer) {
        if (own) return answer.embedding === undefined && answer.embeddings === undefined ? undefined : { body: jsonOf(answer), usage: undefined };
        const vectors = listOf(answer.embeddings).map((embedding) => numbersOf(objectOf(embedding).values));
        return vectors.length !== texts.length ? undefined : { body: openaiAnswerOf(vectors, base64, id), usage: undefined };
      },
    };
  }
  if (from !== "gemini") {
    return {
      request: { path: "/embeddings", headers: {}, body: Buffer.from(jsonOf({ ...body, model })) },
      texts: [],
      answerOf: (answer) => (Array.isArray(answer.data) ? { body: jsonOf({ ...answer, model: id }), usage: usageOf(answer.usage) } : undefined),
    };
  }
  const { texts, dimensions } = wantedOf(from, body);
  const sent = { model, input: texts, encoding_format: "float", ...(dimensions !== undefined && { dimensions }) };
  return {
    request: { path: "/embeddings", headers: {}, body: Buffer.from(jsonOf(sent)) },
    texts,
    answerOf(answer) {
      const embeddings = listOf(answer.data).map((item) => ({ values: numbersOf(objectOf(item).embedding) }));
      if (embeddings.length !== texts.length) return undefined;
      return { body: jsonOf(isBatched ? { embeddings } : { embedding: embeddings[0] }), usage: usageOf(answer.usage) };
    },
  };
}

/** The answer with the tokens that were counted here filled in, for an upstream that does not say. */
export const withEmbeddingUsage = (body: string, tokens: number): string =>
  jsonOf({ ...objectOf(JSON.parse(body)), usage: { prompt_tokens: tokens, total_tokens: tokens } });

function openaiAnswerOf(vectors: number[][], base64: boolean, model: string): string {
  const data = vectors.map((vector, index) => ({ object: "embedding", index, embedding: base64 ? packed(vector) : vector }));
  return jsonOf({ object: "list", data, model, usage: { prompt_tokens: 0, total_tokens: 0 } });
}

/** Little-endian 32-bit floats. */
function packed(vector: number[]): string {
  const bytes = Buffer.alloc(vector.length * 4);
  for (const [place, value] of vector.entries()) bytes.writeFloatLE(value, place * 4);
  return bytes.toString("base64");
}

/** Numbers, or what some servers send although they are asked for those. */
function numbersOf(value: unknown): number[] {
  const text = textOf(value);
  if (text === undefined) return listOf(value).map(Number);
  const bytes = Buffer.from(text, "base64");
  return Array.from({ length: Math.floor(bytes.length / 4) }, (_, place) => bytes.readFloatLE(place * 4));
}

function usageOf(value: unknown): Usage | undefined {
  const tokens = tokensOf(objectOf(value).prompt_tokens);
  return tokens === 0 ? undefined : plainUsageOf(tokens);
}
