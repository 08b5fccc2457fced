/**
 * Counting a prompt's tokens in OpenAI's Responses format:
 * https://platform.openai.com/docs/api-reference/responses/input-tokens
 */

import { jsonOf } from "#wire/json/parse.ts";
import type { TokenCount } from "../codec.ts";
import { withResolvableReasoning } from "./replayed-items.ts";

/** The fields of a request that make up its prompt. */
const counted = [
  "input",
  "instructions",
  "parallel_tool_calls",
  "reasoning",
  "text",
  "tool_choice",
  "tools",
  "truncation",
  "personality",
];

export const tokenCount: TokenCount = {
  conversationOf: (body) => body,
  requestOf: (conversation, { model }) => ({
    path: "/responses/input_tokens",
    headers: {},
    body: withResolvableReasoning(
      Buffer.from(
        jsonOf({
          model,
          ...Object.fromEntries(Object.entries(conversation).filter(([name]) => counted.includes(name))),
        }),
      ),
    ),
  }),
  countIn: ({ input_tokens: tokens }) => (typeof tokens === "number" ? tokens : undefined),
  answerOf: (tokens) => jsonOf({ object: "response.input_tokens", input_tokens: tokens }),
};
