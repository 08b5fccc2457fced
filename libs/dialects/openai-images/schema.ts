/**
 * The schemas of requests for images in OpenAI's format:
 * https://platform.openai.com/docs/api-reference/images
 */
import Type from "typebox";
import {
  modelName,
  nullable,
  optional,
  optionalFlag,
  optionalInteger,
  optionalObject,
  optionalText,
  optionalTexts,
  safetyIdentifier,
} from "../request-schema/schema-parts.ts";

const common = {
  model: modelName,
  prompt: Type.String({ minLength: 1, maxLength: 32_000 }),
  n: optionalInteger(1, 10),
  // Other vendors also take `2K`, `16:9`, `1024*1024` or `adaptive`.
  size: optional(nullable("string", { pattern: "^[\\w.:*-]{1,32}$" })),
  ...optionalTexts("quality", "background", "output_format"),
  output_compression: optionalInteger(0, 100),
  moderation: optionalText,
  partial_images: optionalInteger(0, 3),
  stream: optionalFlag,
  response_format: optional(nullable("string", { enum: ["url", "b64_json", null] })),
  ...optionalTexts("input_fidelity", "style", "complexity"),
  frame_count: optionalInteger(2, 16),
  frame_duration_ms: optionalInteger(1, 3_600_000),
  svg: optionalObject(),
  user: optionalText,
  safety_identifier: safetyIdentifier,
};

export const imageRequestSchema = Type.Object(common);

/** The fields of a form; the image appears as its MIME type. */
export const imageVariationSchema = Type.Object({
  model: Type.Optional(modelName),
  image: Type.Array(Type.String({ pattern: "^image/" }), { minItems: 1, maxItems: 1 }),
  n: common.n,
  size: common.size,
  response_format: common.response_format,
  user: optionalText,
});

/** The fields of a form; files appear as their MIME types. */
export const imageEditSchema = Type.Object({
  ...common,
  image: Type.Array(Type.String({ pattern: "^image/" }), { minItems: 1, maxItems: 16 }),
  mask: Type.Optional(Type.String({ pattern: "^image/" })),
});
