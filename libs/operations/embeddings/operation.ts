/** Embeddings of texts: https://platform.openai.com/docs/api-reference/embeddings, https://ai.google.dev/api/embeddings */
import { embeddingsBodyBytesMax } from "../bounds.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { batchEmbedContentsSchema, embedContentSchema, embeddingRequestSchema } from "./schema.ts";

export const embedding: Operation = {
  endpoints: [
    {
      path: "/v1/embeddings",
      dialect: "openai-chat",
      schema: embeddingRequestSchema,
      bodyBytesMax: embeddingsBodyBytesMax,
    },
    { method: "embedContent", dialect: "gemini", schema: embedContentSchema, bodyBytesMax: embeddingsBodyBytesMax },
    {
      method: "batchEmbedContents",
      dialect: "gemini",
      schema: batchEmbedContentsSchema,
      bodyBytesMax: embeddingsBodyBytesMax,
    },
  ],
  bills: "input",
  isRepeatable: true,
  demandOf: () => plainDemandOf(),
};
