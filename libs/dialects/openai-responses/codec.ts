/** The codec of OpenAI's Responses. */

import type { Codec } from "../codec.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { decodeAnswer, encodeAnswer } from "./answer.ts";
import { decodeRequest, encodeRequest } from "./request.ts";
import { ResponsesDecoder } from "./stream-decoder.ts";
import { ResponsesEncoder } from "./stream-encoder.ts";
import { tokenCount } from "./token-count.ts";
import { verbatim } from "./verbatim.ts";

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
