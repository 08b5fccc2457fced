/** The simulator's dialects: each is a folder and a line here. */
import { anthropicMessages } from "./anthropic-messages/dialect.ts";
import type { Dialect } from "./dialect.ts";
import { gemini } from "./gemini/dialect.ts";
import { openaiAudio } from "./openai-audio/dialect.ts";
import { openaiChat } from "./openai-chat/dialect.ts";
import { openaiCompletions } from "./openai-completions/dialect.ts";
import { openaiEmbeddings } from "./openai-embeddings/dialect.ts";
import { openaiImages } from "./openai-images/dialect.ts";
import { openaiModels } from "./openai-models/dialect.ts";
import { openaiModerations } from "./openai-moderations/dialect.ts";
import { openaiResponses } from "./openai-responses/dialect.ts";
import { rerank } from "./rerank/dialect.ts";

export const dialects: readonly Dialect[] = [
  anthropicMessages,
  gemini,
  openaiAudio,
  openaiChat,
  openaiCompletions,
  openaiEmbeddings,
  openaiImages,
  openaiModels,
  openaiModerations,
  openaiResponses,
  rerank,
];
