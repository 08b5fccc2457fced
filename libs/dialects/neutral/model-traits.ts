/**
 * The traits of a model: what it accepts and rejects, as far as requests must be adapted to it. The
 * catalogue may set traits; the table of defaults below supplies the rest, by dialect and by the
 * upstream's name of the model. https://platform.claude.com/docs/en/build-with-claude/thinking,
 * https://ai.google.dev/gemini-api/docs/thinking
 */
import Type from "typebox";
import type { UpstreamDialect } from "../dialect.ts";
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
  thinksAlways: Type.Boolean({ description: "Thinking can't be switched off." }),
  thinksByDefault: Type.Boolean({ description: "The model thinks unless a request switches it off." }),
  efforts: Type.Array(Type.Enum(efforts), {
    minItems: 1,
    maxItems: efforts.length,
    description: "The accepted efforts. Any other is replaced by the nearest of these.",
  }),
  sampling: Type.Enum(["both", "one", "without-thinking", "none"], {
    description:
      "Whether a request may set `temperature` and `top_p` together, one of them, both only where it switches thinking off, or neither. The others are left out, and with them `top_k` and penalties.",
  }),
  penalties: Type.Boolean({
    description: "The model accepts presence and frequency penalties. Otherwise they are left out.",
  }),
  stops: Type.Boolean({
    description: "The model accepts stop sequences. Otherwise the gateway ends the answer at them.",
  }),
  forcedCalls: Type.Enum(["always", "without-thinking", "never"], {
    description:
      "Whether a request may require a tool call: always, only where thinking is off (which is then switched off), or never. Where it may not, the model is offered only the required tools, and an instruction asks for the call.",
  }),
  thinkingSwitch: Type.Enum(["effort", "thinking", "enable_thinking"], {
    description:
      "For openai-chat: the field that switches thinking off, `reasoning_effort: none`, `thinking: {type: disabled}` or `enable_thinking: false`.",
  }),
  callsWhileReasoning: Type.Boolean({
    description:
      "For openai-chat: the model accepts functions together with reasoning. Otherwise a request with functions goes to the upstream's endpoint of openai-responses, if `alsoSpeaks` names it, or without reasoning.",
  }),
  verbosity: Type.Boolean({ description: "The model accepts `verbosity`. Otherwise it is left out." }),
  cacheMarks: Type.Enum(["none", "breakpoint", "control"], {
    description:
      "For OpenAI's dialects: the field that marks the end of a prompt's cached part, `prompt_cache_breakpoint` (OpenAI) or `cache_control` (Claude and others behind OpenRouter and similar services).",
  }),
  formatsWithTools: Type.Boolean({
    description:
      "For gemini: the model accepts a format of the answer together with tools. Otherwise an instruction asks for the format.",
  }),
  jsonSchemas: Type.Boolean({ description: "The model accepts a JSON schema for its answer." }),
  systemTurns: Type.Boolean({ description: "The model accepts instructions in the middle of a conversation." }),
  turns: Type.Enum(["free", "instructions-first", "alternating"], {
    description:
      "For openai-chat: `instructions-first` moves instructions in the middle of a conversation into the user's turns; `alternating` also joins turns of one role, begins with the user, and puts a turn of the assistant between results and the user's next words.",
  }),
  boundThinking: Type.Boolean({
    description: "For anthropic-messages: the model refuses thinking of other models, so it is left out.",
  }),
  signedCalls: Type.Boolean({
    description: "The first call of each turn must be signed, and tool results may contain media.",
  }),
  knownToReason: Type.Boolean({
    description:
      "The model reasons even if its `capabilities` are empty and a request does not ask for it. Requests ask it for encrypted reasoning (Responses).",
  }),
  requiresReasoning: Type.Boolean({
    description:
      "The model refuses calls of earlier turns without their reasoning (`reasoning_content`), so a blank stands for reasoning that was lost (openai-chat).",
  }),
  signsCalls: Type.Boolean({
    description:
      "For openai-chat: the first call of a turn must have Google's signature (`extra_content`). A call that none of Google's models made gets the one that Google documents for it.",
  }),
  completions: Type.Boolean({
    description:
      "Upstreams of openai-chat serve the model at OpenAI's legacy endpoint for completions, so these requests pass to it unchanged. Otherwise they become conversations.",
  }),
  prefill: Type.Optional(
    Type.Boolean({
      description:
        "The model continues an assistant turn at the end of a request. Overrides `prefill` of its upstreams. If false, the model refuses such a request, and an instruction to continue follows the turn.",
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
  penalties: true,
  stops: true,
  forcedCalls: "always",
  thinkingSwitch: "effort",
  callsWhileReasoning: true,
  verbosity: false,
  cacheMarks: "none",
  formatsWithTools: true,
  jsonSchemas: true,
  systemTurns: false,
  turns: "free",
  boundThinking: false,
  signedCalls: true,
  knownToReason: false,
  requiresReasoning: false,
  signsCalls: false,
  completions: false,
};

interface Row {
  /** Matches the name in lower case. */
  model: RegExp;
  /**
   * Versions of Claude and GPT as one number: 4.5 is 405. A name without a version is the newest.
   */
  from?: number;
  to?: number;
  traits: Partial<ModelTraits>;
  /** The public document with the rule. */
  source?: string;
}

const openaiReasoning = "https://platform.openai.com/docs/guides/reasoning";
const openaiChat = "https://platform.openai.com/docs/api-reference/chat/create";
const openaiNewest = "https://platform.openai.com/docs/guides/latest-model";
const openaiCaching = "https://platform.openai.com/docs/guides/prompt-caching";
const deepseekThinking = "https://api-docs.deepseek.com/guides/thinking_mode";
const kimiThinking = "https://platform.moonshot.ai/docs/guide/use-kimi-k2-thinking-model";
const qwenThinking = "https://www.alibabacloud.com/help/en/model-studio/deep-thinking";
const glmChat = "https://docs.z.ai/api-reference/llm/chat-completion";
const grokReasoning = "https://docs.x.ai/docs/guides/reasoning";
const claudeMigration = "https://platform.claude.com/docs/en/about-claude/models/migration-guide";
const mistralReasoning = "https://docs.mistral.ai/capabilities/reasoning";

const gpt = /(?:^|[/:.])gpt-\d/;
/** The instant variants of GPT-5 do not reason. */
const reasoningGpt = /(?:^|[/:.])gpt-\d(?!.*-chat)/;
const oSeries = /(?:^|[/:.])o\d(?:-|$)/;
const kimi = /kimi(?!-k2(?:-instruct|-0\d{3}|-turbo|$))/;

/** Rules that OpenAI's models have at both of OpenAI's endpoints. */
const openaiRows: readonly Row[] = [
  { model: gpt, to: 499, traits: { thinking: "none" }, source: openaiChat },
  {
    model: oSeries,
    traits: { efforts: ["low", "medium", "high"], sampling: "none", stops: false },
    source: openaiReasoning,
  },
  {
    model: reasoningGpt,
    from: 500,
    traits: { sampling: "without-thinking", verbosity: true, stops: false },
    source: openaiNewest,
  },
  {
    model: reasoningGpt,
    from: 500,
    to: 500,
    traits: { efforts: ["minimal", "low", "medium", "high"], sampling: "none", thinksAlways: true },
    source: openaiReasoning,
  },
  {
    model: reasoningGpt,
    from: 501,
    to: 501,
    traits: { efforts: ["none", "low", "medium", "high"] },
    source: openaiReasoning,
  },
  {
    model: reasoningGpt,
    from: 502,
    to: 599,
    traits: { efforts: ["none", "low", "medium", "high", "xhigh"] },
    source: openaiReasoning,
  },
  {
    model: reasoningGpt,
    from: 600,
    traits: { efforts: ["none", "low", "medium", "high", "xhigh", "max"] },
    source: openaiReasoning,
  },
  {
    model: /gpt-\d.*-pro\b/,
    from: 501,
    traits: { efforts: ["medium", "high", "xhigh"], sampling: "none", thinksAlways: true },
    source: openaiReasoning,
  },
  {
    model: /gpt-5-pro\b/,
    traits: { efforts: ["high"], sampling: "none", thinksAlways: true },
    source: openaiReasoning,
  },
  { model: reasoningGpt, from: 506, traits: { sampling: "none" }, source: openaiNewest },
  { model: reasoningGpt, from: 506, traits: { cacheMarks: "breakpoint" }, source: openaiCaching },
  { model: /gpt-oss/, traits: { efforts: ["low", "medium", "high"] }, source: openaiReasoning },
];

/** Every matching row applies, and later rows win. */
export const modelRules: Partial<Record<UpstreamDialect, readonly Row[]>> = {
  "openai-chat": [
    { model: /(?:^|\/)(?:gpt-3\.5-turbo-instruct|(?:davinci|babbage)-002)/, traits: { completions: true } },
    ...openaiRows,
    { model: reasoningGpt, from: 504, traits: { callsWhileReasoning: false }, source: openaiNewest },
    {
      model: /deepseek/,
      traits: {
        efforts: ["low", "medium", "high", "xhigh", "max"],
        forcedCalls: "without-thinking",
        thinkingSwitch: "thinking",
      },
      source: deepseekThinking,
    },
    {
      model: kimi,
      traits: {
        efforts: ["low", "high", "max"],
        forcedCalls: "without-thinking",
        sampling: "none",
        penalties: false,
        thinkingSwitch: "thinking",
      },
      source: kimiThinking,
    },
    { model: /kimi-(?:k(?:[3-9]|\d{2})|latest|k2-thinking)/, traits: { thinksAlways: true }, source: kimiThinking },
    {
      model: /(?:^|[/:])glm/,
      traits: {
        efforts: ["low", "high", "max"],
        forcedCalls: "never",
        penalties: false,
        thinkingSwitch: "thinking",
      },
      source: glmChat,
    },
    { model: /glm-(?:5\.[3-9]|[6-9])(?!.*flash)/, traits: { thinksAlways: true }, source: glmChat },
    {
      model: /qwen|(?:^|[/:])qwq/,
      traits: { forcedCalls: "without-thinking", thinkingSwitch: "enable_thinking" },
      source: qwenThinking,
    },
    { model: /grok-(?![123]\b|2-|code)/, traits: { stops: false, penalties: false }, source: grokReasoning },
    { model: /mistral|ministral|codestral|devstral|pixtral/, traits: { thinking: "none" }, source: mistralReasoning },
    {
      model: /mistral-medium-3\.[5-9]|mistral-medium-latest|magistral/,
      traits: { thinking: "effort", efforts: ["none", "high"] },
      source: mistralReasoning,
    },
    {
      model: /claude|(?:^|[/:])anthropic\/|(?:google|vertex)\/gemini|qwen\/|alibaba\//,
      traits: { cacheMarks: "control" },
      source: "https://openrouter.ai/docs/features/prompt-caching",
    },
    {
      model: /deepseek(?!-(?:r1|coder|v2|v3(?!\.[2-9])))/,
      traits: { requiresReasoning: true },
      source: deepseekThinking,
    },
    { model: kimi, traits: { requiresReasoning: true }, source: kimiThinking },
    {
      model: /^(?:models\/|google\/)?gemini-(?![12]\b)/,
      traits: { signsCalls: true },
      source: "https://ai.google.dev/gemini-api/docs/thought-signatures#openai",
    },
    {
      model: /qwen|(?:^|[/:])qwq/,
      traits: { turns: "instructions-first" },
      source: "https://huggingface.co/Qwen/Qwen3.5-397B-A17B/blob/main/chat_template.jinja",
    },
    {
      model: /minimax/,
      traits: { turns: "instructions-first" },
      source: "https://platform.minimax.io/docs/api-reference/errorcode",
    },
    {
      model: /mi[sx]tral|ministral|codestral|devstral|pixtral|magistral/,
      traits: { turns: "alternating", prefill: false },
      source: "https://docs.mistral.ai/api/#tag/chat",
    },
    { model: /claude/, from: 406, traits: { prefill: false }, source: claudeMigration },
    {
      model: /(?:^|[/:])gemma/,
      traits: { turns: "alternating" },
      source: "https://ai.google.dev/gemma/docs/core/prompt-structure",
    },
    {
      model: /(?:^|\/)mimo-/,
      traits: { requiresReasoning: true },
      source: "https://platform.xiaomimimo.com/docs",
    },
  ],
  "openai-responses": [
    { model: /(?:^|[/:])(?:o\d|gpt-(?:[5-9]|\d{2})|codex)(?!.*-chat)/, traits: { knownToReason: true } },
    {
      model: /./,
      traits: { verbosity: true },
      source: "https://platform.openai.com/docs/api-reference/responses/create",
    },
    { model: gpt, to: 499, traits: { verbosity: false }, source: openaiNewest },
    { model: oSeries, traits: { verbosity: false }, source: openaiNewest },
    ...openaiRows,
  ],
  "anthropic-messages": [
    { model: /./, traits: { forcedCalls: "without-thinking" } },
    { model: /claude/, to: 306, traits: { thinking: "none" } },
    { model: /claude/, from: 307, to: 405, traits: { thinking: "budget" } },
    { model: /claude/, to: 400, traits: { jsonSchemas: false } },
    { model: /claude/, from: 401, to: 406, traits: { sampling: "one" } },
    { model: /claude/, to: 406, traits: { efforts: ["low", "medium", "high", "max"] } },
    { model: /claude/, from: 406, traits: { prefill: false }, source: claudeMigration },
    { model: /claude/, from: 407, traits: { sampling: "none" } },
    { model: /claude/, from: 500, traits: { thinksByDefault: true, systemTurns: true } },
    { model: /(?=.*claude).*(?:fable|mythos)/, from: 500, traits: { thinksAlways: true, forcedCalls: "never" } },
    { model: /claude(?!-haiku-\d)/, from: 505, traits: { thinksAlways: true, forcedCalls: "never" } },
    { model: /deepseek/, traits: { thinksByDefault: true }, source: deepseekThinking },
    { model: kimi, traits: { thinksByDefault: true }, source: kimiThinking },
    { model: /(?:^|[/:])glm/, traits: { forcedCalls: "never" }, source: glmChat },
    { model: /qwen/, traits: { thinksByDefault: true }, source: qwenThinking },
    {
      model: /claude-(?:opus|fable|mythos)/,
      from: 501,
      traits: { boundThinking: true },
      source: "https://platform.claude.com/docs/en/build-with-claude/thinking",
    },
  ],
  gemini: [
    { model: /gemini-[12]\b/, traits: { signedCalls: false, formatsWithTools: false } },
    { model: /gemini-.*\bpro\b/, traits: { efforts: ["low", "medium", "high"] } },
    { model: /gemini-3-pro/, traits: { efforts: ["low", "high"] } },
    {
      model: /gemini-(?:3\.[1-9].*pro|3\.[89]|[4-9]|\d{2})/,
      traits: { efforts: ["low", "medium", "high"] },
      source: "https://ai.google.dev/gemini-api/docs/thinking",
    },
    {
      model: /gemini-(?:3\.[89]|[4-9]|\d{2})/,
      traits: { sampling: "none" },
      source: "https://ai.google.dev/gemini-api/docs/models",
    },
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

/**
 * `claude-sonnet-4-5-20250929`, `anthropic.claude-sonnet-4-5-20250929-v1:0`,
 * `claude-sonnet-4-5@20250929` and `anthropic/claude-sonnet-4.5` are one model, and so are
 * `gpt-5.4-mini` and `gpt-5.4-mini-2026-03-05`.
 */
export function versionOf(name: string): number {
  const [, major, minor = "0"] =
    /claude-(?:[a-z]+-)?(\d+)(?:[-.](\d{1,2}))?(?!\d)/.exec(name) ?? /gpt-(\d+)(?:\.(\d{1,2}))?(?!\d)/.exec(name) ?? [];
  return major === undefined ? Number.POSITIVE_INFINITY : Number(major) * 100 + Number(minor);
}

/**
 * The traits of a model, by dialect and by the upstream's name. `set` has the traits from the
 * catalogue.
 */
export function modelTraitsOf(dialect: UpstreamDialect, model: string, set: Partial<ModelTraits> = {}): ModelTraits {
  const name = model.toLowerCase();
  const version = versionOf(name);
  const matching = (modelRules[dialect] ?? []).filter(
    ({ model: pattern, from = 0, to = Number.POSITIVE_INFINITY }) =>
      pattern.test(name) && version >= from && version <= to,
  );
  return Object.assign({}, common, ...matching.map(({ traits }) => traits), set);
}
