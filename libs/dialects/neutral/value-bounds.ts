/**
 * The bounds of values in requests to each dialect's upstreams, each with its source. A value that
 * another dialect allows is fitted to them, because its meaning survives: numbers move to the
 * nearest allowed one, and opaque texts become a stable hash.
 */
import { createHash } from "node:crypto";
import type { ConversationDialect } from "../dialect.ts";
import type { SettingName } from "./neutral.ts";

/** What is bounded: a setting, or a part of the tools and calls. */
export type Bounded =
  | Extract<
      SettingName,
      | "user"
      | "cacheKey"
      | "temperature"
      | "topP"
      | "topK"
      | "presencePenalty"
      | "frequencyPenalty"
      | "outputTokensMax"
      | "stop"
      | "format"
    >
  | "callId"
  | "toolDescription"
  | "tools";

export interface ValueBound {
  dialect: ConversationDialect;
  /** Matches the upstream's name of the model, in lower case; absent for all models. */
  model?: RegExp;
  /** The models in words, if only some have the bound. */
  models?: string;
  of: Bounded;
  rule: Rule;
  /** The public document with the bound. */
  source: string;
}

export type Rule =
  /** A number beyond the range becomes the nearest one in it, or is left out. */
  | { kind: "range"; min?: number; max?: number; leavesOut?: boolean }
  /**
   * A text that is longer or does not match becomes a hash of it. `words` describes the texts that
   * fit.
   */
  | { kind: "text"; lengthMax: number; pattern?: RegExp; words: string; hashed(text: string): string }
  /** The end of a longer text moves to the instructions. */
  | { kind: "length"; max: number }
  /** More are refused; of stop sequences, the gateway ends the answer at the others. */
  | { kind: "count"; max: number }
  /** Stop sequences of white space are left to the gateway. */
  | { kind: "not-blank" };

const digest = (text: string): string => createHash("sha256").update(text).digest("hex");
/** 64 characters of a-f and 0-9. Equal texts have equal hashes. */
const hash64 = digest;
const hash40 = (id: string): string => `call_${digest(id).slice(0, 32)}`;
/** Nine letters and digits. */
const hash9 = (id: string): string =>
  BigInt(`0x${digest(id).slice(0, 16)}`)
    .toString(36)
    .padStart(9, "0")
    .slice(-9);

const upTo = (lengthMax: number) => ({ kind: "text" as const, lengthMax, words: `at most ${lengthMax} characters` });

/** Addresses and telephone numbers, which Anthropic refuses as ids of users. */
const anonymous = /^(?!\s*[^\s@"{]+@[^\s@"}]+\.[^\s@"}]+\s*$)(?!\s*\+?[\d\s().-]{7,20}\s*$)/;
const plain = {
  kind: "text" as const,
  lengthMax: 512,
  pattern: /^[a-zA-Z0-9_-]+$/,
  words: "letters, digits, `_` and `-`",
};

const chatDocument = "https://platform.openai.com/docs/api-reference/chat/create";
const responsesDocument = "https://platform.openai.com/docs/api-reference/responses/create";
const messagesDocument = "https://platform.claude.com/docs/en/api/messages/create";
const geminiDocument = "https://ai.google.dev/api/generate-content#generationconfig";
const mistralDocument = "https://docs.mistral.ai/api";
const kimiDocument = "https://platform.moonshot.ai/docs/api/chat";
const miniMaxDocument = "https://platform.minimax.io/docs/api-reference/text-openai-api";
const deepSeekDocument = "https://api-docs.deepseek.com/api/create-chat-completion";
const glmDocument = "https://docs.z.ai/api-reference/llm/chat-completion";
const vertexDocument = "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference";

const mistral = { model: /mistral|ministral|codestral|devstral|pixtral/, models: "Mistral's" };
const openai = { model: /(?:^|[/:.])(?:gpt-(?!oss)|o\d(?:-|$)|chatgpt)/, models: "OpenAI's" };
const olderOpenai = { model: /(?:^|[/:.])(?:gpt-[34]|o\d(?:-|$)|chatgpt)/, models: "OpenAI's until o4 and GPT-4.1" };
const formatName = {
  kind: "text" as const,
  lengthMax: 64,
  pattern: /^[A-Za-z0-9_-]+$/,
  words: "1 to 64 of A-Z, a-z, 0-9, `_` and `-`",
  hashed: (name: string) => name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64),
};

