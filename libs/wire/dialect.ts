/** The wire formats: which ones callers may speak and which ones upstreams may. */

/** Dialects with an endpoint of ours. */
export const callerDialects = ["openai-chat"] as const;
export type CallerDialect = (typeof callerDialects)[number];

/** Dialects an upstream of the catalogue may declare. */
export const upstreamDialects = ["openai-chat"] as const;
export type UpstreamDialect = (typeof upstreamDialects)[number];
