/** Forms (multipart/form-data, RFC 7578), for requests with files. Uses Node's own reader. */
import { formFieldsMax } from "./bounds.ts";

/** Rejects if the bytes are not a form, or have too many fields. */
export async function formOf(bytes: Buffer, contentType: string): Promise<FormData> {
  const boundary = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType);
  const mark = `--${boundary?.[1] ?? boundary?.[2] ?? ""}`;
  let fields = 0;
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length))
    if (++fields > formFieldsMax + 1) throw new RangeError("too many fields");
  return new Response(new Uint8Array(bytes), { headers: { "content-type": contentType } }).formData();
}

export const isJsonType = (contentType: string) => /^application\/json\b/i.test(contentType);

const flags = new Map([
  ...["true", "1", "on", "t", "y", "yes"].map((text) => [text, true] as const),
  ...["false", "0", "off", "f", "n", "no"].map((text) => [text, false] as const),
]);

/**
 * The flag that a field spells, or its text, as vLLM reads forms:
 * https://docs.pydantic.dev/2.3/usage/types/booleans/. Python's clients write `True`.
 */
export const flagIn = (text: string): boolean | string => flags.get(text.toLowerCase()) ?? text;

/** The decimal number that a field spells, also between spaces, or its text. */
export const numberIn = (text: string): number | string =>
  /^\s{0,9}[+-]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:e[+-]?\d{1,3})?\s{0,9}$/i.test(text) ? Number(text) : text;
