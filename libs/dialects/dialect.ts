/**
 * The names of the dialects. The compiler then asks for a codec (codecs.ts) and a profile
 * (profiles.ts) of each.
 */

/** Dialects of conversations. Callers and upstreams may speak any pair of them. */
export const conversationDialects = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
export type ConversationDialect = (typeof conversationDialects)[number];

/** Dialects that an upstream in the catalogue may declare. */
export const upstreamDialects = [...conversationDialects, "openai-images"] as const;
export type UpstreamDialect = (typeof upstreamDialects)[number];
