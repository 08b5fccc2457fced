/**
 * The schema of requests for speech:
 * https://platform.openai.com/docs/api-reference/audio/createSpeech
 */
import Type from "typebox";
import { modelName, optional, optionalNumber, optionalText } from "#dialects/request-schema/schema-parts.ts";

export const speechRequestSchema = Type.Object({
  model: modelName,
  input: Type.String({ minLength: 1 }),
  voice: optional({ type: ["string", "object"], if: { type: "object" }, then: { required: ["id"] } }),
  instructions: optionalText,
  response_format: optionalText,
  speed: optionalNumber(0.25, 4),
  stream_format: optional({ type: ["string", "null"], enum: ["audio", "sse", null] }),
});
