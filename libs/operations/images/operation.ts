/**
 * Images from a prompt, and edits of images: https://platform.openai.com/docs/api-reference/images
 */

import { formOfJson, typedFormOf, valuesOf } from "#dialects/openai-images/form.ts";
import { imageEditSchema, imageRequestSchema, imageVariationSchema } from "#dialects/openai-images/schema.ts";
import { isCount } from "#dialects/profile.ts";
import { generatedImagesOf } from "#dialects/usage.ts";
import { type JsonObject, objectOf } from "#wire/json/parse.ts";
import { choicesMax, imageBytes, imagePromptBytesMax, pixelBytes } from "../bounds.ts";
import type { Demand } from "../demand.ts";
import type { Operation } from "../operation.ts";

/** A form is mostly images, which are counted separately. */
const formTokensMax = 1_000;
/**
 * Output tokens for 1024 × 1024 pixels:
 * https://platform.openai.com/docs/guides/image-generation#cost-and-latency. Where no number is
 * published, four times the highest.
 */
const imageTokens: Record<string, number> = {
  low: 272,
  medium: 1_056,
  standard: 1_056,
  high: 4_160,
  hd: 4_160,
  auto: 4_160,
};
const imageTokensDefault = 16_640;
const imagePixels = 1_024 * 1_024;
/** The largest of the sizes that `auto` may choose. */
const autoPixels = 1_024 * 1_536;
const partialImageTokens = 100;
/** The largest image as input, at high fidelity. */
const inputImageTokens = 6_240;

function demandOf(body: JsonObject): Demand {
  const { frame_count: frames, sequential_image_generation_options: sequence } = body;
  // Seedream's: https://docs.byteplus.com/en/docs/ModelArk/1541523
  const { max_images: n = body.n } = objectOf(sequence);
  const count = Math.min(choicesMax, (isCount(n) ? n : 1) * (isCount(frames) ? frames : 1));
  return {
    outputTokensMax: undefined,
    mediaTokens: tokensOfEach(body),
    choices: count,
    attachedTokens: 0,
    images: generatedImagesOf(count, body),
    dataBytes: count * Math.max(imageBytes, pixelsOf(body) * pixelBytes),
  };
}

function pixelsOf({ size }: JsonObject): number {
  const [, width, height, side] = /^(?:(\d{1,5})[x*](\d{1,5})|(\d(?:\.\d)?)K)$/i.exec(String(size ?? "")) ?? [];
  if (side !== undefined) return (Number(side) * 1_024) ** 2;
  return width === undefined ? autoPixels : Number(width) * Number(height);
}

function tokensOfEach(body: JsonObject): number {
  const { quality, partial_images: partial } = body;
  const pixels = pixelsOf(body);
  const tokens = imageTokens[String(quality ?? "auto")] ?? imageTokensDefault;
  return Math.ceil((tokens * pixels) / imagePixels) + (isCount(partial) ? partial * partialImageTokens : 0);
}

/** In a parsed form, each file is represented by its MIME type. */
const filesOf = ({ image, mask }: JsonObject) =>
  (Array.isArray(image) ? image.length : 0) + (mask === undefined ? 0 : 1);

/** An image may have been generated and billed even if the response did not arrive. */
const isRepeatable = false;

export const imageGeneration: Operation = {
  endpoints: [
    {
      path: "/v1/images/generations",
      dialect: "openai-chat",
      schema: imageRequestSchema,
      bodyBytesMax: imagePromptBytesMax,
    },
  ],
  bills: "input and output",
  isRepeatable,
  demandOf,
};

const imageForm: Omit<Operation, "endpoints"> = {
  formValuesOf: async (form) => valuesOf(await typedFormOf(form)),
  bills: "input and output",
  inputTokensMax: formTokensMax,
  isRepeatable,
  demandOf: (body) => ({ ...demandOf(body), attachedTokens: filesOf(body) * inputImageTokens }),
};

export const imageEdit: Operation = {
  ...imageForm,
  formOfJson,
  endpoints: [{ path: "/v1/images/edits", dialect: "openai-chat", schema: imageEditSchema }],
};

/** OpenAI has retired its models for it; other servers have some. */
export const imageVariation: Operation = {
  ...imageForm,
  endpoints: [
    { path: "/v1/images/variations", dialect: "openai-chat", schema: imageVariationSchema, modelDefault: "dall-e-2" },
  ],
};
