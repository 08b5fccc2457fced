/**
 * Ranks documents by their relevance to a query. The answer has the fields of Cohere's and of
 * Jina's format, so that clients of both can read it.
 */

import type { Endpoint } from "#dialects/profile.ts";
import { listOf } from "#wire/json/parse.ts";
import { rerankBodyBytesMax } from "../bounds.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { rerankRequestSchema } from "./schema.ts";

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
