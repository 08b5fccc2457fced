/**
 * What a generation used, in tokens, as the ledger counts: cached tokens, read and written, are a part of the input, reasoning tokens a part of
 * the output. Dialects count differently; each codec converts.
 */
import { reportedTokensMax } from "./bounds.ts";

export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  /** The upstream reported more than can be true; what stands here is what can be. */
  isCapped?: true;
  /** Some of it, or all, is no count of the upstream's. */
  isEstimated?: true;
}

/** Of a request's body, roughly: for estimates before, or without, an upstream's own count. */
export const bytesPerToken = 4;

/** Where nothing is known but what went in and what came out. */
export const plainUsageOf = (inputTokens: number, outputTokens = 0): Usage =>
  plausible({ inputTokens, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens, reasoningTokens: 0 });

/** A counter as an upstream reports it; 0 for what is none. */
export const tokensOf = (value: unknown): number =>
  typeof value === "number" && Number.isInteger(value) && value > 0 ? value : 0;

/** What can be true of a report: a counter beyond the bound is cut to it and told as capped, and no part is larger than its whole. */
export function plausible({
  inputTokens,
  cachedInputTokens,
  cacheWriteTokens,
  outputTokens,
  reasoningTokens,
}: Usage): Usage {
  const input = Math.min(inputTokens, reportedTokensMax);
  const output = Math.min(outputTokens, reportedTokensMax);
  const cached = Math.min(cachedInputTokens, input);
  return {
    inputTokens: input,
    cachedInputTokens: cached,
    cacheWriteTokens: Math.min(cacheWriteTokens, input - cached),
    outputTokens: output,
    reasoningTokens: Math.min(reasoningTokens, output),
    ...((inputTokens > reportedTokensMax || outputTokens > reportedTokensMax) && { isCapped: true as const }),
  };
}
