/**
 * Embeddings of texts: https://platform.openai.com/docs/api-reference/embeddings,
 * https://ai.google.dev/api/embeddings
 */
import Type from "typebox";
import type { Failure } from "#dialects/errors.ts";
import { isCount } from "#dialects/profile.ts";
import {
  modelName,
  nullable,
  objectWith,
  optional,
  optionalText,
  optionalTexts,
} from "#dialects/request-schema/schema-parts.ts";
import { type JsonObject, objectOf } from "#wire/json/parse.ts";
import { answerBytesMax, embeddedTextsMax, embeddingsBodyBytesMax, numberBytes, numbersDefault } from "../bounds.ts";
import { promptsIn } from "../completions/prompts.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

/** The schemas of requests for embeddings, in OpenAI's and in Google's format. */

const size = nullable("integer", { minimum: 1, maximum: 65_536 });

const embeddingRequestSchema = Type.Object({
  model: modelName,
  input: Type.Unsafe<unknown>({
    type: ["string", "array"],
    minItems: 1,
    minLength: 1,
    maxItems: 100_000,
    items: { type: ["string", "integer", "array"], minimum: 0, minItems: 1, items: { type: "integer", minimum: 0 } },
    // A list of token ids is one input; of texts or lists there are only so many.
    if: { type: "array", items: { type: ["string", "array"] } },
    then: { maxItems: embeddedTextsMax },
  }),
  dimensions: optional(size),
  encoding_format: optional({ enum: ["float", "base64", null] }),
  user: optionalText,
});

const part = { type: "object", properties: { text: nullable("string") } };
const content = {
  type: "object",
  required: ["parts"],
  // A list, or a single part in its place.
  properties: {
    parts: { ...part, type: ["array", "object"], minItems: 1, maxItems: 1_000, items: part },
  },
};
/** A name or its number. */
const taskType = { type: ["string", "integer", "null"] };
const googleEmbedding = {
  content,
  ...optionalTexts("model", "title"),
  taskType,
  task_type: taskType,
  outputDimensionality: size,
  output_dimensionality: size,
  embedContentConfig: objectWith({ outputDimensionality: size, output_dimensionality: size }),
};

const embedContentSchema = Type.Unsafe<JsonObject>({
  type: "object",
  required: ["content"],
  properties: { ...googleEmbedding, requests: { type: "null" } },
});
const batchEmbedContentsSchema = Type.Unsafe<JsonObject>({
  type: "object",
  required: ["requests"],
  properties: {
    requests: {
      type: "array",
      minItems: 1,
      maxItems: embeddedTextsMax,
      items: { type: "object", required: ["content"], properties: googleEmbedding },
    },
  },
});

/** Google's requests of a batch, or the one request. */
const requestsOf = (body: JsonObject) => (Array.isArray(body.requests) ? body.requests.map(objectOf) : [body]);

const countOf = (body: JsonObject) => (body.input === undefined ? requestsOf(body).length : promptsIn(body.input));

/** The numbers of each vector; undefined if the request leaves them to the model. */
function dimensionsOf(body: JsonObject): number | undefined {
  const sizes = requestsOf(body).flatMap(({ embedContentConfig, ...request }) =>
    [request, objectOf(embedContentConfig)].flatMap((one) => [one.outputDimensionality, one.output_dimensionality]),
  );
  const dimensions = [body.dimensions, ...sizes].filter(isCount);
  return dimensions.length === 0 ? undefined : Math.max(...dimensions);
}

const bytesOf = (body: JsonObject) => countOf(body) * (dimensionsOf(body) ?? numbersDefault) * numberBytes;

/** Nothing would hold the answer. */
function faultOf(body: JsonObject): Failure | undefined {
  if (bytesOf(body) <= answerBytesMax) return undefined;
  return {
    code: "invalid_request",
    message: `The request asks for ${countOf(body)} vectors of ${dimensionsOf(body)} numbers; an answer may hold ${Math.floor(answerBytesMax / numberBytes)} numbers. Ask for fewer vectors at once, or for fewer dimensions.`,
    param: body.input === undefined ? "requests" : "input",
  };
}

const common = { bodyBytesMax: embeddingsBodyBytesMax, faultOf };

export const embedding: Operation = {
  endpoints: [
    { ...common, path: "/v1/embeddings", dialect: "openai-chat", schema: embeddingRequestSchema },
    { ...common, method: "embedContent", dialect: "gemini", schema: embedContentSchema },
    { ...common, method: "batchEmbedContents", dialect: "gemini", schema: batchEmbedContentsSchema },
  ],
  bills: "input",
  isRepeatable: true,
  demandOf: (body) => ({ ...plainDemandOf(undefined, countOf(body)), dataBytes: bytesOf(body) }),
};
