/** Where images and documents come from: data URLs, base64, addresses. */
import { isUtf8 } from "node:buffer";
import { refuse } from "./field-support.ts";
import type { Attachment, NeutralRequest, Part } from "./neutral.ts";

export type Data = Extract<Attachment, { kind: "data" }>;

const dataUrl = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9-]+=[^;,]*)*);base64,/i;
const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** A source from a data URL or an http(s) address; throws Refusal, naming `path`, for anything else. */
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

/** The same text if it is base64 of something; throws Refusal, naming `path`, if not. Line breaks are taken out, the URL-safe alphabet is put right. */
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

/** The text of a text document. */
export const documentTextOf = ({ data }: Data): string => Buffer.from(data, "base64").toString("utf8");

/** An address in a request. `media` is neither an image nor a document; a `server` is one that the upstream is to call. */
export interface AttachmentAddress {
  part: "image" | "file" | "media" | "server";
  url: string;
  path: string;
}

/** An address, and how to put what was fetched in its place. */
export interface RemoteAttachment extends AttachmentAddress {
  replace(source: Data): void;
}

/** Every address in a request, results of tools included. */
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
/** Bytes that must be a text, for the whole to be called one. */
const textLengthMin = 64;
/** Characters of base64 that hold the bytes by which a kind is known. */
const headLength = 1_400;

/**
 * Calls pictures by what their bytes are, whatever their sender says. Throws Refusal, naming the caller's field, for what is said to be a picture or a
 * document and is plainly something else: its upstream would be at a loss to say which.
 */
export function checkAttachments({ messages }: NeutralRequest): void {
  const look = (part: Part) => {
    if (part.kind === "result") part.content.forEach(look);
    else if ((part.kind === "image" || part.kind === "file") && part.source.kind === "data")
      part.source = checkedData(part.source, part.kind, part.path);
  };
  for (const { parts } of messages) parts.forEach(look);
}

/** Are these first bytes plainly a text, as the page of an error is that somebody took for the file? */
function isText(head: Buffer): boolean {
  if (head.length < textLengthMin || !isUtf8(head.subarray(0, textLengthMin))) return false;
  return head
    .subarray(0, textLengthMin)
    .every((byte) => byte >= 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d);
}

/** The same picture, of a kind that every vendor reads. Throws Refusal, naming `path`, for others. */
export function checkedPicture(source: Data, path: string): Data {
  return pictures.includes(source.mimeType)
    ? source
    : refuse(path, "must be a PNG, JPEG, GIF or WebP picture for the upstream of this model");
}

function checkedData(source: Data, kind: "image" | "file", path: string): Data {
  const declared = source.mimeType === "image/jpg" ? "image/jpeg" : source.mimeType;
  const head = Buffer.from(source.data.slice(0, headLength), "base64");
  const found = mimeTypeOf(head);
  if (kind === "image") {
    if (found !== undefined && !pictures.includes(found))
      refuse(path, `is said to be a picture (${declared}), and its bytes are ${found}`);
    if (found === undefined && isText(head))
      refuse(path, `is said to be a picture (${declared}), and its bytes are a text`);
    return { ...source, mimeType: found ?? declared };
  }
  if (found === "application/pdf") return { ...source, mimeType: found };
  if (found !== undefined) refuse(path, `is a picture (${found}) where a document belongs`);
  if (declared === "application/pdf" && isText(head) && !head.includes("%PDF-"))
    refuse(path, "is said to be a PDF, and its bytes are a text");
  if (declared === "text/plain" && !isUtf8(Buffer.from(source.data, "base64")))
    refuse(path, "is said to be a text, and its bytes are none in UTF-8");
  return source;
}

/** What the first bytes say a picture or document is, whatever its sender says; undefined for others than PNG, JPEG, GIF, WebP and PDF. */
export function mimeTypeOf(bytes: Buffer): string | undefined {
  const begins = (text: string, at = 0) => bytes.toString("latin1", at, at + text.length) === text;
  if (begins("\x89PNG\r\n\x1a\n")) return "image/png";
  if (begins("\xff\xd8\xff")) return "image/jpeg";
  if (begins("GIF87a") || begins("GIF89a")) return "image/gif";
  if (begins("RIFF") && begins("WEBP", 8)) return "image/webp";
  return begins("%PDF-") ? "application/pdf" : undefined;
}
