/**
 * The schema of requests for moderation:
 * https://platform.openai.com/docs/api-reference/moderations/create
 */
import Type from "typebox";
import { has, modelName, objectWith, when } from "#dialects/request-schema/schema-parts.ts";

const text = { type: "string", maxLength: 1_000_000 };
const part = {
  type: "object",
  required: ["type"],
  properties: {
    type: { enum: ["text", "image_url"] },
    text,
    image_url: objectWith({ url: { type: "string" } }, "url"),
  },
  allOf: [when(has("type", "text"), "text"), when(has("type", "image_url"), "image_url")],
};

export const moderationRequestSchema = Type.Object({
  model: Type.Optional(modelName),
  input: Type.Unsafe<unknown>({
    type: ["string", "array"],
    minLength: 1,
    minItems: 1,
    maxItems: 2_048,
    items: { if: { type: "object" }, then: part, else: { type: "string" } },
  }),
});
