/**
 * Serves OpenAI's images format with Gemini's models, which generate images in a conversation:
 * https://ai.google.dev/gemini-api/docs/image-generation
 */

import { isPresent, type JsonObject, jsonBytesOf, jsonOf } from "#wire/json/parse.ts";
import type { WholeAnswer, WireRequest } from "../codec.ts";
import { codecs } from "../codecs.ts";
import { pathOf } from "../gemini/names.ts";
import { mimeTypeOf } from "../neutral/attachments.ts";
import { refuse } from "../neutral/field-support.ts";
import { type Attachment, foldedOf, textsIn } from "../neutral/neutral.ts";
import { generatedImagesOf, plainUsageOf } from "../usage.ts";
import { imagesOf } from "./form.ts";
import type { Looks } from "./verbatim.ts";

/** Fields that these models do not support, and the values that have no effect. */
const refused: Record<string, readonly unknown[]> = {
  n: [1],
  mask: [],
  background: ["auto", "opaque"],
  output_compression: [100],
  response_format: ["b64_json"],
};

const ratios = ["1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9"];

/**
 * Throws Refusal, naming the field. `form` has the images of an edit, and `sources` those at
 * addresses, by their places.
 */
export async function geminiImageRequestOf(
  values: JsonObject,
  form: FormData | undefined,
  sources: ReadonlyMap<number, Attachment>,
  model: string,
): Promise<WireRequest> {
  for (const [name, harmless] of Object.entries(refused))
    if (isPresent(values[name]) && !harmless.includes(values[name])) refuse(name);
  const files = form === undefined ? [] : imagesOf(form);
  const pictures = await Promise.all(
    files.map((file, place) => {
      const source = sources.get(place);
      return source === undefined ? partOf(file, place) : remotePartOf(source);
    }),
  );
  const body = {
    contents: [{ role: "user", parts: [...pictures, { text: String(values.prompt) }] }],
    generationConfig: {
      responseModalities: ["IMAGE"],
      imageConfig: imageConfigOf(String(values.size ?? "auto")),
    },
  };
  return { path: pathOf(model, "generateContent"), body: jsonBytesOf(body) };
}

const remotePartOf = (source: Attachment) =>
  source.kind === "url"
    ? { fileData: { fileUri: source.url } }
    : { inlineData: { mimeType: source.mimeType, data: source.data } };

async function partOf(file: File, place: number) {
  const bytes = Buffer.from(await file.arrayBuffer());
  const mimeType = mimeTypeOf(bytes);
  if (mimeType === undefined || !mimeType.startsWith("image/"))
    return refuse(`image[${place}]`, "is not an image that this model reads: PNG, JPEG, GIF or WebP");
  return { inlineData: { mimeType, data: bytes.toString("base64") } };
}

/**
 * A size such as `2K`, or the nearest aspect ratio that these models support; undefined to let the
 * model choose.
 */
function imageConfigOf(size: string) {
  if (size === "auto" || size === "adaptive") return undefined;
  if (/^\dK$/.test(size)) return { imageSize: size };
  const [, width, height] = /^(\d+)[x*:](\d+)$/i.exec(size) ?? [];
  if (!(Number(width) > 0 && Number(height) > 0))
    refuse("size", "must be such as 1024x1536, 16:9, 2K or auto for this model");
  const wanted = Math.log(Number(width) / Number(height));
  const distanceOf = (ratio: string) => {
    const [across, down] = ratio.split(":").map(Number);
    return Math.abs(Math.log((across as number) / (down as number)) - wanted);
  };
  return { aspectRatio: ratios.toSorted((left, right) => distanceOf(left) - distanceOf(right))[0] };
}

/**
 * `name` is the prefix of event names for a stream, `image_generation` or `image_edit`; undefined
 * for a whole answer. `asked` is the request.
 */
export function geminiImageAnswerOf(
  answer: JsonObject,
  createdAt: number,
  name: string | undefined,
  requestedLooks: Looks,
): WholeAnswer {
  const folded = foldedOf(codecs.gemini.decodeAnswer(answer));
  if (folded === undefined) return { kind: "malformed" };
  if ("error" in folded) return { kind: "error", error: folded.error };
  const { blocks, usage } = folded;
  const image = blocks.find((block) => block.kind === "image");
  if (image === undefined) {
    const text = textsIn(blocks).join(" ");
    const message =
      text === "" ? "The model made no picture of this." : `The model made no picture of this: ${text.slice(0, 500)}`;
    return { kind: "error", error: { message, means: "content_filter", status: 400 } };
  }
  const pictured = usage?.units?.imageInputTokens ?? 0;
  const counted = usage && {
    usage: {
      input_tokens: usage.inputTokens,
      input_tokens_details: { text_tokens: usage.inputTokens - pictured, image_tokens: pictured },
      output_tokens: usage.outputTokens,
      total_tokens: usage.inputTokens + usage.outputTokens,
    },
  };
  const format = image.mimeType.slice("image/".length);
  const body =
    name === undefined
      ? jsonOf({ created: createdAt, data: [{ b64_json: image.data }], output_format: format, ...counted })
      : `event: ${name}.completed\ndata: ${jsonOf({ type: `${name}.completed`, b64_json: image.data, created_at: createdAt, output_format: format, ...counted })}\n\n`;
  const images = generatedImagesOf(1, requestedLooks);
  return { kind: "answer", body: Buffer.from(body), usage: { ...(usage ?? plainUsageOf(0)), images } };
}
