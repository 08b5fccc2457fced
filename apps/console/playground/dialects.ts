/** The registry of the playground's dialects. */
import { anthropicMessages } from "./anthropic-messages.ts";
import { type Dialect, type DialectModule, dialects } from "./conversation.ts";
import { gemini } from "./gemini.ts";
import { openaiChat } from "./openai-chat.ts";
import { openaiResponses } from "./openai-responses.ts";

export const modules: Record<Dialect, DialectModule> = {
  "openai-chat": openaiChat,
  "openai-responses": openaiResponses,
  "anthropic-messages": anthropicMessages,
  gemini,
};

/** The dialect of this name; chat completions for any other, such as that of an operation. */
export const knownDialect = (name: string | undefined): Dialect =>
  dialects.find((each) => each === name) ?? "openai-chat";
