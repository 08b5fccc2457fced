/**
 * Embeddings of texts: https://platform.openai.com/docs/api-reference/embeddings,
 * https://ai.google.dev/api/embeddings
 */
import type { Failure } from "#dialects/errors.ts";
import { isCount } from "#dialects/profile.ts";
import { objectOf } from "#wire/json/parse.ts";
import { answerBytesMax, embeddingsBodyBytesMax, numberBytes, numbersDefault } from "../bounds.ts";
import { promptsIn } from "../completions/prompts.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { batchEmbedContentsSchema, embedContentSchema, embeddingRequestSchema } from "./schema.ts";

type Body = Record<string, unknown>;

/** Google's requests of a batch, or the one request. */
const requestsOf = (body: Body): Body[] => (Array.isArray(body.requests) ? body.requests.map(objectOf) : [body]);

const countOf = (body: Body): number => (body.input === undefined ? requestsOf(body).length : promptsIn(body.input));

/** The numbers of each vector; undefined if the request leaves them to the model. */
function dimensionsOf(body: Body): number | undefined {
  const sizes = requestsOf(body).flatMap(({ embedContentConfig, ...request }) =>
    [request, objectOf(embedContentConfig)].flatMap((one) => [one.outputDimensionality, one.output_dimensionality]),
  );
  const asked = [body.dimensions, ...sizes].filter(isCount);
  return asked.length === 0 ? undefined : Math.max(...asked);
}

const bytesOf = (body: Body): number => countOf(body) * (dimensionsOf(body) ?? numbersDefault) * numberBytes;

/** Nothing would hold the answer. */
function faultOf(body: Body): Failure | undefined {
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
