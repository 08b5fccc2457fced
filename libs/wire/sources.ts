/** Where images and documents come from: data URLs, base64, addresses. */
import { refuse } from "./carry.ts";
import type { NeutralRequest, Part, Source } from "./neutral.ts";

const dataUrl = /^data:([a-z0-9.+-]+\/[a-z0-9.+-]+)((?:;[a-z0-9-]+=[^;,]*)*);base64,/i;
const base64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** A source from a data URL or an http(s) address; throws Refusal, naming `path`, for anything else. */
export function sourceOf(url: string, path: string): Source {
  if (/^https?:\/\//i.test(url)) return { kind: "url", url };
  const match = dataUrl.exec(url.slice(0, 300));
  if (match === null) refuse(path, "must be an http(s) address or a data URL with base64");
  return { kind: "data", mimeType: (match[1] as string).toLowerCase(), data: checkedBase64(url.slice(match[0].length), path) };
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

export const dataUrlOf = ({ mimeType, data }: Extract<Source, { kind: "data" }>): string => `data:${mimeType};base64,${data}`;

/** The text of a text document. */
export const documentTextOf = ({ data }: Extract<Source, { kind: "data" }>): string => Buffer.from(data, "base64").toString("utf8");

/** A source in a request that is an address, of which kind of part, and how to put what was fetched in its place. */
export interface RemoteSource {
  part: "image" | "file";
  url: string;
  path: string;
  replace(source: Source): void;
}

/** Every address in a request, results of tools included. */
export function remoteSourcesOf({ messages }: NeutralRequest): RemoteSource[] {
  const found: RemoteSource[] = [];
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

/** What the first bytes say a picture or document is, whatever its sender says; undefined for others than PNG, JPEG, GIF, WebP and PDF. */
export function mimeTypeOf(bytes: Buffer): string | undefined {
  const begins = (text: string, at = 0) => bytes.toString("latin1", at, at + text.length) === text;
  if (begins("\x89PNG\r\n\x1a\n")) return "image/png";
  if (begins("\xff\xd8\xff")) return "image/jpeg";
  if (begins("GIF87a") || begins("GIF89a")) return "image/gif";
  if (begins("RIFF") && begins("WEBP", 8)) return "image/webp";
  return begins("%PDF-") ? "application/pdf" : undefined;
}
