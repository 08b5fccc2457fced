/** Images and documents in requests: data URLs, base64 and addresses. */
import { isUtf8 } from "node:buffer";
import { refuse } from "./field-support.ts";
import { type Attachment, isMedia, type MediaPart, type NeutralRequest, type Part } from "./neutral.ts";

export type Data = Extract<Attachment, { kind: "data" }>;

const dataUrl = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9-]+=[^;,]*)*);base64,/i;
const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/**
 * An attachment from a data URL or an http(s) address; throws Refusal, naming `path`, for anything
 * else.
 */
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

/**
 * Normalised base64: without line breaks, and in the standard alphabet. Throws Refusal, naming
 * `path`, if it is empty or not base64.
 */
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

export const dataUrlOf = ({ mimeType, data }: Data) => `data:${mimeType};base64,${data}`;

export const isTextType = (mimeType: string) => mimeType.startsWith("text/");

export const documentTextOf = ({ data }: Data) => Buffer.from(data, "base64").toString("utf8");

/**
 * The line above a document whose format has no field for its name, by which the user asks for it
 * (https://github.com/coder/coder/pull/26051); "" without a name.
 */
export const titleOf = (name = "") => (name === "" ? "" : `${name}:\n\n`);

/**
 * An address in a request. `media` is neither an image nor a document; `server` is a tool server
 * for the upstream to call.
 */
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
  const attachments: RemoteAttachment[] = [];
  const look = (part: Part) => {
    if (part.kind === "result") part.content.forEach(look);
    else if (isMedia(part) && part.source.kind === "url" && !isLeftToGoogle(part.source.url))
      attachments.push({
        part: part.kind === "image" || part.kind === "file" ? part.kind : "media",
        url: part.source.url,
        path: part.path,
        replace: (source) => {
          part.source = source;
        },
      });
  };
  for (const { parts } of messages) parts.forEach(look);
  return attachments;
}

const pictures = ["image/png", "image/jpeg", "image/gif", "image/webp"];
/** A shorter file is never classified as text. */
const textLengthMin = 64;
/** Base64 characters that cover the bytes that identify a file type. */
const headLength = 1_400;

/**
 * Sets each attachment's kind and type from its bytes, or else from its declared type or the name
 * in its address, whatever field it was sent in: a PDF in a field for images is a document. Throws
 * Refusal, naming the caller's field, for bytes that are plainly not what they are declared as; the
 * upstream's own error would not say which ones.
 */
export function classifyAttachments({ messages }: NeutralRequest): void {
  const classify = (parts: Part[]) => {
    for (const [place, part] of parts.entries())
      if (part.kind === "result") classify(part.content);
      else if (isMedia(part)) parts[place] = classified(part);
  };
  for (const { parts } of messages) classify(parts);
}

function classified(part: MediaPart): MediaPart {
  const { source, path } = part;
  const name = part.kind === "file" ? part.name : undefined;
  if (source.kind === "url") return ofKind(part, kindOf(typeByNameOf(source.url)) ?? part.kind, source);
  const head = Buffer.from(source.data.slice(0, headLength), "base64");
  const byteType = mimeTypeOf(head);
  const declared = declaredTypeOf(source.mimeType, name, head);
  const mimeType = byteType ?? declared;
  const kind = kindOf(mimeType) ?? part.kind;
  if (kind === "file" && name === undefined && (mimeType === undefined || mimeType === unknownType))
    refuse(path, "must be a data URL or have a file name, because its bytes do not tell what it is");
  if (
    byteType === undefined &&
    (kind === "image" || declared === "application/pdf") &&
    isText(head) &&
    !head.includes("%PDF-")
  )
    refuse(path, `is declared as ${kind === "image" ? `an image (${declared})` : "a PDF"}, but its bytes are text`);
  if (declared === "text/plain" && byteType === undefined && !isUtf8(Buffer.from(source.data, "base64")))
    refuse(path, "is declared as text, but its bytes are not valid UTF-8");
  return ofKind(part, kind, { ...source, mimeType });
}

function ofKind(part: MediaPart, kind: MediaPart["kind"], source: Attachment): MediaPart {
  if (kind === part.kind) return { ...part, source };
  return { kind, source, path: part.path, ...(part.cache !== undefined && { cache: part.cache }) };
}

