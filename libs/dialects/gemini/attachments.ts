/** Addresses of images, documents and tool servers in requests in Google's Gemini format. */

import { objectSpansOf, readSpan } from "#wire/json/spans.ts";
import { isLeftToGoogle } from "../neutral/attachments.ts";
import { type AttachmentFinder, enclosingObject, fixed, objectEdits } from "../relay/verbatim-attachments.ts";
import { camelNameOf } from "./names.ts";
import { fetchedTypeOf } from "./parts.ts";

const file =
  /^(?:generateContentRequest\.)?(?:(?:requests\.)?content|contents|systemInstruction)\.parts\.(?:functionResponse\.parts\.)?fileData\.fileUri$/;
const server = /^(?:generateContentRequest\.)?tools\.mcpServers\.streamableHttpTransport\.url$/;
const mimeTypeNames = ["mimeType", "mime_type"];

/** Files stored by Google, and videos that only Google can watch, are not fetched. */
export const attachmentFinder: AttachmentFinder = {
  marks: ['Uri"', '_uri"', "HttpT", "_http_"],
  names: ["fileUri", "file_uri", "url"],
  spelled: camelNameOf,
  placeOf(path, bytes, string) {
    if (server.test(path)) return fixed("server");
    if (!file.test(path)) return undefined;
    const url = String(readSpan(bytes, string));
    if (isLeftToGoogle(url)) return undefined;
    const start = enclosingObject(string, 0);
    const object = bytes.subarray(start);
    const { all = [] } = objectSpansOf(object, mimeTypeNames) ?? {};
    const declared = all.at(-1);
    const type = fetchedTypeOf(declared && readSpan(object, declared), url);
    if (type === undefined) return fixed("media");
    return {
      part: type.startsWith("image/") ? "image" : "file",
      edits({ mimeType, data }) {
        const { nameStart } = string.objects[1] ?? { nameStart: 0 };
        const name = { start: nameStart, end: bytes.indexOf('"', nameStart + 1) + 1 };
        const isSnake = bytes.toString("latin1", name.start, name.end).includes("_");
        const edits = objectEdits(bytes, start, {
          name: String(string.path.at(-1)),
          instead: `"${isSnake ? "mime_type" : "mimeType"}":${JSON.stringify(mimeType)},"data":${JSON.stringify(data)}`,
          without: mimeTypeNames,
        });
        return [{ ...name, by: Buffer.from(isSnake ? '"inline_data"' : '"inlineData"') }, ...edits];
      },
    };
  },
};
