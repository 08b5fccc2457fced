/** Reads a request for images: JSON for new ones, a form for edits of attached ones. */
import { type FormFile, isFile } from "../../request-body.ts";
import { refuse } from "../dialect.ts";
import {
  compiled,
  exactly,
  nullable,
  nullableFlag,
  nullableInteger,
  nullableText,
  object,
  oneOf,
  shaped,
  string,
} from "../shape.ts";

const imagesRequest = compiled(
  object({
    prompt: string({ minLength: 1, maxLength: 32_000 }),
    model: nullableText,
    n: nullableInteger(1, 10),
    size: nullable(string({ pattern: "^(auto|[1-9][0-9]{1,3}x[1-9][0-9]{1,3})$" })),
    response_format: nullable(oneOf(["b64_json", "url"])),
    output_format: nullable(exactly("png")),
    stream: nullableFlag,
    partial_images: nullableInteger(0, 3),
  }),
);

const sideMax = 3_840;
const attachmentsMax = 16;
const attachmentTypes = ["image/png", "image/jpeg", "image/webp"];

export interface ImagesQuestion {
  prompt: string;
  count: number;
  width: number;
  height: number;
  byAddress: boolean;
  stream: boolean;
  /** The number of partial images before each final one. */
  partialsPerImage: number;
  /** The images to edit; undefined for new images. */
  sources: { images: FormFile[]; mask: FormFile | undefined } | undefined;
}

export function imagesQuestionOf(body: unknown, { editing }: { editing: boolean }): ImagesQuestion {
  const fields = shaped(imagesRequest, editing ? typed(body) : body);
  const [width = 1_024, height = 1_024] =
    (fields.size ?? "auto") === "auto" ? [] : (fields.size ?? "").split("x").map(Number);
  if (width > sideMax || height > sideMax) refuse(`size: a side is at most ${sideMax} pixels.`, "size");
  return {
    prompt: fields.prompt,
    count: fields.n ?? 1,
    width,
    height,
    byAddress: fields.response_format === "url",
    stream: fields.stream ?? false,
    partialsPerImage: fields.partial_images ?? 0,
    sources: editing ? attachmentsOf(body) : undefined,
  };
}

/** A form has only texts, so numbers and flags are parsed. */
function typed(form: unknown): unknown {
  if (typeof form !== "object" || form === null) return form;
  const fields: Record<string, unknown> = { ...form };
  for (const name of ["n", "partial_images"])
    if (/^\d{1,9}$/.test(String(fields[name]))) fields[name] = Number(fields[name]);
  if (fields.stream === "true" || fields.stream === "false") fields.stream = fields.stream === "true";
  return fields;
}

function attachmentsOf(form: unknown): NonNullable<ImagesQuestion["sources"]> {
  const { image, mask } = form as Record<string, unknown>;
  const images = Array.isArray(image) ? image : image === undefined ? [] : [image];
  if (images.length === 0)
    refuse("Missing required parameter: 'image'.", "image", { code: "missing_required_parameter" });
  if (images.length > attachmentsMax) refuse(`image: there are at most ${attachmentsMax}.`, "image");
  for (const [name, file] of [
    ...images.map((one) => ["image", one] as const),
    ...(mask === undefined ? [] : [["mask", mask] as const]),
  ]) {
    if (!isFile(file)) return refuse(`${name}: must be a file.`, name);
    if (!attachmentTypes.includes(file.type))
      refuse(
        `Invalid file '${name}': unsupported mimetype ('${file.type}'). There are ${attachmentTypes.join(", ")}.`,
        name,
        { code: "unsupported_file_mimetype" },
      );
    if (file.data.length === 0) refuse(`${name}: the file is empty.`, name, { code: "empty_image_file" });
  }
  return { images: images.filter(isFile), mask: isFile(mask) ? mask : undefined };
}
