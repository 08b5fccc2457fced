/**
 * What a generation used, in tokens, as the ledger counts: cached tokens, read and written, are a part of the input, reasoning tokens a part of
 * the output. Dialects count differently; each codec converts.
 */
export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
}

/** Of a request's body, roughly: for estimates before, or without, an upstream's own count. */
export const bytesPerToken = 4;

/** Where nothing is known but what went in and what came out. */
export const plainUsageOf = (inputTokens: number, outputTokens = 0): Usage => ({
  inputTokens,
  cachedInputTokens: 0,
  cacheWriteTokens: 0,
  outputTokens,
  reasoningTokens: 0,
});

/** A counter as an upstream reports it; 0 for what is none. */
export const tokensOf = (value: unknown): number => (typeof value === "number" && Number.isSafeInteger(value) && value > 0 ? value : 0);
