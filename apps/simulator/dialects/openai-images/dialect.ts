/**
 * OpenAI images: POST /v1/images/generations and /v1/images/edits, streamed and whole, and
 * /v1/images/variations.
 */

import { crc32 } from "node:zlib";
import { promptTokensOf, seedOf } from "../../answer/chunks.ts";
import { pngOf } from "../../answer/png.ts";
import type { Settings } from "../../settings.ts";
import { createdOf, type Script, type Whole, wholeOf } from "../dialect.ts";
import { eventOf } from "../event.ts";
import { openaiDialect, openaiErrorOf } from "../openai.ts";
import { type ImagesQuestion, imagesQuestionOf } from "./request.ts";

// The images of an answer, whole or as a stream with partial images.

/** The tokens of an image, for its usage and for the pace. */
const imageTokens = 272;
const attachmentTokens = 194;

interface ImagesRequest {
  question: ImagesQuestion;
  /** Hex SHA-256 of the body. */
  digest: string;
  settings: Settings;
}

/** A partial image, or without a number the final one. */
function pictureOf(
  { question: { prompt, width, height, sources }, settings }: ImagesRequest,
  image: number,
  partial = 0,
): string {
  const files = sources === undefined ? [] : [...sources.images, ...(sources.mask ? [sources.mask] : [])];
  const seed =
    files.reduce((mixed, { data }) => crc32(data, mixed), (seedOf(prompt) + image * 0x9e3779b1) >>> 0) +
    partial * 0x85ebca6b;
  return pngOf({ width, height, seed: seed >>> 0, bytesMin: settings.imageBytesMin }).toString("base64");
}

function usageOf({ prompt, sources }: ImagesQuestion, images: number) {
  const textTokens = promptTokensOf(prompt);
  const imagesIn = attachmentTokens * (sources?.images.length ?? 0);
  const outputTokens = imageTokens * images;
  return {
    input_tokens: textTokens + imagesIn,
    input_tokens_details: { text_tokens: textTokens, image_tokens: imagesIn },
    output_tokens: outputTokens,
    output_tokens_details: { text_tokens: 0, image_tokens: outputTokens },
    total_tokens: textTokens + imagesIn + outputTokens,
  };
}

const looksOf = ({ width, height }: ImagesQuestion) => ({
  background: "opaque",
  output_format: "png",
  quality: "low",
  size: `${width}x${height}`,
});

/** Describes the edited images, so that the caller sees that they arrived. */
function revisedPromptOf({ prompt, sources }: ImagesQuestion): { revised_prompt?: string } {
  if (sources === undefined) return {};
  const described = ({ name, type, data }: { name: string; type: string; data: Buffer }) =>
    `${name}, ${type}, ${data.length} bytes`;
  const mask = sources.mask === undefined ? "" : `; with a mask: ${described(sources.mask)}`;
  return { revised_prompt: `${prompt} (from ${sources.images.map(described).join("; ")}${mask})` };
}

function imagesWholeOf(request: ImagesRequest): Whole {
  const { question, digest, settings } = request;
  const data = Array.from({ length: question.count }, (_, index) => {
    const picture = pictureOf(request, index);
    return {
      ...(question.byAddress ? { url: `data:image/png;base64,${picture}` } : { b64_json: picture }),
      ...revisedPromptOf(question),
    };
  });
  const usage = settings.usage === "never" ? {} : { usage: usageOf(question, question.count) };
  return wholeOf({ created: createdOf(digest), ...looksOf(question), data, ...usage }, imageTokens * question.count);
}

/**
 * An image takes as many tokens as its usage, most of them without an event; partial images are
 * spread evenly.
 */
function imagesScriptOf(request: ImagesRequest): Script {
  const { question, digest, settings } = request;
  const { count, partialsPerImage } = question;
  const name = question.sources === undefined ? "image_generation" : "image_edit";
  const common = { created_at: createdOf(digest), ...looksOf(question) };
  const usage = settings.usage === "never" ? {} : { usage: usageOf(question, 1) };
  const places = Array.from(
    { length: partialsPerImage },
    (_, index) => Math.floor((imageTokens * (index + 1)) / (partialsPerImage + 1)) - 1,
  );
  const done = (image: number) =>
    eventOf({ type: `${name}.completed`, b64_json: pictureOf(request, image), ...common, ...usage });
  function* events(): Generator<string, string> {
    for (let image = 0; image < count; image++)
      for (let token = 0; token < imageTokens; token++) {
        const partial = places.indexOf(token);
        if (token === imageTokens - 1 && image < count - 1) yield done(image);
        else if (partial < 0) yield "";
        else
          yield eventOf({
            type: `${name}.partial_image`,
            b64_json: pictureOf(request, image, partial + 1),
            partial_image_index: partial,
            ...common,
          });
      }
    return "";
  }
  return {
    kind: "events",
    opening: "",
    length: imageTokens * count,
    events: events(),
    get terminator() {
      return done(count - 1);
    },
    errorEvent: (message) => eventOf({ type: "error", error: openaiErrorOf({ status: 500, message }) }),
  };
}

const generations = "/v1/images/generations";
const edits = "/v1/images/edits";
const variations = "/v1/images/variations";

export const openaiImages = openaiDialect(
  "openai-images",
  [generations, edits, variations],
  ({ path, body, digest, settings }) => {
    const question = imagesQuestionOf(path === variations ? { ...Object(body), prompt: "a variation" } : body, {
      editing: path !== generations,
    });
    return (question.stream ? imagesScriptOf : imagesWholeOf)({ question, digest, settings });
  },
);
