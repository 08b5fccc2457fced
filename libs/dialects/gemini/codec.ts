/** The codec of Google's Gemini. */
import type { Codec } from "../codec.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { decodeAnswer, encodeAnswer } from "./answer.ts";
import { decodeRequest, encodeRequest } from "./request.ts";
import { GeminiDecoder, GeminiEncoder } from "./stream.ts";
import { tokenCount } from "./token-count.ts";
import { verbatim } from "./verbatim.ts";

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
