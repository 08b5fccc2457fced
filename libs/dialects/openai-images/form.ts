/** Forms (multipart/form-data, RFC 7578), for requests with files. Uses Node's own reader. */
import { formFieldsMax } from "../bounds.ts";

const integers = ["n", "output_compression", "partial_images", "frame_count", "frame_duration_ms"];

/** Rejects if the bytes are not a form, or have too many fields. */
export async function formOf(bytes: Buffer, contentType: string): Promise<FormData> {
  const boundary = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType);
  const mark = `--${boundary?.[1] ?? boundary?.[2] ?? ""}`;
  let fields = 0;
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length))
    if (++fields > formFieldsMax + 1) throw new RangeError("too many fields");
  return new Response(new Uint8Array(bytes), { headers: { "content-type": contentType } }).formData();
}

export interface FormBytes {
  bytes: Buffer;
  /** Includes the boundary. */
  contentType: string;
}

export async function bytesOfForm(form: FormData): Promise<FormBytes> {
  const response = new Response(form);
  return {
    bytes: Buffer.from(await response.arrayBuffer()),
    contentType: response.headers.get("content-type") as string,
  };
}

/** The images of a form: `image`, or several `image[]`. */
export const imagesOf = (form: FormData): File[] =>
  [...form.getAll("image"), ...form.getAll("image[]")].filter((value) => value instanceof File);

/**
 * The fields as values for a schema check: images and masks as their MIME types, other files as a value that no field allows; texts as numbers and booleans
 * where they spell one.
 */
export function valuesOf(form: FormData): Record<string, unknown> {
  const values: Record<string, unknown> = {};
  for (const [name, value] of form) {
    if ((name === "image" || name === "image[]") && value instanceof File) continue;
    if (value instanceof File) values[name] = name === "mask" ? value.type : {};
    else if (name === "stream" && (value === "true" || value === "false")) values[name] = value === "true";
    else values[name] = integers.includes(name) && /^\d{1,9}$/.test(value) ? Number(value) : value;
  }
  const images = imagesOf(form).map(({ type }) => type);
  if (images.length > 0) values.image = images;
  return values;
}
