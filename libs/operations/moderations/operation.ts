/** Moderation of texts and images: https://platform.openai.com/docs/api-reference/moderations */
import Type from "typebox";
import { has, modelName, objectWith, optional, when, whenWith } from "#dialects/request-schema/schema-parts.ts";
import { promptsIn } from "../completions/prompts.ts";
import { plainDemandOf } from "../demand.ts";
import type { Operation } from "../operation.ts";

/**
 * The schema of requests for moderation:
 * https://platform.openai.com/docs/api-reference/moderations/create
 */

const text = { type: "string", maxLength: 1_000_000 };
const part = {
  type: "object",
  required: ["type"],
  properties: {
    type: { enum: ["text", "image_url"] },
    image_url: objectWith({ url: { type: "string" } }, "url"),
  },
  allOf: [whenWith(has("type", "text"), { text }, "text"), when(has("type", "image_url"), "image_url")],
};

const moderationRequestSchema = Type.Object({
  model: optional({ ...modelName, type: ["string", "null"] }),
  input: Type.Unsafe<unknown>({
    type: ["string", "array"],
    minLength: 1,
    minItems: 1,
    maxItems: 2_048,
    items: { if: { type: "object" }, then: part, else: { type: "string" } },
  }),
});

export const moderation: Operation = {
  endpoints: [
    {
      path: "/v1/moderations",
      dialect: "openai-chat",
      schema: moderationRequestSchema,
      modelDefault: "omni-moderation-latest",
    },
  ],
  bills: "input",
  isRepeatable: true,
  demandOf: ({ input }) => plainDemandOf(input, promptsIn(input)),
};
