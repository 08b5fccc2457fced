/** The codec of Google's Gemini. */

import { isPresent, type JsonObject, jsonBytesOf, jsonOf, objectOf } from "#wire/json/parse.ts";
import type { Codec, TokenCount } from "../codec.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { countIn } from "../usage.ts";
import { decodeAnswer, encodeAnswer, GeminiDecoder } from "./answer.ts";
import { pathOf, resourceOf } from "./names.ts";
import { decodeRequest, encodeRequest } from "./request.ts";
import { GeminiEncoder } from "./stream.ts";
import { verbatim } from "./verbatim.ts";

// Counting a prompt's tokens in Google's Gemini format: https://ai.google.dev/api/tokens

/** Fields of the counted conversation other than its contents. */
const isMore = (name: string) => name !== "contents" && name !== "model";

/** The complete request whose tokens are counted, if there is one. */
function wholeIn(body: JsonObject): JsonObject | undefined {
  const whole = body.generateContentRequest ?? body.generate_content_request;
  return isPresent(whole) ? objectOf(whole) : undefined;
}

const tokenCount: TokenCount = {
  conversationOf: (body) => wholeIn(body) ?? body,
  prefixOf: (body) => (wholeIn(body) === undefined ? "" : "generateContentRequest."),
  /**
   * Contents alone are sent in the plain form that all of Google's endpoints read; only some read a
   * complete request.
   */
  requestOf(conversation, { model }) {
    const { contents } = conversation;
    const body = Object.keys(conversation).some(isMore)
      ? { generateContentRequest: { ...conversation, model: resourceOf(model) } }
      : { contents };
    return { path: pathOf(model, "countTokens"), body: jsonBytesOf(body) };
  },
  countIn: ({ totalTokens }) => countIn(totalTokens),
  answerOf: (tokens) => jsonOf({ totalTokens: tokens }),
};

export const gemini: Codec = {
  decodeRequest,
  encodeRequest,
  streamDecoder: () => new GeminiDecoder(),
  streamEncoder: (context) => new GeminiEncoder(context),
  decodeAnswer,
  encodeAnswer,
  upstreamErrorOf,
  tokenCount,
  verbatim,
};
