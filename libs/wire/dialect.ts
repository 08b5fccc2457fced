/** The wire formats: which ones callers may speak and which ones upstreams may. */

/** Dialects with an endpoint of ours. */
export type CallerDialect = "openai-chat";

/** Dialects an upstream of the catalogue may declare. */
export const upstreamDialects = ["openai-chat"] as const;
export type UpstreamDialect = (typeof upstreamDialects)[number];
