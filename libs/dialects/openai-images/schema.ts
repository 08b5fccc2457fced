/** The schemas of requests for images in OpenAI's format: https://platform.openai.com/docs/api-reference/images */
import Type from "typebox";
import { nullable, optional, optionalInteger } from "../schema-parts.ts";

const common = {
  model: Type.String({ minLength: 1, maxLength: 256 }),
  prompt: Type.String({ minLength: 1, maxLength: 32_000 }),
  n: optionalInteger(1, 10),
  size: optional({ ...nullable("string"), pattern: "^(auto|[1-9]\\d{0,4}x[1-9]\\d{0,4})$" }),
  quality: optional(nullable("string")),
  background: optional(nullable("string")),
  output_format: optional(nullable("string")),
  output_compression: optionalInteger(0, 100),
  moderation: optional(nullable("string")),
  partial_images: optionalInteger(0, 3),
  stream: optional(nullable("boolean")),
  response_format: optional({ type: ["string", "null"], enum: ["url", "b64_json", null] }),
  input_fidelity: optional(nullable("string")),
  style: optional(nullable("string")),
  complexity: optional(nullable("string")),
  frame_count: optionalInteger(2, 16),
  frame_duration_ms: optionalInteger(1, 3_600_000),
  svg: optional(nullable("object")),
  user: optional(nullable("string")),
  safety_identifier: optional({ ...nullable("string"), maxLength: 128 }),
};

export const imageRequestSchema = Type.Object(common);

/** The fields of a form; files appear as their MIME types. */
export const imageEditSchema = Type.Object({
  ...common,
  image: Type.Array(Type.String({ pattern: "^image/" }), { minItems: 1, maxItems: 16 }),
  mask: Type.Optional(Type.String({ pattern: "^image/" })),
});
