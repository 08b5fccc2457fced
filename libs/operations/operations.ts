/** The registry of operations: each is a folder, a line here and a line in exchanges.ts. */
import { answer } from "./answer/operation.ts";
import { completion } from "./completions/operation.ts";
import { embedding } from "./embeddings/operation.ts";
import { imageEdit, imageGeneration, imageVariation } from "./images/operation.ts";
import { moderation } from "./moderations/operation.ts";
import type { Operation } from "./operation.ts";
import { realtime } from "./realtime/operation.ts";
import { rerank, rerankWithDocuments } from "./rerank/operation.ts";
import { speech } from "./speech/operation.ts";
import { tokenCount } from "./token-count/operation.ts";
import { transcription, translation } from "./transcriptions/operation.ts";

const registry = {
  answer,
  completion,
  "token-count": tokenCount,
  embedding,
  "image-generation": imageGeneration,
  "image-edit": imageEdit,
  "image-variation": imageVariation,
  moderation,
  realtime,
  speech,
  transcription,
  translation,
  rerank,
  "rerank-with-documents": rerankWithDocuments,
} satisfies Record<string, Operation>;

export type OperationName = keyof typeof registry;
export const operations: Readonly<Record<OperationName, Operation>> = registry;
export const operationNames = Object.keys(operations) as OperationName[];

export const isForm = (operation: OperationName) => operations[operation].formValuesOf !== undefined;
