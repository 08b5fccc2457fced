/** The demand of a request according to its body: the base of the estimate that is reserved in its caller's limits. */
import type { ConversationDialect } from "#dialects/dialect.ts";
import { objectOf } from "#dialects/json.ts";
import { profiles } from "#dialects/profiles.ts";
import type { GeneratedImages } from "#dialects/usage.ts";
import { choicesMax } from "./bounds.ts";

export interface Demand {
  /** Output tokens of each choice, if the caller limits them. */
  outputTokensMax: number | undefined;
  /** Output tokens of each choice if the caller does not limit them; undefined for text. */
  mediaTokens: number | undefined;
  /** How many answers the caller asks for. */
  choices: number;
  /** Input tokens of attachments whose content is not in the body, or is in a form. */
  attachedTokens: number;
  /** The images of an operation that makes them. */
  images?: GeneratedImages;
}

/** For a file sent by its address. An image takes less at every vendor, a long document more. */
const referenceTokens = 2_000;
/** Speech or images in a conversation: the most that the models for them produce. */
const spokenTokens = 16_384;

/** The demand of a request with a conversation. */
export function conversationDemandOf(body: Record<string, unknown>, dialect: ConversationDialect): Demand {
  const { askedLengthOf, conversation } = profiles[dialect];
  const { outputTokensMax, choices, wantsMedia } = askedLengthOf(body);
  return {
    outputTokensMax,
    mediaTokens: wantsMedia ? spokenTokens : undefined,
    choices: Math.min(choicesMax, choices),
    attachedTokens: referencesIn(body[conversation.field]) * referenceTokens,
  };
}

/** The demand of a request without an answer of text. `content` may refer to files by address. */
export const plainDemandOf = (content?: unknown): Demand => ({
  outputTokensMax: undefined,
  mediaTokens: undefined,
  choices: 1,
  attachedTokens: referencesIn(content) * referenceTokens,
});

/** The members that refer to a file, in all dialects. */
const references = new Set(["image_url", "video_url", "audio_url", "file_url", "file_id", "fileUri", "file_uri"]);
const isReference = (value: unknown): boolean => typeof value === "string" && value !== "" && !/^data:/i.test(value);

/** Counts the files sent by address or id: their tokens are not proportional to the body. */
function referencesIn(conversation: unknown): number {
  let count = 0;
  const left: unknown[] = [conversation];
  while (left.length > 0) {
    const value = left.pop();
    if (typeof value !== "object" || value === null) continue;
    for (const [name, member] of Object.entries(value)) {
      if (references.has(name)) count += Number(isReference(member) || isReference(objectOf(member).url));
      else if (name === "source" && objectOf(member).type === "url") count += Number(isReference(objectOf(member).url));
      left.push(member);
    }
  }
  return count;
}
