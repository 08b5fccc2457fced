/** The codec of OpenAI's chat completions. */
import type { Codec } from "../codec.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { decodeAnswer, encodeAnswer } from "./answer.ts";
import { decodeRequest, encodeRequest } from "./request.ts";
import { ChatDecoder, ChatEncoder } from "./stream.ts";
import { verbatim } from "./verbatim.ts";

export const openaiChat: Codec = {
  decodeRequest,
  encodeRequest,
  streamDecoder: () => new ChatDecoder(),
  streamEncoder: (context) => new ChatEncoder(context),
  decodeAnswer,
  encodeAnswer,
  upstreamErrorOf,
  verbatim,
};
