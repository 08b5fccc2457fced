/**
 * Ranks documents by their relevance to a query. The answer has the fields of Cohere's and of
 * Jina's format, so that clients of both can read it.
 */

import Type from "typebox";
import type { Endpoint } from "#dialects/profile.ts";
import { modelName, nullable, optional, optionalFlag, optionalInteger } from "#dialects/request-schema/schema-parts.ts";
import { listOf } from "#wire/json/parse.ts";
import { rankedDocumentsMax, rerankBodyBytesMax } from "../bounds.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

/**
 * The schema of requests for a ranking: https://docs.cohere.com/reference/rerank and
 * https://api.jina.ai/redoc#tag/rerank
 */

const rerankRequestSchema = Type.Object({
  model: modelName,
  query: Type.String({ minLength: 1 }),
  documents: Type.Unsafe<unknown>({
    type: "array",
    minItems: 1,
    maxItems: rankedDocumentsMax,
    // An address would be fetched by the upstream.
    items: {
      type: ["string", "object"],
      required: ["text"],
      properties: { text: { type: "string" } },
      additionalProperties: false,
    },
  }),
  top_n: optionalInteger(1),
  return_documents: optionalFlag,
  max_tokens_per_doc: optionalInteger(1),
  priority: optional(nullable("integer", { minimum: 0, maximum: 999 })),
});

const rerankAt = (...paths: string[]): Operation => ({
  endpoints: paths.map(
    (path): Endpoint => ({
      path,
      dialect: "openai-chat",
      schema: rerankRequestSchema,
      bodyBytesMax: rerankBodyBytesMax,
    }),
  ),
  bills: "input",
  isRepeatable: true,
  demandOf: ({ documents }) => plainDemandOf(undefined, listOf(documents).length),
});

/** Cohere's: the answer has the documents only if the caller asks for them. */
export const rerank = rerankAt("/v2/rerank");
/** Jina's and others': the answer has the documents unless the caller does not want them. */
export const rerankWithDocuments = rerankAt("/v1/rerank", "/rerank");
