/** What a generation used, in tokens, as the ledger counts: cached tokens are a part of the input, reasoning tokens a part of the output. */
export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
}
