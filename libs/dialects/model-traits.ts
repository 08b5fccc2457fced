/**
 * The traits of a model: what it accepts and rejects, as far as requests must be adapted to it. The catalogue may set traits; the table of defaults below
 * supplies the rest, by dialect and by the upstream's name of the model.
 * https://platform.claude.com/docs/en/build-with-claude/thinking, https://ai.google.dev/gemini-api/docs/thinking
 */
import Type from "typebox";
import type { UpstreamDialect } from "./dialect.ts";
import { efforts } from "./neutral.ts";

export const modelTraitsSchema = Type.Object({
  thinking: Type.Enum(["none", "budget", "effort"], {
    description: "How a request sets the amount of thinking: not at all, as a number of tokens, or as an effort.",
  }),
  thinkingTokensMin: Type.Integer({
    minimum: 1,
    maximum: 1_000_000_000,
    description: "The smallest thinking budget in tokens, if `thinking` is `budget`.",
  }),
  thinkingTokensMax: Type.Integer({
    minimum: 1,
    maximum: 1_000_000_000,
    description: "The largest thinking budget in tokens, if `thinking` is `budget`.",
  }),
  thinksAlways: Type.Boolean({
    description: "Thinking can't be switched off. Anthropic's models of this kind can't be forced to call a tool.",
  }),
  thinksByDefault: Type.Boolean({ description: "The model thinks unless a request switches it off." }),
  efforts: Type.Array(Type.Enum(efforts), {
    minItems: 1,
    maxItems: efforts.length,
    description: "The accepted efforts. Any other is replaced by the nearest of these.",
  }),
  sampling: Type.Enum(["both", "one", "none"], {
    description: "Whether a request may set `temperature` and `top_p` together, one of them, or neither.",
  }),
  jsonSchemas: Type.Boolean({ description: "The model accepts a JSON schema for its answer." }),
  systemTurns: Type.Boolean({ description: "The model accepts instructions in the middle of a conversation." }),
  signedCalls: Type.Boolean({
    description: "The first call of each turn must be signed, and tool results may contain media.",
  }),
  knownToReason: Type.Boolean({
    description:
      "The model reasons even if its `capabilities` are empty and a request does not ask for it. Requests ask it for encrypted reasoning (Responses).",
  }),
  completions: Type.Boolean({
    description:
      "Upstreams of openai-chat serve the model at OpenAI's legacy endpoint for completions, so these requests pass to it unchanged. Otherwise they become conversations.",
  }),
  prefill: Type.Optional(
    Type.Boolean({
      description:
        "The model continues an assistant turn at the end of a request. Overrides `prefill` of its upstreams.",
    }),
  ),
});

type SchemaTraits = Type.Static<typeof modelTraitsSchema>;
export type ModelTraits = { readonly [Name in keyof SchemaTraits]: Readonly<SchemaTraits[Name]> };

const common: ModelTraits = {
  thinking: "effort",
  thinkingTokensMin: 1_024,
  thinkingTokensMax: 1_000_000_000,
  thinksAlways: false,
  thinksByDefault: false,
  efforts: [...efforts],
  sampling: "both",
  jsonSchemas: true,
  systemTurns: false,
  signedCalls: true,
  knownToReason: false,
  completions: false,
};

interface Row {
  /** Matches the name in lower case. */
  model: RegExp;
  /** Versions of Claude as one number: 4.5 is 405. A name without a version is the newest. */
  from?: number;
  to?: number;
  traits: Partial<ModelTraits>;
}

/** Every matching row applies, and later rows win. */
const rows: Partial<Record<UpstreamDialect, readonly Row[]>> = {
  "openai-chat": [
    { model: /(?:^|\/)(?:gpt-3\.5-turbo-instruct|(?:davinci|babbage)-002)/, traits: { completions: true } },
  ],
  "openai-responses": [
    { model: /(?:^|[/:])(?:o\d|gpt-(?:[5-9]|\d{2})|codex)(?!.*-chat)/, traits: { knownToReason: true } },
  ],
  "anthropic-messages": [
    { model: /claude/, to: 306, traits: { thinking: "none" } },
    { model: /claude/, from: 307, to: 405, traits: { thinking: "budget" } },
    { model: /claude/, to: 400, traits: { jsonSchemas: false } },
    { model: /claude/, from: 401, to: 406, traits: { sampling: "one" } },
    { model: /claude/, to: 406, traits: { efforts: ["low", "medium", "high", "max"] } },
    { model: /claude/, from: 407, traits: { sampling: "none" } },
    { model: /claude/, from: 500, traits: { thinksByDefault: true, systemTurns: true } },
    { model: /(?=.*claude).*(?:fable|mythos)/, from: 500, traits: { thinksAlways: true } },
    { model: /claude(?!-haiku-\d)/, from: 505, traits: { thinksAlways: true } },
  ],
  gemini: [
    { model: /gemini-[12]\b/, traits: { signedCalls: false } },
    { model: /gemini-.*\bpro\b/, traits: { efforts: ["low", "medium", "high"] } },
    { model: /gemini-3-pro/, traits: { efforts: ["low", "high"] } },
    {
      model: /gemini-2\.5/,
      traits: { thinking: "budget", thinkingTokensMin: 128, thinkingTokensMax: 32_768, thinksAlways: true },
    },
    {
      model: /gemini-2\.5-flash/,
      traits: { thinkingTokensMin: 1, thinkingTokensMax: 24_576, thinksAlways: false },
    },
    { model: /gemini-2\.5-flash-lite/, traits: { thinkingTokensMin: 512 } },
  ],
};

/** `claude-sonnet-4-5-20250929`, `anthropic.claude-sonnet-4-5-20250929-v1:0`, `claude-sonnet-4-5@20250929` and `anthropic/claude-sonnet-4.5` are one model. */
function versionOf(name: string): number {
  const [, major, minor = "0"] = /claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)/.exec(name) ?? [];
  return major === undefined ? Number.POSITIVE_INFINITY : Number(major) * 100 + Number(minor);
}

/** The traits of a model, by dialect and by the upstream's name. `set` has the traits from the catalogue. */
export function modelTraitsOf(dialect: UpstreamDialect, model: string, set: Partial<ModelTraits> = {}): ModelTraits {
  const name = model.toLowerCase();
  const version = versionOf(name);
  const matching = (rows[dialect] ?? []).filter(
    ({ model: pattern, from = 0, to = Number.POSITIVE_INFINITY }) =>
      pattern.test(name) && version >= from && version <= to,
  );
  return Object.assign({}, common, ...matching.map(({ traits }) => traits), set);
}
