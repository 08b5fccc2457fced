/**
 * OpenAI's legacy completions of a prompt:
 * https://platform.openai.com/docs/api-reference/completions
 */
import { isCount } from "#dialects/profile.ts";
import { choicesMax } from "../bounds.ts";
import { listedTokensOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { promptsIn } from "./prompts.ts";
import { completionRequestSchema } from "./schema.ts";

export const completion: Operation = {
  endpoints: [{ path: "/v1/completions", dialect: "openai-chat", schema: completionRequestSchema }],
  bills: "input and output",
  isRepeatable: true,
  reportsProgress: true,
  demandOf: ({ prompt, max_tokens: tokensMax, n, best_of: tries, logprobs }) => ({
    outputTokensMax: tokensMax === 0 ? 1 : isCount(tokensMax) ? tokensMax : undefined,
    mediaTokens: undefined,
    choices: Math.min(choicesMax, promptsIn(prompt) * Math.max(isCount(n) ? n : 1, isCount(tries) ? tries : 1)),
    attachedTokens: 0,
    ...(promptsIn(prompt) > 1 && { prompts: promptsIn(prompt) }),
    ...listedTokensOf({ logprobs }),
  }),
};
