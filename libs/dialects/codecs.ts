/** The registry of codecs: a conversation dialect is a folder and a line here. */
import { anthropicMessages } from "./anthropic-messages/codec.ts";
import type { Codec } from "./codec.ts";
import type { ConversationDialect } from "./dialect.ts";
import { gemini } from "./gemini/codec.ts";
import { openaiChat } from "./openai-chat/codec.ts";
import { openaiResponses } from "./openai-responses/codec.ts";

export const codecs: Record<ConversationDialect, Codec> = {
  "openai-chat": openaiChat,
  "openai-responses": openaiResponses,
  "anthropic-messages": anthropicMessages,
  gemini,
};
