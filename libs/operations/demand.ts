/**
 * The demand of a request according to its body: the base of the estimate that is reserved in its
 * caller's limits.
 */
import { type Attached, attachmentsIn } from "#dialects/attached-tokens.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { profiles } from "#dialects/profiles.ts";
import type { GeneratedImages } from "#dialects/usage.ts";
import { isPresent, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { choicesMax, imageBytes } from "./bounds.ts";

export interface Demand extends Attached {
  /** Output tokens of each choice, if the caller limits them. */
  outputTokensMax: number | undefined;
  /** Output tokens of each choice if the caller does not limit them; undefined for text. */
  mediaTokens: number | undefined;
  /** How many answers the caller asks for. */
  choices: number;
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
