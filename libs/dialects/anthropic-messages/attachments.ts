/** Addresses of images, documents and tool servers in requests in Anthropic's Messages format. */

import { objectSpansOf, readSpan } from "#wire/json/spans.ts";
import { documentTextOf } from "../neutral/attachments.ts";
import { type AttachmentFinder, enclosingObject, fixed, objectEdits } from "../relay/verbatim-attachments.ts";

/** In a message, a tool result, or a document made of blocks. */
const source = /^messages\.content(?:\.(?:source\.)?content)*\.source\.url$/;

export const attachmentFinder: AttachmentFinder = {
  marks: ['"url"'],
  names: ["url"],
  placeOf(path, bytes, string) {
    if (path === "mcp_servers.url") return fixed("server");
    if (!source.test(path)) return undefined;
    const start = enclosingObject(string, 0);
    const types = typesOf(bytes.subarray(start));
    if (types.length > 0 && !types.includes("url")) return undefined;
    return {
      part: isDocument(bytes, enclosingObject(string, 1)) ? "file" : "image",
      edits(data) {
        const isText = data.mimeType === "text/plain";
        const text = isText ? documentTextOf(data) : data.data;
        return objectEdits(bytes, start, {
          name: "url",
          instead: `"media_type":${JSON.stringify(data.mimeType)},"data":${JSON.stringify(text)}`,
          values: { type: isText ? '"text"' : '"base64"' },
          without: ["media_type", "data"],
        });
      },
    };
  },
};

/** The result for the block checked last, because a block may contain many sources. */
let lastBlock: { bytes: WeakRef<Buffer>; start: number; isDocument: boolean } | undefined;

function isDocument(bytes: Buffer, start: number): boolean {
  if (lastBlock?.start !== start || lastBlock.bytes.deref() !== bytes)
    lastBlock = { bytes: new WeakRef(bytes), start, isDocument: typesOf(bytes.subarray(start)).includes("document") };
  return lastBlock.isDocument;
}

/** All `type` values of an object: more than one if the sender repeats the member. */
function typesOf(object: Buffer): unknown[] {
  return (objectSpansOf(object, ["type"])?.all ?? []).map((span) => readSpan(object, span));
}
