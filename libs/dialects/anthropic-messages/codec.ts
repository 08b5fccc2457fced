/** The codec of Anthropic's Messages. */
import type { Codec } from "../codec.ts";
import { decodeAnswer, encodeAnswer, upstreamErrorOf } from "./answer.ts";
import { tokenCount } from "./count.ts";
import { decodeRequest, encodeRequest } from "./request.ts";
import { MessagesDecoder, MessagesEncoder } from "./stream.ts";
import { verbatim } from "./verbatim.ts";

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
