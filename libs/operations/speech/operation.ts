/** Speech from a text: https://platform.openai.com/docs/api-reference/audio/createSpeech */
import Type from "typebox";
import { modelName, nullable, optional, optionalNumber, optionalText } from "#dialects/request-schema/schema-parts.ts";
import { speechBodyBytesMax } from "../bounds.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";
import { charactersIn } from "./characters.ts";

/**
 * The schema of requests for speech:
 * https://platform.openai.com/docs/api-reference/audio/createSpeech
 */

const speechRequestSchema = Type.Object({
  model: modelName,
  input: Type.String({ minLength: 1 }),
  voice: optional({ type: ["string", "object"], if: { type: "object" }, then: { required: ["id"] } }),
  instructions: optionalText,
  response_format: optionalText,
  speed: optionalNumber(0.25, 4),
  stream_format: optional(nullable("string", { enum: ["audio", "sse", null] })),
});

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
