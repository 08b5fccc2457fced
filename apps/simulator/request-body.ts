/** Reads the body of a request: JSON, or a form (multipart/form-data, RFC 7578). */
import type { Outcome } from "./settings.ts";

/** A file in a form. */
export interface FormFile {
  name: string;
  type: string;
  data: Buffer;
}

/**
 * A promise only for a form, so that other requests are answered in the turn of their arrival.
 * Never rejects; undefined if the body is empty.
 */
export function bodyValueOf(
  body: Buffer,
  contentType: string | undefined,
): Outcome<unknown> | Promise<Outcome<unknown>> {
  if (contentType !== undefined && /^multipart\/form-data\b/i.test(contentType)) return formOf(body, contentType);
  try {
    return { kind: "ok", value: body.length === 0 ? undefined : JSON.parse(body.toString()) };
  } catch {
    return { kind: "bad", fault: "The body is not JSON." };
  }
}

/**
 * The fields by name: texts and files, and lists for repeated names and names that end with `[]`,
 * which is removed.
 */
async function formOf(body: Buffer, contentType: string): Promise<Outcome<Record<string, unknown>>> {
  const fields = new Map<string, unknown>();
  try {
    const form = await new Response(new Uint8Array(body), { headers: { "content-type": contentType } }).formData();
    for (const [rawName, part] of form) {
      const name = rawName.replace(/\[\]$/, "");
      const value = typeof part === "string" ? part : await fileOf(part);
      const earlier = fields.get(name);
      if (Array.isArray(earlier)) earlier.push(value);
      else if (earlier !== undefined) fields.set(name, [earlier, value]);
      else fields.set(name, name === rawName ? value : [value]);
    }
  } catch {
    return { kind: "bad", fault: "The body is not a form as its content type says." };
  }
  return { kind: "ok", value: Object.fromEntries(fields) };
}

const fileOf = async (part: File): Promise<FormFile> => ({
  name: part.name,
  type: part.type,
  data: Buffer.from(await part.arrayBuffer()),
});

export const isFile = (value: unknown): value is FormFile =>
  typeof value === "object" && value !== null && "data" in value && Buffer.isBuffer(value.data);
