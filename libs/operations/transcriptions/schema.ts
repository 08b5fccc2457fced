/**
 * The schemas of forms with a recording:
 * https://platform.openai.com/docs/api-reference/audio/createTranscription
 */
import Type from "typebox";
import { modelName, optional, optionalFlag, optionalText } from "#dialects/request-schema/schema-parts.ts";

const transcriptFormats = ["json", "text", "srt", "verbose_json", "vtt", "diarized_json"] as const;
export type TranscriptFormat = (typeof transcriptFormats)[number];

const common = {
  model: modelName,
  file: Type.Unsafe<object>({
    type: ["object", "array"],
    maxItems: 1,
    required: ["name", "type", "size"],
    properties: { size: { minimum: 1 } },
  }),
  prompt: optionalText,
  temperature: optional({ type: "number", minimum: 0, maximum: 1 }),
  response_format: Type.Optional(Type.Enum(transcriptFormats)),
};

export const translationFormSchema = Type.Object(common);

export const transcriptionFormSchema = Type.Object({
  ...common,
  language: optionalText,
  stream: optionalFlag,
  include: optional({ type: "array", items: { type: "string" } }),
  known_speaker_references: optional({ type: "array", items: { type: "string", pattern: "^data:" } }),
  timestamp_granularities: optional({ type: "array", items: { enum: ["word", "segment"] } }),
});