/** Every bound. Each that matches the dialect and the model applies, in this order. */
export const valueBounds: readonly ValueBound[] = [
  { dialect: "openai-chat", of: "user", rule: { ...upTo(64), hashed: hash64 }, source: chatDocument },
  {
    dialect: "openai-chat",
    model: /deepseek/,
    models: "DeepSeek's",
    of: "user",
    rule: { ...plain, hashed: hash64 },
    source: deepSeekDocument,
  },
  { dialect: "openai-chat", of: "cacheKey", rule: { ...upTo(64), hashed: hash64 }, source: chatDocument },
  { dialect: "openai-chat", of: "format", rule: formatName, source: chatDocument },
  {
    dialect: "openai-chat",
    model: /^(?!.*kimi)/,
    models: "all but Kimi, which reads its own ids",
    of: "callId",
    rule: { ...upTo(40), hashed: hash40 },
    source: "https://github.com/microsoft/autogen/issues/6377",
  },
  {
    dialect: "openai-chat",
    ...mistral,
    of: "callId",
    rule: { kind: "text", lengthMax: 9, pattern: /^[A-Za-z0-9]{9}$/, words: "nine letters and digits", hashed: hash9 },
    source: "https://docs.mistral.ai/capabilities/function_calling",
  },
  { dialect: "openai-chat", of: "temperature", rule: { kind: "range", min: 0, max: 2 }, source: chatDocument },
  {
    dialect: "openai-chat",
    ...mistral,
    of: "temperature",
    rule: { kind: "range", min: 0, max: 1.5 },
    source: mistralDocument,
  },
  {
    dialect: "openai-chat",
    model: /moonshot-v1|kimi/,
    models: "Moonshot's",
    of: "temperature",
    rule: { kind: "range", min: 0, max: 1 },
    source: kimiDocument,
  },
  {
    dialect: "openai-chat",
    model: /minimax/,
    models: "MiniMax's",
    of: "temperature",
    rule: { kind: "range", min: 0.01, max: 1 },
    source: miniMaxDocument,
  },
  {
    dialect: "openai-chat",
    model: /(?:^|[/:])glm/,
    models: "GLM",
    of: "temperature",
    rule: { kind: "range", min: 0, max: 1 },
    source: glmDocument,
  },
  {
    dialect: "openai-chat",
    of: "topP",
    rule: { kind: "range", min: 0.01, max: 1 },
    source: "https://docs.vllm.ai/en/latest/api/vllm/#vllm.SamplingParams",
  },
  { dialect: "openai-chat", of: "presencePenalty", rule: { kind: "range", min: -2, max: 2 }, source: chatDocument },
  { dialect: "openai-chat", of: "frequencyPenalty", rule: { kind: "range", min: -2, max: 2 }, source: chatDocument },
  { dialect: "openai-chat", of: "outputTokensMax", rule: { kind: "range", min: 1 }, source: chatDocument },
  { dialect: "openai-chat", of: "stop", rule: { kind: "count", max: 4 }, source: chatDocument },
  {
    dialect: "openai-chat",
    model: /(?:^|[/:])glm/,
    models: "GLM",
    of: "stop",
    rule: { kind: "count", max: 1 },
    source: glmDocument,
  },
  {
    dialect: "openai-chat",
    ...olderOpenai,
    of: "toolDescription",
    rule: { kind: "length", max: 1_024 },
    source: "https://github.com/getsentry/sentry-mcp/issues/106",
  },
  {
    dialect: "openai-chat",
    ...openai,
    of: "tools",
    rule: { kind: "count", max: 128 },
    source: "https://platform.openai.com/docs/guides/function-calling",
  },
  {
    dialect: "openai-responses",
    of: "user",
    rule: { ...upTo(64), hashed: hash64 },
    source: responsesDocument,
  },
  {
    dialect: "openai-responses",
    of: "cacheKey",
    rule: { ...upTo(64), hashed: hash64 },
    source: responsesDocument,
  },
  { dialect: "openai-responses", of: "format", rule: formatName, source: responsesDocument },
  {
    dialect: "openai-responses",
    of: "callId",
    rule: { ...upTo(64), hashed: hash64 },
    source: "https://github.com/HKUDS/nanobot/issues/1623",
  },
  {
    dialect: "openai-responses",
    of: "temperature",
    rule: { kind: "range", min: 0, max: 2 },
    source: responsesDocument,
  },
  { dialect: "openai-responses", of: "topP", rule: { kind: "range", min: 0, max: 1 }, source: responsesDocument },
  { dialect: "openai-responses", of: "outputTokensMax", rule: { kind: "range", min: 16 }, source: responsesDocument },
  {
    dialect: "anthropic-messages",
    of: "user",
    rule: {
      kind: "text",
      lengthMax: 256,
      pattern: anonymous,
      words: "at most 256 characters, and no e-mail address or telephone number",
      hashed: hash64,
    },
    source: messagesDocument,
  },
  {
    dialect: "anthropic-messages",
    model: /deepseek/,
    models: "DeepSeek's",
    of: "user",
    rule: { ...plain, hashed: hash64 },
    source: "https://api-docs.deepseek.com/guides/anthropic_api",
  },
  {
    dialect: "anthropic-messages",
    of: "temperature",
    rule: { kind: "range", min: 0, max: 1 },
    source: messagesDocument,
  },
  { dialect: "anthropic-messages", of: "topP", rule: { kind: "range", min: 0, max: 1 }, source: messagesDocument },
  { dialect: "anthropic-messages", of: "topK", rule: { kind: "range", min: 0 }, source: messagesDocument },
  { dialect: "anthropic-messages", of: "outputTokensMax", rule: { kind: "range", min: 1 }, source: messagesDocument },
  { dialect: "anthropic-messages", of: "stop", rule: { kind: "not-blank" }, source: messagesDocument },
  { dialect: "gemini", of: "temperature", rule: { kind: "range", min: 0, max: 2 }, source: geminiDocument },
  { dialect: "gemini", of: "topP", rule: { kind: "range", min: 0, max: 1 }, source: geminiDocument },
  { dialect: "gemini", of: "topK", rule: { kind: "range", min: 1, leavesOut: true }, source: geminiDocument },
  { dialect: "gemini", of: "topK", rule: { kind: "range", max: 64 }, source: vertexDocument },
  {
    dialect: "gemini",
    model: /gemini-1\b/,
    models: "Gemini 1.5",
    of: "topK",
    rule: { kind: "range", max: 40 },
    source: vertexDocument,
  },
  { dialect: "gemini", of: "presencePenalty", rule: { kind: "range", min: -2, max: 1.99 }, source: vertexDocument },
  { dialect: "gemini", of: "frequencyPenalty", rule: { kind: "range", min: -2, max: 1.99 }, source: vertexDocument },
  { dialect: "gemini", of: "outputTokensMax", rule: { kind: "range", min: 1 }, source: geminiDocument },
  { dialect: "gemini", of: "stop", rule: { kind: "count", max: 5 }, source: geminiDocument },
];

/** The bounds of a dialect's model, in the order in which they apply. */
export function boundsOf(dialect: ConversationDialect, model: string): ValueBound[] {
  const name = model.toLowerCase();
  return valueBounds.filter((bound) => bound.dialect === dialect && bound.model?.test(name) !== false);
}

/** True for a text within the rule. */
export const fitsText = (text: string, { lengthMax, pattern }: Extract<Rule, { kind: "text" }>): boolean =>
  text.length <= lengthMax && pattern?.test(text) !== false;
