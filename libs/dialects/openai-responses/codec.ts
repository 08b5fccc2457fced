/** The codec of OpenAI's Responses. */

import { jsonOf } from "#wire/json/parse.ts";
import type { Codec, TokenCount } from "../codec.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { countIn } from "../usage.ts";
import { decodeAnswer, encodeAnswer } from "./answer.ts";
import { withResolvableReasoning } from "./replayed-items.ts";
import { decodeRequest, encodeRequest } from "./request.ts";
import { ResponsesDecoder } from "./stream-decoder.ts";
import { ResponsesEncoder } from "./stream-encoder.ts";
import { verbatim } from "./verbatim.ts";

// Counting a prompt's tokens in OpenAI's Responses format:
// https://platform.openai.com/docs/api-reference/responses/input-tokens

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

const tokenCount: TokenCount = {
  conversationOf: (body) => body,
  requestOf: (conversation, { model }) => ({
    path: "/responses/input_tokens",

    body: withResolvableReasoning(
      Buffer.from(
        jsonOf({
          model,
          ...Object.fromEntries(Object.entries(conversation).filter(([name]) => counted.includes(name))),
        }),
      ),
    ),
  }),
  countIn: ({ input_tokens: tokens }) => countIn(tokens),
  answerOf: (tokens) => jsonOf({ object: "response.input_tokens", input_tokens: tokens }),
};

export const openaiResponses: Codec = {
  decodeRequest,
  encodeRequest,
  streamDecoder: () => new ResponsesDecoder(),
  streamEncoder: (context) => new ResponsesEncoder(context),
  decodeAnswer,
  encodeAnswer,
  upstreamErrorOf,
  tokenCount,
  verbatim,
};
