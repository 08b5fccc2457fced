/**
 * OpenAI's legacy completions of a prompt:
 * https://platform.openai.com/docs/api-reference/completions
 */
import Type from "typebox";
import { isCount } from "#dialects/profile.ts";
import {
  modelName,
  nullable,
  optional,
  optionalFlag,
  optionalInteger,
  optionalNumber,
  optionalObject,
  optionalText,
} from "#dialects/request-schema/schema-parts.ts";
import { choicesMax, promptsMax } from "../bounds.ts";
import { listedTokensOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { promptsIn } from "./prompts.ts";

/**
 * The schema of requests for legacy completions:
 * https://platform.openai.com/docs/api-reference/completions/create
 */

const tokenIds = { type: "integer", minimum: 0 };

const completionRequestSchema = Type.Object({
  model: modelName,
  prompt: optional({
    type: ["string", "array", "null"],
    minItems: 1,
    items: { type: ["string", "integer", "array"], minimum: 0, items: tokenIds },
    // A list of token ids is one prompt; of texts or lists there are only so many.
    if: { type: "array", items: { type: ["string", "array"] } },
    then: { maxItems: promptsMax },
  }),
  suffix: optionalText,
  max_tokens: optionalInteger(0),
  temperature: optionalNumber(0, 2),
  top_p: optionalNumber(0, 1),
  n: optionalInteger(1, choicesMax),
  best_of: optionalInteger(1, choicesMax),
  stream: optionalFlag,
  stream_options: optionalObject({ include_usage: nullable("boolean") }),
  logprobs: optionalInteger(0),
  echo: optionalFlag,
  stop: optional({ type: ["string", "array", "null"], items: { type: "string" } }),
  presence_penalty: optionalNumber(-2, 2),
  frequency_penalty: optionalNumber(-2, 2),
  logit_bias: optionalObject(),
  seed: optional(nullable("integer")),
  user: optionalText,
});

export const completion: Operation = {
  endpoints: [{ path: "/v1/completions", dialect: "openai-chat", schema: completionRequestSchema }],
  bills: "input and output",
  isRepeatable: true,
  cachesPrompts: true,
  reportsProgress: true,
  demandOf: ({ prompt, max_tokens: tokensMax, n, best_of: attempts, logprobs }) => ({
    outputTokensMax: tokensMax === 0 ? 1 : isCount(tokensMax) ? tokensMax : undefined,
    mediaTokens: undefined,
    choices: Math.min(choicesMax, promptsIn(prompt) * Math.max(isCount(n) ? n : 1, isCount(attempts) ? attempts : 1)),
    attachedTokens: 0,
    ...(promptsIn(prompt) > 1 && { prompts: promptsIn(prompt) }),
    ...listedTokensOf({ logprobs }),
  }),
};
