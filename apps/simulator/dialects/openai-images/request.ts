/** Reads a request for images: JSON for new ones, a form for edits of attached ones. */
import Type from "typebox";
import { Compile } from "typebox/compile";
import type { FormFile } from "../../request-body.ts";
import type { Refused } from "../dialect.ts";
import { faultIn } from "../shape.ts";

const nullable = <Schema extends Type.TSchema>(schema: Schema) => Type.Optional(Type.Union([schema, Type.Null()]));

const imagesRequest = Compile(
  Type.Object({
    prompt: Type.String({ minLength: 1, maxLength: 32_000 }),
    model: nullable(Type.String()),
    n: nullable(Type.Integer({ minimum: 1, maximum: 10 })),
    size: nullable(Type.String({ pattern: "^(auto|[1-9][0-9]{1,3}x[1-9][0-9]{1,3})$" })),
    response_format: nullable(Type.Enum(["b64_json", "url"])),
    output_format: nullable(Type.Literal("png")),
    stream: nullable(Type.Boolean()),
    partial_images: nullable(Type.Integer({ minimum: 0, maximum: 3 })),
  }),
);

const sideMax = 3_840;
const attachmentsMax = 16;
const attachmentTypes = ["image/png", "image/jpeg", "image/webp"];

export interface ImagesQuestion {
  kind: "question";
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

const refused = (param: string, message: string, code?: string): Refused => ({
  kind: "refused",
  status: 400,
  message,
  param,
  ...(code && { code }),
});

export function imagesQuestionOf(body: unknown, { editing }: { editing: boolean }): ImagesQuestion | Refused {
  const fields = editing ? typed(body) : body;
  if (!imagesRequest.Check(fields)) return faultIn(imagesRequest.Errors(fields));
  const [width = 1_024, height = 1_024] =
    (fields.size ?? "auto") === "auto" ? [] : (fields.size ?? "").split("x").map(Number);
  if (width > sideMax || height > sideMax) return refused("size", `size: a side is at most ${sideMax} pixels.`);
  const sources = editing ? attachmentsOf(body) : undefined;
  if (sources?.kind === "refused") return sources;
  return {
    kind: "question",
    prompt: fields.prompt,
    count: fields.n ?? 1,
    width,
    height,
    byAddress: fields.response_format === "url",
    stream: fields.stream ?? false,
    partialsPerImage: fields.partial_images ?? 0,
    sources,
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

function attachmentsOf(form: unknown): { kind: "sources"; images: FormFile[]; mask: FormFile | undefined } | Refused {
  const { image, mask } = form as Record<string, unknown>;
  const images = Array.isArray(image) ? image : image === undefined ? [] : [image];
  if (images.length === 0)
    return refused("image", "Missing required parameter: 'image'.", "missing_required_parameter");
  if (images.length > attachmentsMax) return refused("image", `image: there are at most ${attachmentsMax}.`);
  for (const [name, file] of [
    ...images.map((one) => ["image", one] as const),
    ...(mask === undefined ? [] : [["mask", mask] as const]),
  ]) {
    if (!isFile(file)) return refused(name, `${name}: must be a file.`);
    if (!attachmentTypes.includes(file.type))
      return refused(
        name,
        `Invalid file '${name}': unsupported mimetype ('${file.type}'). There are ${attachmentTypes.join(", ")}.`,
        "unsupported_file_mimetype",
      );
    if (file.data.length === 0) return refused(name, `${name}: the file is empty.`, "empty_image_file");
  }
  return { kind: "sources", images: images.filter(isFile), mask: isFile(mask) ? mask : undefined };
}

const isFile = (value: unknown): value is FormFile =>
  typeof value === "object" && value !== null && "data" in value && Buffer.isBuffer(value.data);
