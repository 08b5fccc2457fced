/** Forms (multipart/form-data, RFC 7578), for requests with files. Uses Node's own reader. */

import { formFieldsMax } from "./bounds.ts";
import type { WireRequest } from "./codec.ts";

/** Rejects if the bytes are not a form, or have too many fields. */
export async function formOf(bytes: Buffer, contentType: string): Promise<FormData> {
  const boundary = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(contentType);
  const mark = `--${boundary?.[1] ?? boundary?.[2] ?? ""}`;
  let fields = 0;
  for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + mark.length))
    if (++fields > formFieldsMax + 1) throw new RangeError("too many fields");
  return new Response(new Uint8Array(bytes), { headers: { "content-type": contentType } }).formData();
}

/** The caller's form with the upstream's model name; all other fields and files stay unchanged, in their order. Modifies `form`. */
export async function formRequestOf(form: FormData, path: string, model: string): Promise<WireRequest> {
  form.set("model", model);
  const response = new Response(form);
  return {
    path,
    // Includes the boundary.
    headers: { "content-type": response.headers.get("content-type") as string },
    body: Buffer.from(await response.arrayBuffer()),
  };
}
