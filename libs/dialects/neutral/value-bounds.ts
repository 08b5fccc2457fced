/**
 * The bounds of values in requests to each dialect's upstreams, each with its source. A value that
 * another dialect allows is fitted to them, because its meaning survives: numbers move to the
 * nearest allowed one, and opaque texts become a stable hash.
 */

import { hash } from "node:crypto";
import { defined } from "#wire/json/parse.ts";
import type { ConversationDialect } from "../dialect.ts";
import type { SettingName } from "./neutral.ts";

/** The bounded value: a setting, or a part of the tools and calls. */
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

/** 64 characters of a-f and 0-9. Equal texts have equal hashes. */
const hash64 = (text: string) => hash("sha256", text);
const hash40 = (id: string) => `call_${hash64(id).slice(0, 32)}`;
/** Nine letters and digits. */
const hash9 = (id: string) =>
  BigInt(`0x${hash64(id).slice(0, 16)}`)
    .toString(36)
    .padStart(9, "0")
    .slice(-9);

const upTo = (lengthMax: number) => ({ kind: "text" as const, lengthMax, words: `at most ${lengthMax} characters` });

/** Addresses and telephone numbers, which Anthropic refuses as ids of users. */
const anonymous = /^(?!\s*[^\s@"{]+@[^\s@"}]+\.[^\s@"}]+\s*$)(?!\s*\+?[\d\s().-]{7,20}\s*$)/;

const chatDocument = "https://platform.openai.com/docs/api-reference/chat/create";
const responsesDocument = "https://platform.openai.com/docs/api-reference/responses/create";
const messagesDocument = "https://platform.claude.com/docs/en/api/messages/create";
const geminiDocument = "https://ai.google.dev/api/generate-content#generationconfig";
const vertex = { source: "https://cloud.google.com/vertex-ai/generative-ai/docs/model-reference/inference" };

const mistral = { model: /mi[sx]tral|ministral|codestral|devstral|pixtral|magistral/, models: "Mistral's" };
const openai = { model: /(?:^|[/:.])(?:gpt-(?!oss)|o\d(?:-|$)|chatgpt)/, models: "OpenAI's" };
const olderOpenai = { model: /(?:^|[/:.])(?:gpt-[34]|o\d(?:-|$)|chatgpt)/, models: "OpenAI's until o4 and GPT-4.1" };
const glm = {
  model: /(?:^|[/:])glm/,
  models: "GLM",
  source: "https://docs.z.ai/api-reference/llm/chat-completion",
};
const deepSeek = { model: /deepseek/, models: "DeepSeek's" };

const range = (min?: number, max?: number): Rule => ({
  kind: "range",
  ...defined({ min, max }),
});
const atMost = (max: number): Rule => ({ kind: "count", max });
const text64: Rule = { ...upTo(64), hashed: hash64 };
const plainText: Rule = {
  kind: "text",
  lengthMax: 512,
  pattern: /^[a-zA-Z0-9_-]+$/,
  words: "letters, digits, `_` and `-`",
  hashed: hash64,
};
const formatName: Rule = {
  kind: "text",
  lengthMax: 64,
  pattern: /^[A-Za-z0-9_-]+$/,
  words: "1 to 64 of A-Z, a-z, 0-9, `_` and `-`",
  hashed: (name) => name.replace(/[^A-Za-z0-9_-]/g, "_").slice(0, 64),
};

/** The ids of calls that upstreams take. */
export const callIdRules = {
  nine: { kind: "text", lengthMax: 9, pattern: /^[A-Za-z0-9]{9}$/, words: "nine letters and digits", hashed: hash9 },
  upTo40: { ...upTo(40), hashed: hash40 },
  upTo64: text64,
  plain: plainText,
} satisfies Record<string, Rule>;

type BoundRow = [of: Bounded, rule: Rule, own?: Partial<Pick<ValueBound, "model" | "models" | "source">>];

/** The bounds of a dialect. A row may have its own models and its own source. */
const boundsOfDialect = (dialect: ConversationDialect, source: string, rows: readonly BoundRow[]): ValueBound[] =>
  rows.map(([of, rule, own]) => ({ dialect, of, rule, source, ...own }));

/** Every bound. Each that matches the dialect and the model applies, in this order. */
export const valueBounds: readonly ValueBound[] = [
  ...boundsOfDialect("openai-chat", chatDocument, [
    ["user", text64],
    ["user", plainText, { ...deepSeek, source: "https://api-docs.deepseek.com/api/create-chat-completion" }],
    ["cacheKey", text64],
    ["format", formatName],
    [
      "callId",
      callIdRules.upTo40,
      {
        model: /^(?!.*kimi)/,
        models: "all but Kimi, which reads its own ids",
        source: "https://github.com/microsoft/autogen/issues/6377",
      },
    ],
    ["callId", callIdRules.nine, { ...mistral, source: "https://docs.mistral.ai/capabilities/function_calling" }],
    ["temperature", range(0, 2)],
    ["temperature", range(0, 1.5), { ...mistral, source: "https://docs.mistral.ai/api" }],
    [
      "temperature",
      range(0, 1),
      { model: /moonshot-v1|kimi/, models: "Moonshot's", source: "https://platform.moonshot.ai/docs/api/chat" },
    ],
    [
      "temperature",
      range(0.01, 1),
      {
        model: /minimax/,
        models: "MiniMax's",
        source: "https://platform.minimax.io/docs/api-reference/text-openai-api",
      },
    ],
    ["temperature", range(0, 1), glm],
    ["topP", range(0.01, 1), { source: "https://docs.vllm.ai/en/latest/api/vllm/#vllm.SamplingParams" }],
    ["presencePenalty", range(-2, 2)],
    ["frequencyPenalty", range(-2, 2)],
    ["outputTokensMax", range(1)],
    ["stop", atMost(4)],
    ["stop", atMost(1), glm],
    [
      "toolDescription",
      { kind: "length", max: 1_024 },
      { ...olderOpenai, source: "https://github.com/getsentry/sentry-mcp/issues/106" },
    ],
    ["tools", atMost(128), { ...openai, source: "https://platform.openai.com/docs/guides/function-calling" }],
  ]),
  ...boundsOfDialect("openai-responses", responsesDocument, [
    ["user", text64],
    ["cacheKey", text64],
    ["format", formatName],
    ["callId", callIdRules.upTo64, { source: "https://github.com/HKUDS/nanobot/issues/1623" }],
    ["temperature", range(0, 2)],
    ["topP", range(0, 1)],
    ["outputTokensMax", range(16)],
  ]),
  ...boundsOfDialect("anthropic-messages", messagesDocument, [
    [
      "user",
      {
        kind: "text",
        lengthMax: 256,
        pattern: anonymous,
        words: "at most 256 characters, and no e-mail address or telephone number",
        hashed: hash64,
      },
    ],
    ["user", plainText, { ...deepSeek, source: "https://api-docs.deepseek.com/guides/anthropic_api" }],
    ["temperature", range(0, 1)],
    ["topP", range(0, 1)],
    ["topK", range(0)],
    ["outputTokensMax", range(1)],
    ["stop", { kind: "not-blank" }],
  ]),
  ...boundsOfDialect("gemini", geminiDocument, [
    ["temperature", range(0, 2)],
    ["topP", range(0, 1)],
    ["topK", { kind: "range", min: 1, leavesOut: true }],
    ["topK", range(undefined, 64), vertex],
    ["topK", range(undefined, 40), { model: /gemini-1\b/, models: "Gemini 1.5", ...vertex }],
    ["presencePenalty", range(-2, 1.99), vertex],
    ["frequencyPenalty", range(-2, 1.99), vertex],
    ["outputTokensMax", range(1)],
    ["stop", atMost(5)],
  ]),
];

/** The bounds of a dialect's model, in the order in which they apply. */
export function boundsOf(dialect: ConversationDialect, model: string): ValueBound[] {
  const name = model.toLowerCase();
  return valueBounds.filter((bound) => bound.dialect === dialect && bound.model?.test(name) !== false);
}

/** True for a text within the rule. */
export const fitsText = (text: string, { lengthMax, pattern }: Extract<Rule, { kind: "text" }>) =>
  text.length <= lengthMax && pattern?.test(text) !== false;