/** The kind of an attachment by its type; undefined for types that do not tell. */
export function kindOf(mimeType: string | undefined): MediaPart["kind"] | undefined {
  const [family = ""] = mimeType?.split("/", 1) ?? [];
  if (family === "image" || family === "audio" || family === "video") return family;
  return mimeType === undefined || mimeType === unknownType ? undefined : "file";
}

const unknownType = "application/octet-stream";
const textTypes =
  /^text\/|^application\/(?:json|xml|yaml|x-yaml|toml|javascript|x-javascript|typescript|sql|x-sh|x-ndjson|jsonl)$|\+(?:json|xml|yaml)$/;

/** True for a type whose bytes are text for a model. */
export const isTextual = (mimeType: string) => textTypes.test(mimeType) && !mimeType.startsWith("image/");

function declaredTypeOf(mimeType: string, name: string | undefined, head: Buffer): string {
  if (mimeType === "image/jpg") return "image/jpeg";
  if (isTextual(mimeType)) return "text/plain";
  if (mimeType !== unknownType) return mimeType;
  return typeByNameOf(name ?? "") ?? (isText(head) ? "text/plain" : mimeType);
}

const typesByEnding: Record<string, string> = {
  png: "image/png",
  jpg: "image/jpeg",
  jpeg: "image/jpeg",
  gif: "image/gif",
  webp: "image/webp",
  pdf: "application/pdf",
  txt: "text/plain",
  md: "text/plain",
  csv: "text/plain",
  json: "text/plain",
  wav: "audio/wav",
  mp3: "audio/mp3",
  flac: "audio/flac",
  ogg: "audio/ogg",
  aac: "audio/aac",
  mp4: "video/mp4",
  mov: "video/mov",
  webm: "video/webm",
  mpeg: "video/mpeg",
};

/**
 * The type of a file by the ending of its name or address, and `video/mp4` for a video at its usual
 * host; undefined for others.
 */
export function typeByNameOf(name: string): string | undefined {
  const ending = /\.([a-z0-9]{2,4})(?:[?#]|$)/i.exec(name)?.[1]?.toLowerCase() ?? "";
  if (Object.hasOwn(typesByEnding, ending)) return typesByEnding[ending];
  return isOfVideoHost(name) ? "video/mp4" : undefined;
}

/**
 * True for a file that Google stores, or a video that Google watches at its address. Decided by the
 * host alone.
 */
export function isLeftToGoogle(uri: string): boolean {
  if (/^gs:|^files\//i.test(uri)) return true;
  const { hostname = "", pathname = "" } = URL.parse(uri) ?? {};
  return (hostname === "generativelanguage.googleapis.com" && pathname.includes("/files/")) || isOfVideoHost(uri);
}

function isOfVideoHost(uri: string): boolean {
  const { hostname = "" } = URL.parse(uri) ?? {};
  return ["youtube.com", "youtu.be"].some((host) => hostname === host || hostname.endsWith(`.${host}`));
}

/** True if these first bytes are plainly text, such as an error page saved in place of the file. */
function isText(head: Buffer): boolean {
  if (head.length < textLengthMin || !isUtf8(head.subarray(0, textLengthMin))) return false;
  return head
    .subarray(0, textLengthMin)
    .every((byte) => byte >= 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d);
}

/**
 * The same image, if it has a type that every vendor reads. Throws Refusal, naming `path`, for
 * others.
 */
export function checkedPicture(source: Data, path: string): Data {
  return pictures.includes(source.mimeType)
    ? source
    : refuse(path, "must be a PNG, JPEG, GIF or WebP image for the upstream of this model");
}

/**
 * The type of an image or document by its first bytes; undefined for types other than PNG, JPEG,
 * GIF, WebP and PDF.
 */
export function mimeTypeOf(bytes: Buffer): string | undefined {
  const begins = (text: string, at = 0) => bytes.toString("latin1", at, at + text.length) === text;
  if (begins("\x89PNG\r\n\x1a\n")) return "image/png";
  if (begins("\xff\xd8\xff")) return "image/jpeg";
  if (begins("GIF87a") || begins("GIF89a")) return "image/gif";
  if (begins("RIFF") && begins("WEBP", 8)) return "image/webp";
  return begins("%PDF-") ? "application/pdf" : undefined;
}
