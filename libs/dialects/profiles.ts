/** The registry of profiles: a dialect is a folder, a line here and a line in codecs.ts. */
import { anthropicMessagesProfile } from "./anthropic-messages/profile.ts";
import type { ConversationDialect, UpstreamDialect } from "./dialect.ts";
import { geminiProfile } from "./gemini/profile.ts";
import { openaiChatProfile } from "./openai-chat/profile.ts";
import { openaiResponsesProfile } from "./openai-responses/profile.ts";
import type { Profile, UpstreamProfile } from "./profile.ts";

export const profiles: Record<ConversationDialect, Profile> = {
  "openai-chat": openaiChatProfile,
  "openai-responses": openaiResponsesProfile,
  "anthropic-messages": anthropicMessagesProfile,
  gemini: geminiProfile,
};

export const upstreamProfiles: Record<UpstreamDialect, UpstreamProfile> = {
  ...profiles,
  "openai-images": { authentication: "bearer", probePath: "/models" },
};
