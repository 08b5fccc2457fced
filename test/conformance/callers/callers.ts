import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Caller } from "../ask.ts";
import { anthropicMessages } from "./anthropic-messages.ts";
import { gemini } from "./gemini.ts";
import { openaiChat } from "./openai-chat.ts";
import { openaiResponses } from "./openai-responses.ts";

/** The caller of each dialect. */
export const callers: Record<ConversationDialect, Caller> = {
  "openai-chat": openaiChat,
  "openai-responses": openaiResponses,
  "anthropic-messages": anthropicMessages,
  gemini,
};
