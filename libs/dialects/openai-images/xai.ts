/**
 * Edits by xAI's models, which take JSON in a form of their own and refuse forms with files:
 * https://docs.x.ai/developers/model-capabilities/images/editing,
 * https://github.com/vercel/ai/pull/12442
 */
import { type JsonObject, jsonBytesOf } from "#wire/json/parse.ts";
import type { WireRequest } from "../codec.ts";
import { refuse } from "../neutral/field-support.ts";
import type { Attachment } from "../neutral/neutral.ts";
import { imagesOf } from "./form.ts";

/** True for the upstream's name of a model of xAI. */
export const isXaiImageModel = (model: string): boolean => /(?:^|\/)grok-/i.test(model);

/**
 * `values` are the fields of `form`, which has the images, and `sources` those at addresses, by
 * their places. Throws Refusal for a mask at an address.
 */
export async function xaiEditOf(
  { image: _, mask: __, ...values }: JsonObject,
  form: FormData,
  sources: ReadonlyMap<number, Attachment>,
  path: string,
  model: string,
): Promise<WireRequest> {
  const images = await Promise.all(imagesOf(form).map((file, place) => referenceOf(file, sources.get(place))));
  const mask = form.get("mask");
  if (mask instanceof File && mask.size === 0) refuse("mask", "must be a data URL for this model");
  const body = {
    ...values,
    model,
    ...(images.length === 1 ? { image: images[0] } : { images }),
    ...(mask instanceof File && { mask: await referenceOf(mask, undefined) }),
  };
  return { path, body: jsonBytesOf(body) };
}

async function referenceOf(file: File, source: Attachment | undefined) {
  const { type, data } =
    source?.kind === "data"
      ? { type: source.mimeType, data: source.data }
      : { type: file.type, data: Buffer.from(await file.arrayBuffer()).toString("base64") };
  return { type: "image_url", url: source?.kind === "url" ? source.url : `data:${type};base64,${data}` };
}
