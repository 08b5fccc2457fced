/** Images and documents in requests: data URLs, base64 and addresses. */
import { isUtf8 } from "node:buffer";
import { refuse } from "./field-support.ts";
import type { Attachment, NeutralRequest, Part } from "./neutral.ts";

export type Data = Extract<Attachment, { kind: "data" }>;

const dataUrl = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9-]+=[^;,]*)*);base64,/i;
const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** An attachment from a data URL or an http(s) address; throws Refusal, naming `path`, for anything else. */
export function attachmentOf(url: string, path: string): Attachment {
  if (/^https?:\/\//i.test(url)) return { kind: "url", url };
  const match = dataUrl.exec(url.slice(0, 300));
  if (match === null) refuse(path, "must be an http(s) address or a data URL with base64");
  return {
    kind: "data",
    mimeType: (match[1] as string).toLowerCase(),
    data: checkedBase64(url.slice(match[0].length), path),
  };
}

/** Normalised base64: without line breaks, and in the standard alphabet. Throws Refusal, naming `path`, if it is empty or not base64. */
export function checkedBase64(data: string, path: string): string {
  const plain = base64.test(data)
    ? data
    : data
        .replace(/[\r\n]/g, "")
        .replaceAll("-", "+")
        .replaceAll("_", "/");
  if (plain === "" || plain.length % 4 === 1 || !base64.test(plain)) refuse(path, "is not valid base64");
  return plain;
}

export const dataUrlOf = ({ mimeType, data }: Data): string => `data:${mimeType};base64,${data}`;

export const isTextType = (mimeType: string): boolean => mimeType.startsWith("text/");

export const documentTextOf = ({ data }: Data): string => Buffer.from(data, "base64").toString("utf8");

/** An address in a request. `media` is neither an image nor a document; `server` is a tool server for the upstream to call. */
export interface AttachmentAddress {
  part: "image" | "file" | "media" | "server";
  url: string;
  path: string;
}

/** An address, and a function that replaces it with the fetched data. */
export interface RemoteAttachment extends AttachmentAddress {
  replace(source: Data): void;
}

/** Every address in a request, including those in tool results. */
export function remoteAttachmentsOf({ messages }: NeutralRequest): RemoteAttachment[] {
  const found: RemoteAttachment[] = [];
  const look = (part: Part) => {
    if (part.kind === "result") part.content.forEach(look);
    else if ((part.kind === "image" || part.kind === "file") && part.source.kind === "url")
      found.push({
        part: part.kind,
        url: part.source.url,
        path: part.path,
        replace: (source) => {
          part.source = source;
        },
      });
  };
  for (const { parts } of messages) parts.forEach(look);
  return found;
}

const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** A shorter file is never classified as text. */
const textLengthMin = 64;
/** Base64 characters that cover the bytes that identify a file type. */
const headLength = 1_400;

/**
 * Sets each attachment's type from its bytes, whatever its sender declares. Throws Refusal, naming the caller's field, if a declared image or document is
 * plainly something else; the upstream's own error would not say which one.
 */
export function checkAttachments({ messages }: NeutralRequest): void {
  const look = (part: Part) => {
    if (part.kind === "result") part.content.forEach(look);
    else if ((part.kind === "image" || part.kind === "file") && part.source.kind === "data")
      part.source = checkedData(part.source, part.kind, part.path);
  };
  for (const { parts } of messages) parts.forEach(look);
}

/** True if these first bytes are plainly text, such as an error page saved in place of the file. */
function isText(head: Buffer): boolean {
  if (head.length < textLengthMin || !isUtf8(head.subarray(0, textLengthMin))) return false;
  return head
    .subarray(0, textLengthMin)
    .every((byte) => byte >= 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d);
}

/** The same image, if it has a type that every vendor reads. Throws Refusal, naming `path`, for others. */
export function checkedPicture(source: Data, path: string): Data {
  return pictures.includes(source.mimeType)
    ? source
    : refuse(path, "must be a PNG, JPEG, GIF or WebP image for the upstream of this model");
}

function checkedData(source: Data, kind: "image" | "file", path: string): Data {
  const declared = source.mimeType === "image/jpg" ? "image/jpeg" : source.mimeType;
  const head = Buffer.from(source.data.slice(0, headLength), "base64");
  const found = mimeTypeOf(head);
  if (kind === "image") {
    if (found !== undefined && !pictures.includes(found))
      refuse(path, `is declared as an image (${declared}), but its bytes are ${found}`);
    if (found === undefined && isText(head))
      refuse(path, `is declared as an image (${declared}), but its bytes are text`);
    return { ...source, mimeType: found ?? declared };
  }
  if (found === "application/pdf") return { ...source, mimeType: found };
  if (found !== undefined) refuse(path, `is an image (${found}) where a document is expected`);
  if (declared === "application/pdf" && isText(head) && !head.includes("%PDF-"))
    refuse(path, "is declared as a PDF, but its bytes are text");
  if (declared === "text/plain" && !isUtf8(Buffer.from(source.data, "base64")))
    refuse(path, "is declared as text, but its bytes are not valid UTF-8");
  return source;
}

/** The type of an image or document by its first bytes; undefined for types other than PNG, JPEG, GIF, WebP and PDF. */
export function mimeTypeOf(bytes: Buffer): string | undefined {
  const begins = (text: string, at = 0) => bytes.toString("latin1", at, at + text.length) === text;
  if (begins("\x89PNG\r\n\x1a\n")) return "image/png";
  if (begins("\xff\xd8\xff")) return "image/jpeg";
  if (begins("GIF87a") || begins("GIF89a")) return "image/gif";
  if (begins("RIFF") && begins("WEBP", 8)) return "image/webp";
  return begins("%PDF-") ? "application/pdf" : undefined;
}
