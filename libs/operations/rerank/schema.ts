/**
 * The schema of requests for a ranking: https://docs.cohere.com/reference/rerank and
 * https://api.jina.ai/redoc#tag/rerank
 */
import Type from "typebox";
import { modelName, nullable, optional, optionalFlag, optionalInteger } from "#dialects/request-schema/schema-parts.ts";
import { rankedDocumentsMax } from "../bounds.ts";

export const rerankRequestSchema = Type.Object({
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
