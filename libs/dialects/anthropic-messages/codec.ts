/** The codec of Anthropic's Messages. */

import { jsonBytesOf } from "#wire/json/parse.ts";
import { withMembers } from "#wire/json/spans.ts";
import type { Codec, TokenCount } from "../codec.ts";
import { countIn } from "../usage.ts";
import { decodeAnswer, encodeAnswer, upstreamErrorOf } from "./answer.ts";
import { withoutForeignParts } from "./foreign.ts";
import { apiVersion, decodeRequest, encodeRequest } from "./request.ts";
import { MessagesDecoder, MessagesEncoder } from "./stream.ts";
import { outputTokensFilled } from "./thinking.ts";
import { verbatim } from "./verbatim.ts";

// Counting a prompt's tokens in Anthropic's Messages format:
// https://platform.claude.com/docs/en/api/messages/count_tokens

/** Fields that do not belong to the prompt; the endpoint rejects them. */
const answerFields = [
  "max_tokens",
  "stream",
  "stop_sequences",
  "temperature",
  "top_p",
  "top_k",
  "metadata",
  "service_tier",
  "container",
  "diagnostics",
  "inference_geo",
  "fallbacks",
  "fallback_credit_token",
];

const tokenCount: TokenCount = {
  conversationOf: (body) => ({ ...body, max_tokens: outputTokensFilled }),
  requestOf(conversation, { model }) {
    const fields = Object.entries(conversation).filter(([name]) => !answerFields.includes(name));
    const body = jsonBytesOf({ ...Object.fromEntries(fields), model });
    return {
      path: "/messages/count_tokens",
      headers: { "anthropic-version": apiVersion },
      body: withMembers(body, "messages", withoutForeignParts),
    };
  },
  countIn: ({ input_tokens: tokens }) => countIn(tokens),
  answerOf: (tokens) => JSON.stringify({ input_tokens: tokens }),
};

export const anthropicMessages: Codec = {
  decodeRequest,
  encodeRequest,
  streamDecoder: () => new MessagesDecoder(),
  streamEncoder: (context) => new MessagesEncoder(context),
  decodeAnswer,
  encodeAnswer,
  upstreamErrorOf,
  tokenCount,
  verbatim,
};
