/** The wire formats: which ones callers may speak and which ones upstreams may. */

/**
 * Dialects of conversations: callers and upstreams may speak each, in any pair. What callers ask for that is no conversation (pictures, embeddings,
 * lists) belongs to its maker's dialect of those.
 */
export const conversationDialects = ["openai-chat", "openai-responses", "anthropic-messages", "gemini"] as const;
export type ConversationDialect = (typeof conversationDialects)[number];

/** Dialects an upstream of the catalogue may declare. */
export const upstreamDialects = [...conversationDialects, "openai-images"] as const;
export type UpstreamDialect = (typeof upstreamDialects)[number];
