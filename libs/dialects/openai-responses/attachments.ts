/** Addresses of images, documents and tool servers in requests in OpenAI's Responses format. */

import { isNull, objectSpansOf } from "#wire/json/spans.ts";
import { dataUrlOf } from "../neutral/attachments.ts";
import {
  type AttachmentFinder,
  dataUrlAt,
  enclosingObject,
  fixed,
  isHttp,
  objectEdits,
} from "../relay/verbatim-attachments.ts";

const image = /^(?:input\.(?:content|output)|(?:input\.)?tools\.input_image_mask)\.image_url(?:\.url)?$/;
const document = /^input\.(?:content|output)\.file_url$/;
const documentData = /^input\.(?:content|output)\.file_data$/;
const other = /^input\.(?:content|output)\.(?:video|audio)_url(?:\.url)?$/;
const server = /^(?:input\.)?tools\.(?:tools\.)?server_url$/;

export const attachmentFinder: AttachmentFinder = {
  marks: ['_url"', '_data"'],
  names: ["url", "image_url", "file_url", "file_data", "video_url", "audio_url", "server_url"],
  placeOf(path, bytes, string) {
    if (image.test(path)) return dataUrlAt(string, "image");
    if (documentData.test(path)) return isHttp(bytes, string) ? dataUrlAt(string, "file") : undefined;
    if (other.test(path)) return fixed("media");
    if (server.test(path)) return fixed("server");
    if (!document.test(path)) return undefined;
    return {
      part: "file",
      edits(data) {
        const start = enclosingObject(string, 0);
        const object = bytes.subarray(start);
        const { filename } = objectSpansOf(object, ["filename"])?.members ?? {};
        const isNamed = filename !== undefined && !isNull(object, filename);
        const named = isNamed ? "" : `"filename":"document.${data.mimeType === "text/plain" ? "txt" : "pdf"}",`;
        return objectEdits(bytes, start, {
          name: "file_url",
          instead: `${named}"file_data":${JSON.stringify(dataUrlOf(data))}`,
          without: isNamed ? ["file_data"] : ["file_data", "filename"],
        });
      },
    };
  },
};
