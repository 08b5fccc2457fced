/** Embeddings of texts: https://platform.openai.com/docs/api-reference/embeddings, https://ai.google.dev/api/embeddings */
import type { Operation } from "../operation.ts";
import { batchEmbedContentsSchema, embedContentSchema, embeddingRequestSchema } from "./schema.ts";

/** Workers parse these bodies completely. 300,000 tokens (https://platform.openai.com/docs/api-reference/embeddings/create) take half of this size. */
const bodyBytesMax = 4 << 20;

export const embedding: Operation = {
  endpoints: [
    { path: "/v1/embeddings", dialect: "openai-chat", schema: embeddingRequestSchema, bodyBytesMax },
    { method: "embedContent", dialect: "gemini", schema: embedContentSchema, bodyBytesMax },
    { method: "batchEmbedContents", dialect: "gemini", schema: batchEmbedContentsSchema, bodyBytesMax },
  ],
  bills: "input",
  isRepeatable: true,
  demandOf: () => ({ outputTokensMax: undefined, mediaTokens: undefined, choices: 1, attachedTokens: 0 }),
};
