/** Addresses of images and documents in requests in OpenAI's chat-completions format. */
import type { AttachmentFinder } from "../relay/verbatim-attachments.ts";
import { dataUrlAt, fixed, isHttp } from "../relay/verbatim-attachments.ts";

/**
 * Servers of this format also accept `video_url`, `audio_url`, and addresses in place of OpenAI's
 * base64.
 */
export const attachmentFinder: AttachmentFinder = {
  marks: ['_url"', '_data"', '_audio"'],
  names: ["url", "image_url", "video_url", "audio_url", "file_data", "data"],
  placeOf(path, bytes, string) {
    switch (path) {
      case "messages.content.image_url":
      case "messages.content.image_url.url":
        return dataUrlAt(string, "image");
      case "messages.content.file.file_data":
        return isHttp(bytes, string) ? dataUrlAt(string, "file") : undefined;
      case "messages.content.video_url":
      case "messages.content.video_url.url":
      case "messages.content.audio_url":
      case "messages.content.audio_url.url":
        return fixed("media");
      case "messages.content.input_audio.data":
        return isHttp(bytes, string) ? fixed("media") : undefined;
      default:
        return undefined;
    }
  },
};
