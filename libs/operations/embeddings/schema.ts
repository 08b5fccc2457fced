/** The schemas of requests for embeddings, in OpenAI's and in Google's format. */
import Type from "typebox";
import { nullable, optional } from "#dialects/request-schema/schema-parts.ts";
import { embeddedTextsMax } from "../bounds.ts";

export const embeddingRequestSchema = Type.Object({
  model: Type.String({ minLength: 1, maxLength: 256 }),
  input: Type.Unsafe<unknown>({
    type: ["string", "array"],
    minItems: 1,
    minLength: 1,
    maxItems: 100_000,
    items: { type: ["string", "integer", "array"], minimum: 0, minItems: 1, items: { type: "integer", minimum: 0 } },
    // A list of token ids is one input; of texts or lists there are only so many.
    if: { type: "array", items: { type: ["string", "array"] } },
    then: { maxItems: embeddedTextsMax },
  }),
  dimensions: optional({ ...nullable("integer"), minimum: 1, maximum: 65_536 }),
  encoding_format: Type.Optional(Type.Enum(["float", "base64"])),
  user: optional(nullable("string")),
});

const part = { type: "object", properties: { text: nullable("string") } };
const content = {
  type: "object",
  required: ["parts"],
  properties: { parts: { type: "array", minItems: 1, maxItems: 1_000, items: part } },
};
const size = { ...nullable("integer"), minimum: 1, maximum: 65_536 };
const googleEmbedding = {
  content,
  model: nullable("string"),
  taskType: nullable("string"),
  task_type: nullable("string"),
  title: nullable("string"),
  outputDimensionality: size,
  output_dimensionality: size,
  embedContentConfig: {
    ...nullable("object"),
    properties: { outputDimensionality: size, output_dimensionality: size },
  },
};

export const embedContentSchema = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  required: ["content"],
  properties: { ...googleEmbedding, requests: { type: "null" } },
});
export const batchEmbedContentsSchema = Type.Unsafe<Record<string, unknown>>({
  type: "object",
  required: ["requests"],
  properties: {
    requests: {
      type: "array",
      minItems: 1,
      maxItems: embeddedTextsMax,
      items: { type: "object", required: ["content"], properties: googleEmbedding },
    },
  },
});
