/**
 * The input tokens of attachments, in the members of all dialects: their number does not follow
 * from the bytes of a body.
 */
import { isObject, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { bytesPerToken } from "./usage.ts";

/** The attachments of a request. */
export interface Attached {
  attachedTokens: number;
  /** Bytes of the body that are attachments in base64; absent for none. */
  attachedBytes?: number;
}

/**
 * For an image, and for a file sent by its address. An image takes less at every vendor, a long
 * document more.
 */
const referenceTokens = 2_000;
/**
 * Characters of base64 for each token of a recording: 32 tokens a second, at 48 kilobits a second
 * (https://ai.google.dev/gemini-api/docs/tokens#multimodal-tokens).
 */
const recordingPerToken = 256;
/**
 * Characters of base64 for each token of a document: up to 3,000 tokens a page
 * (https://docs.claude.com/en/docs/build-with-claude/pdf-support), of 72 kB.
 */
const documentPerToken = 32;

/** The input tokens of a body: those of its text, at most `textTokensMax`, and its attachments. */
export const inputTokensOf = (
  bodyBytes: number,
  { attachedTokens, attachedBytes = 0 }: Attached,
  textTokensMax = Number.POSITIVE_INFINITY,
) => Math.min(Math.ceil(Math.max(0, bodyBytes - attachedBytes) / bytesPerToken), textTokensMax) + attachedTokens;

/** The tokens of an attachment, and its bytes in the body: 0 for one by address or id. */
interface Attachment {
  tokens: number;
  bytes: number;
}

const none: readonly Attachment[] = [];
const atAddress: readonly Attachment[] = [{ tokens: referenceTokens, bytes: 0 }];
const dataUrl = /^data:([^;,]{0,100})/i;

const isAddress = (value: unknown) => typeof value === "string" && value !== "" && !dataUrl.test(value);

/** An attachment in base64; text is none. */
const inlineOf = (type: unknown, data: unknown): readonly Attachment[] =>
  typeof data !== "string" || data === "" || /^text\//i.test(String(type)) || /^https?:/i.test(data)
    ? none
    : [inlineOfLength(String(type), data.length - (data.indexOf(",") + 1))];

function inlineOfLength(type: string, bytes: number): Attachment {
  if (/^image\//i.test(type)) return { tokens: referenceTokens, bytes };
  return {
    tokens: Math.ceil(bytes / (/^(?:audio|video)\//i.test(type) ? recordingPerToken : documentPerToken)),
    bytes,
  };
}

/** The attachments that a member is, in the object `owner`. */
type ReadMember = (member: unknown, owner: JsonObject) => readonly Attachment[];

/** A file by address or id, or as a data URL. `isBare`: base64 may also stand alone. */
function referred(member: unknown, isBare = false): readonly Attachment[] {
  const { url } = objectOf(member);
  const text = typeof member === "string" ? member : url;
  const type = typeof text === "string" ? dataUrl.exec(text)?.[1] : undefined;
  const inline = type === undefined && !isBare ? none : inlineOf(type, text);
  return inline === none && (isAddress(member) || isAddress(url)) ? atAddress : inline;
}

/** The members with attachments by their names, in all dialects. */
const readers: ReadonlyMap<string, ReadMember> = new Map<string, ReadMember>([
  ...["image_url", "video_url", "audio_url", "file_url", "document_url", "file_id", "fileUri", "file_uri"].map(
    (name): [string, ReadMember] => [name, (member) => referred(member)],
  ),
  ["file_data", (member) => referred(member, true)],
  [
    "source",
    (member) => {
      const { type, url, media_type: mediaType, data } = objectOf(member);
      if (type === "base64") return inlineOf(mediaType, data);
      return type === "url" && isAddress(url) ? atAddress : none;
    },
  ],
  ["inlineData", inlineData],
  ["inline_data", inlineData],
  ["input_audio", (member) => inlineOf("audio/", objectOf(member).data)],
  ["images", (member) => listOf(member).flatMap((image) => inlineOf("image/", image))],
  ["result", (member, { type }) => (type === "image_generation_call" ? inlineOf("image/", member) : none)],
]);

function inlineData(member: unknown): readonly Attachment[] {
  const { mimeType, mime_type: mediaType = mimeType, data } = objectOf(member);
  return inlineOf(mediaType, data);
}

/**
 * The attachments of a conversation, whose tokens are not proportional to the body: files by
 * address or id, and files in base64.
 */
export function attachmentsIn(conversation: unknown): Attached {
  let attachedTokens = 0;
  let attachedBytes = 0;
  const left: unknown[] = [conversation];
  while (left.length > 0) {
    const value = left.pop();
    if (Array.isArray(value)) {
      for (const element of value) left.push(element);
      continue;
    }
    if (!isObject(value)) continue;
    for (const name in value) {
      const member = value[name];
      if (typeof member === "object") left.push(member);
      for (const { tokens, bytes } of readers.get(name)?.(member, value) ?? none) {
        attachedTokens += tokens;
        attachedBytes += bytes;
      }
    }
  }
  return { attachedTokens, ...(attachedBytes > 0 && { attachedBytes }) };
}
