/**
 * The demand of a request according to its body: the base of the estimate that is reserved in its
 * caller's limits.
 */
import type { ConversationDialect } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import { bytesPerToken, type GeneratedImages } from "#dialects/usage.ts";
import { isObject, isPresent, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { choicesMax, imageBytes } from "./bounds.ts";

export interface Demand {
  /** Output tokens of each choice, if the caller limits them. */
  outputTokensMax: number | undefined;
  /** Output tokens of each choice if the caller does not limit them; undefined for text. */
  mediaTokens: number | undefined;
  /** How many answers the caller asks for. */
  choices: number;
  /** Input tokens of attachments: their number does not follow from the bytes of the body. */
  attachedTokens: number;
  /** Bytes of the body that are attachments in base64; absent for none. */
  attachedBytes?: number;
  /** The images of an operation that makes them. */
  images?: GeneratedImages;
  /** Inputs that are read apart from each other. Absent for one. */
  prompts?: number;
  /** The vendor may read the conversation several times: for tools that it runs, or a summary. */
  hostsTools?: true;
  /** The expected length of a recording, by its size. */
  audioSeconds?: number;
  /** Tokens whose probabilities the answer lists for each token of its own; absent for none. */
  listedTokens?: number;
  /**
   * The most bytes of images or numbers in a whole answer, beyond those of a usual one. Absent for
   * none.
   */
  dataBytes?: number;
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
/** Speech or images in a conversation: the most that the models for them produce. */
const spokenTokens = 16_384;
/** Alternatives of a token, as at OpenAI and Google. */
const listedTokensMax = 20;

/** The demand of a request with a conversation. */
export function conversationDemandOf(body: JsonObject, dialect: ConversationDialect): Demand {
  const { requestedLengthOf, conversation } = profiles[dialect];
  const { outputTokensMax, choices: choiceCount, wantsMedia } = requestedLengthOf(body);
  const choices = Math.min(choicesMax, choiceCount);
  return {
    outputTokensMax,
    mediaTokens: wantsMedia ? spokenTokens : undefined,
    choices,
    ...attachmentsIn(body[conversation.field]),
    // Models of images make them without being asked.
    ...(choices > 1 && { dataBytes: (choices - 1) * imageBytes }),
    ...listedTokensOf(body),
    ...(hostsTools(body) && { hostsTools: true }),
  };
}

/** Fields besides `tools` with which some vendors offer tools that they run. */
const hostingFields = ["web_search_options", "search_parameters", "plugins", "mcp_servers"];
/** Tools that the caller runs, by their type, or by the member of a tool in Gemini's format. */
const ownTools = new Set(["function", "custom", "functionDeclarations", "function_declarations"]);

/** OpenAI's list of strategies, or Anthropic's list of edits. */
const compacts = (management: unknown) =>
  listOf(Array.isArray(management) ? management : objectOf(management).edits).some((strategy) =>
    String(objectOf(strategy).type).startsWith("compact"),
  );

/**
 * Whether a request of any dialect offers tools that the vendor runs, or has it summarize the
 * conversation before it answers.
 */
const hostsTools = (body: JsonObject) =>
  hostingFields.some((name) => isPresent(body[name])) ||
  compacts(body.context_management) ||
  listOf(body.tools).some((tool) => {
    const { type, ...members } = objectOf(tool);
    return typeof type === "string"
      ? !ownTools.has(type)
      : !Object.keys(members).some((name) => ownTools.has(name) || name === "name");
  });

/**
 * Each dialect's fields of log probabilities, in the request or in Gemini's settings; a number says
 * how many alternatives each token has.
 */
export function listedTokensOf(body: JsonObject): Pick<Demand, "listedTokens"> {
  const config = objectOf(body.generationConfig ?? body.generation_config);
  const values = [body.top_logprobs, body.logprobs, config.logprobs, config.responseLogprobs, config.response_logprobs];
  const counts = values.filter((value) => value === true || (typeof value === "number" && value >= 0)).map(Number);
  return counts.length === 0 ? {} : { listedTokens: 1 + Math.min(listedTokensMax, Math.max(...counts)) };
}

/** The demand of a request without an answer of text. `content` may refer to files by address. */
export const plainDemandOf = (content?: unknown, prompts = 1): Demand => ({
  outputTokensMax: undefined,
  mediaTokens: undefined,
  choices: 1,
  ...attachmentsIn(content),
  ...(prompts > 1 && { prompts }),
});

/** The input tokens of a body: those of its text, at most `textTokensMax`, and its attachments. */
export const inputTokensOf = (
  bodyBytes: number,
  { attachedTokens, attachedBytes = 0 }: Pick<Demand, "attachedTokens" | "attachedBytes">,
  textTokensMax = Number.POSITIVE_INFINITY,
) => Math.min(Math.ceil(Math.max(0, bodyBytes - attachedBytes) / bytesPerToken), textTokensMax) + attachedTokens;

/** The tokens of an attachment, and its bytes in the body: 0 for one by address or id. */
interface Attached {
  tokens: number;
  bytes: number;
}

const none: readonly Attached[] = [];
const atAddress: readonly Attached[] = [{ tokens: referenceTokens, bytes: 0 }];
const dataUrl = /^data:([^;,]{0,100})/i;

const isAddress = (value: unknown) => typeof value === "string" && value !== "" && !dataUrl.test(value);

/** An attachment in base64; text is none. */
const inlineOf = (type: unknown, data: unknown): readonly Attached[] =>
  typeof data !== "string" || data === "" || /^text\//i.test(String(type)) || /^https?:/i.test(data)
    ? none
    : [inlineOfLength(String(type), data.length - (data.indexOf(",") + 1))];

function inlineOfLength(type: string, bytes: number): Attached {
  if (/^image\//i.test(type)) return { tokens: referenceTokens, bytes };
  return {
    tokens: Math.ceil(bytes / (/^(?:audio|video)\//i.test(type) ? recordingPerToken : documentPerToken)),
    bytes,
  };
}

/** The attachments that a member is, in the object `owner`. */
type ReadMember = (member: unknown, owner: JsonObject) => readonly Attached[];

/** A file by address or id, or as a data URL. `isBare`: base64 may also stand alone. */
function referred(member: unknown, isBare = false): readonly Attached[] {
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

function inlineData(member: unknown): readonly Attached[] {
  const { mimeType, mime_type: mediaType = mimeType, data } = objectOf(member);
  return inlineOf(mediaType, data);
}

/**
 * The attachments of a conversation, whose tokens are not proportional to the body: files by
 * address or id, and files in base64.
 */
function attachmentsIn(conversation: unknown): Pick<Demand, "attachedTokens" | "attachedBytes"> {
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
