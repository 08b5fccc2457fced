/** The fields of forms for images. */
import { flagIn, numberIn } from "#wire/form.ts";
import { isPresent, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { type AttachmentAddress, attachmentOf, mimeTypeOf } from "../neutral/attachments.ts";
import { refuse } from "../neutral/field-support.ts";
import { type AttachmentFinder, dataUrlAt } from "../relay/verbatim-attachments.ts";

const integers = ["n", "output_compression", "partial_images", "frame_count", "frame_duration_ms"];

const fileFields = ["image", "image[]", "mask"];
/** The most bytes that tell an image's type. */
const headBytes = 16;
const typesByEnding: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  webp: "image/webp",
};

/**
 * A copy of the form in which images and masks without a type of their own have the type that their
 * first bytes, or else their names, tell.
 */
export async function typedFormOf(form: FormData): Promise<FormData> {
  const typed = new FormData();
  for (const [name, value] of form)
    typed.append(name, value instanceof File && fileFields.includes(name) ? await typedFileOf(value) : value);
  return typed;
}

async function typedFileOf(file: File): Promise<File> {
  if (file.type !== "application/octet-stream") return file;
  const head = Buffer.from(await file.slice(0, headBytes).arrayBuffer());
  const type = mimeTypeOf(head) ?? typesByEnding[/\.(\w+)$/.exec(file.name)?.[1]?.toLowerCase() ?? ""];
  return type === undefined ? file : new File([file], file.name, { type });
}

/**
 * An edit that is JSON in OpenAI's form; the same object if it is in it. In xAI's form an edit has
 * one `image`, and images have a `url`; clients of other gateways send plain texts.
 * https://docs.x.ai/developers/model-capabilities/images/editing,
 * https://github.com/basketikun/chatgpt2api/pull/146
 */
export function openaiEditOf(edit: JsonObject): JsonObject {
  const { image, images, mask, ...fields } = edit;
  const references = [image, images].flat().filter(isPresent);
  const own = references.map(openaiReferenceOf);
  const ownMask = openaiReferenceOf(mask);
  const isOwn = image === undefined && ownMask === mask && own.every((one, place) => one === references[place]);
  return isOwn ? edit : { ...fields, images: own, ...(isPresent(mask) && { mask: ownMask }) };
}

function openaiReferenceOf(reference: unknown): unknown {
  if (typeof reference === "string") return { image_url: reference };
  const { image_url: address, url = objectOf(address).url } = objectOf(reference);
  return typeof url === "string" && typeof address !== "string" ? { image_url: url } : reference;
}

/**
 * The form for an edit that is JSON, as Codex sends it. An image at an address is an empty file.
 * Throws Refusal for an image that is neither an address nor in the body.
 * https://developers.openai.com/api/reference/resources/images/methods/edit
 */
export function formOfJson(edit: JsonObject): FormData {
  const { images, mask, ...fields } = openaiEditOf(edit);
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) if (isPresent(value)) form.append(name, String(value));
  for (const [place, image] of listOf(images).entries()) form.append("image[]", fileOf(image, `images[${place}]`));
  if (isPresent(mask)) form.append("mask", fileOf(mask, "mask"));
  return form;
}

function fileOf(reference: unknown, path: string): File {
  const { image_url: url, file_id: id } = objectOf(reference);
  if (isPresent(id) && !isPresent(url)) refuse(`${path}.file_id`, "must be 'image_url': send the image or its address");
  const image = attachmentOf(String(url), `${path}.image_url`);
  if (image.kind === "url") return new File([], "address", { type: "image/*" });
  const { mimeType, data } = image;
  return new File([Buffer.from(data, "base64")], mimeType.replace("/", "."), { type: mimeType });
}

/** The addresses of an edit's images, by their places. */
export function addressesIn({ images }: JsonObject): Map<number, AttachmentAddress> {
  const urls = listOf(images).map((image) => String(objectOf(image).image_url));
  const addresses = urls.map(
    (url, place) => [place, { part: "image", url, path: `images[${place}].image_url` }] as const,
  );
  return new Map(addresses.filter(([, { url }]) => isAddress(url)));
}

/** True for an edit with an image or a mask at an address. */
export const hasAddress = (edit: JsonObject): boolean =>
  addressesIn(edit).size > 0 || isAddress(String(objectOf(edit.mask).image_url));

const isAddress = (url: string) => /^https?:/i.test(url);

/** Finds the images of an edit that is JSON. */
export const editFinder: AttachmentFinder = {
  marks: ['_url"'],
  names: ["image_url"],
  placeOf: (path, _bytes, string) =>
    /^(?:images|mask)\.image_url$/.test(path) ? dataUrlAt(string, "image") : undefined,
};

/** The images of a form: `image`, or several `image[]`. */
export const imagesOf = (form: FormData): File[] =>
  [...form.getAll("image"), ...form.getAll("image[]")].filter((value) => value instanceof File);

/**
 * The fields as values for a schema check: images and masks as their MIME types, other files as a
 * value that no field allows; texts as numbers and booleans where they spell one.
 */
export function valuesOf(form: FormData): JsonObject {
  const values: JsonObject = {};
  for (const [name, value] of form) {
    if ((name === "image" || name === "image[]") && value instanceof File) continue;
    if (value instanceof File) values[name] = name === "mask" ? value.type : {};
    else if (name === "stream") values[name] = flagIn(value);
    else values[name] = integers.includes(name) ? numberIn(value) : value;
  }
  const images = imagesOf(form).map(({ type }) => type);
  if (images.length > 0) values.image = images;
  return values;
}
