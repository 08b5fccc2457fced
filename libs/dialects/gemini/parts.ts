/**
 * Media and function results in Google's Gemini format, in both directions:
 * https://ai.google.dev/api/caching#Part
 */

import { defined, isObject, isPresent, type JsonObject, objectOf, textOf } from "#wire/json/parse.ts";
import { attachmentOf, checkedBase64, isTextual, kindOf, typeByNameOf } from "../neutral/attachments.ts";
import { refuse } from "../neutral/field-support.ts";
import { type ImagePart, type MediaPart, type ResultPart, textsIn } from "../neutral/neutral.ts";
import { enumNameOf, itemsOf } from "./names.ts";

export const dialect = "gemini";

/** The image detail of a resolution, given by name or as an object with one. */
export function detailOf(resolution: unknown): ImagePart["detail"] {
  const level = enumNameOf(textOf(resolution) ?? objectOf(resolution).level);
  if (level.endsWith("LOW")) return "low";
  return level.endsWith("HIGH") ? "high" : undefined;
}

/** A part with `inlineData` or `fileData`; undefined if it has neither. */
export function mediaOf(part: JsonObject, path: string, detail: ImagePart["detail"]): MediaPart | undefined {
  if (isPresent(part.inlineData)) return inlineOf(objectOf(part.inlineData), `${path}.inlineData`, detail);
  return isPresent(part.fileData) ? fileOf(objectOf(part.fileData), `${path}.fileData`, detail) : undefined;
}

/** An id for calls and responses without one, derived from their place. */
export const mintedOf = (path: string) => `call_${(path.match(/\d+/g) ?? []).join("_")}`;

/** Members that may accompany a part's content. */
const beside = [
  "thought",
  "thoughtSignature",
  "videoMetadata",
  "mediaResolution",
  "partMetadata",
  "mediaProcessing",
  "speechMetadata",
  "text",
  // Calls of Google's own tools, and their results. The answers that they led to stay.
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse",
];

/** Accepts a part without content, and throws Refusal for kinds that only Google knows. */
export function nothingIn(part: JsonObject, path: string): [] {
  const [unknown] = Object.entries(part).filter(([name, value]) => isPresent(value) && !beside.includes(name));
  return unknown === undefined ? [] : refuse(`${path}.${unknown[0]}`);
}

function inlineOf({ mimeType, data, displayName }: JsonObject, path: string, detail: ImagePart["detail"]): MediaPart {
  const type = bareTypeOf(mimeType);
  const bytes = checkedBase64(String(data), `${path}.data`);
  const name = textOf(displayName) !== undefined && { name: displayName as string };
  const source = { kind: "data" as const, mimeType: isTextual(type) ? "text/plain" : type, data: bytes };
  const kind = kindOf(type) ?? "file";
  if (kind === "image") return { kind, source, ...defined({ detail }), path };
  if (kind !== "file") return { kind, source, path };
  return type === "application/pdf" || isTextual(type) ? { kind, source, ...name, path } : refuse(`${path}.mimeType`);
}

const bareTypeOf = (mimeType: unknown) => (textOf(mimeType)?.split(";", 1)[0] ?? "").trim().toLowerCase();

const ofGoogle = /^gs:|^files\/|^https?:\/\/[^/]*\bgoogleapis\.com\/.*\bfiles\//i;

function fileOf({ fileUri, mimeType, displayName }: JsonObject, path: string, detail: ImagePart["detail"]): MediaPart {
  const own = `${path}.fileUri`;
  const address = String(fileUri);
  if (ofGoogle.test(address)) refuse(own, "names a file that is stored at Google; send the file itself as inlineData");
  const type = addressedTypeOf(mimeType, address);
  const source = attachmentOf(address, own);
  const kind = kindOf(type) ?? "file";
  if (kind === "audio" || kind === "video") return { kind, source, path: own };
  if (kind === "file" && type !== "application/pdf" && !isTextual(type)) refuse(own);
  if (type.startsWith("image/")) return { kind: "image", source, ...defined({ detail }), path: own };
  return { kind: "file", source, ...defined({ name: textOf(displayName) }), path: own };
}

/**
 * The declared type of a file at an address, or the one that its name suggests; PDF if nothing
 * does.
 */
const addressedTypeOf = (mimeType: unknown, address: string) =>
  bareTypeOf(mimeType) || (typeByNameOf(address) ?? "application/pdf");

/**
 * The type of a file that the gateway fetches, an image or a document; undefined for other types.
 */
export function fetchedTypeOf(mimeType: unknown, address: string): string | undefined {
  const type = addressedTypeOf(mimeType, address);
  return type.startsWith("image/") || type === "application/pdf" || isTextual(type) ? type : undefined;
}

/**
 * A function's result: the value of `output` or `result` if it is the only member, otherwise the
 * whole object. An object with only `error` is a failed result.
 */
export function resultOf(
  { response, parts }: JsonObject,
  path: string,
): Pick<ResultPart, "content" | "isError" | "native"> {
  const members = Object.entries(objectOf(response)).filter(([, value]) => value !== undefined);
  const [name, value] = members.length === 1 ? (members[0] as [string, unknown]) : ["", response];
  const isWrapped = name === "output" || name === "result" || name === "error";
  const result = isWrapped ? value : response;
  const text = typeof result === "string" ? result : isPresent(result) ? JSON.stringify(result) : "";
  const media = itemsOf(parts, `${path}.parts`).map(([part, own]) => {
    const media = mediaOf(objectOf(part), own, undefined);
    return media ?? refuse(own);
  });
  return {
    content: [...(text === "" ? [] : [{ kind: "text" as const, text, path: `${path}.response` }]), ...media],
    isError: name === "error",
    ...(!(typeof value === "string" && (name === "output" || name === "error")) &&
      isObject(response) &&
      !Array.isArray(response) && { native: { dialect, value: objectOf(response) } }),
  };
}

/**
 * A function's result as an object, which the format requires. Text stays text, whatever it looks
 * like: Google refuses results with members such as `$ref`.
 */
export function responseOf({ content, isError, native }: ResultPart): object {
  if (native?.dialect === dialect) return native.value;
  const text = textsIn(content).join("\n");
  return isError ? { error: text } : { output: text };
}

const typesAtAddresses = {
  image: "image/jpeg",
  file: "application/pdf",
  audio: "audio/mp3",
  video: "video/mp4",
} as const;

export function encodeMedia({ source, kind }: MediaPart): JsonObject {
  if (source.kind === "data") return { inlineData: { mimeType: source.mimeType, data: source.data } };
  const named = typeByNameOf(source.url);
  const mimeType = kindOf(named) === kind ? named : typesAtAddresses[kind];
  return { fileData: { fileUri: source.url, mimeType } };
}
