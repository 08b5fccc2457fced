/** Parts of requests that OpenAI's two dialects write alike. */
import { attachmentOf, checkedBase64 } from "./attachments.ts";
import { objectOf } from "./json.ts";
import type { Part, Settings } from "./neutral.ts";

/** `path` is that of the address, or of the data URL. */
export const imageOf = (url: string, detail: unknown, path: string): Extract<Part, { kind: "image" }> => ({
  kind: "image",
  source: attachmentOf(url, path),
  ...((detail === "low" || detail === "high" || detail === "auto") && { detail }),
  ...(detail === "original" && { detail: "high" as const }),
  path,
});

export function audioOf(value: unknown, path: string): Part {
  const { data, format } = objectOf(value);
  return {
    kind: "audio",
    mimeType: `audio/${format}`,
    data: checkedBase64(String(data), `${path}.input_audio.data`),
    path,
  };
}

/** An answer in the format of a JSON schema. */
export const schemaFormatOf = (value: unknown, path: string): NonNullable<Settings["format"]> => {
  const { schema, name, description, strict } = objectOf(value);
  return {
    value: {
      kind: "schema",
      schema: objectOf(schema),
      ...(typeof name === "string" && { name }),
      ...(typeof description === "string" && { description }),
      ...(typeof strict === "boolean" && { strict }),
    },
    path,
  };
};
