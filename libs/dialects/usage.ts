/**
 * The tokens that a generation used. Cached tokens, read and written, are part of the input; reasoning tokens are part of the output. Dialects count
 * differently; each codec converts.
 */
import { reportedTokensMax } from "./bounds.ts";

export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  /** The upstream reported an impossible number, which was cut to the bound. */
  isCapped?: true;
  /** Some or all counts are estimates. */
  isEstimated?: true;
}

/** Approximate bytes of a request body per token, for estimates before or without an upstream's own count. */
export const bytesPerToken = 4;

/** A usage with input and output counts only. */
export const plainUsageOf = (inputTokens: number, outputTokens = 0): Usage =>
  plausible({ inputTokens, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens, reasoningTokens: 0 });

/** A counter as an upstream reports it; 0 if it is not a number. */
export const tokensOf = (value: unknown): number =>
  typeof value === "number" && Number.isInteger(value) && value > 0 ? value : 0;

/** Bounds a report: a counter beyond the bound is cut and marked as capped, and no part exceeds its whole. */
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
