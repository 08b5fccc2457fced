/** Texts in place of content that the caller's dialect cannot show. */
import type { Block } from "./neutral.ts";

/** `mimeType` is an upstream's word. */
export const unshownText = (mimeType: string) =>
  `[The model made ${mimeType.startsWith("image/") ? "an image" : "a file"} (${/^[\w.+-]+\/[\w.+-]+$/.test(mimeType) ? mimeType.slice(0, 60) : "unknown type"}), which this API cannot show. ${
    mimeType.startsWith("image/")
      ? "Chat completions, Responses and Gemini's generateContent can."
      : "Gemini's generateContent can."
  }]`;

const dataUrl = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w-]+=[^;,]*)*;base64,/i;

/**
 * The block of an image in an answer of chat completions, an extension that servers with image
 * models agree on: base64 as an image, and an address as a link.
 * https://openrouter.ai/docs/features/multimodal/image-generation
 */
export function pictureOf(url: string): Block {
  const match = dataUrl.exec(url.slice(0, 300));
  if (match === null) return { kind: "text", text: `![image](${url})` };
  return { kind: "image", mimeType: (match[1] as string).toLowerCase(), data: url.slice(match[0].length) };
}
