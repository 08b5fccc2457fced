/** Speech from a text: https://platform.openai.com/docs/api-reference/audio/createSpeech */
import { speechBodyBytesMax } from "../bounds.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { charactersIn } from "./characters.ts";
import { speechRequestSchema } from "./schema.ts";

export const speech: Operation = {
  endpoints: [
    {
      path: "/v1/audio/speech",
      dialect: "openai-chat",
      schema: speechRequestSchema,
      bodyBytesMax: speechBodyBytesMax,
      framingOf: ({ stream_format: format }) => (format === "sse" ? "sse" : "bytes"),
    },
  ],
  bills: "input",
  // Its characters are counted instead.
  inputTokensMax: 0,
  isRepeatable: true,
  demandOf: ({ input }) => ({ ...plainDemandOf(), attachedTokens: charactersIn(input) }),
};
