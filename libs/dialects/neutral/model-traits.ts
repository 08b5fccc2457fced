/**
 * The traits of a model: what it accepts and rejects, as far as requests must be adapted to it. The
 * catalogue may set traits; the table of defaults below supplies the rest, by dialect and by the
 * upstream's name of the model. https://platform.claude.com/docs/en/build-with-claude/thinking,
 * https://ai.google.dev/gemini-api/docs/thinking
 */
import Type from "typebox";
import { rememberedModelsMax } from "../bounds.ts";
import type { UpstreamDialect } from "../dialect.ts";
import { efforts } from "./neutral.ts";

const flag = (description: string) => Type.Boolean({ description });

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
  thinksAlways: flag("Thinking can't be switched off."),
  thinksByDefault: flag("The model thinks unless a request switches it off."),
  efforts: Type.Array(Type.Enum(efforts), {
    minItems: 1,
    maxItems: efforts.length,
    description: "The accepted efforts. Any other is replaced by the nearest of these.",
  }),
  sampling: Type.Enum(["both", "one", "without-thinking", "none"], {
    description:
      "Whether a request may set `temperature` and `top_p` together, one of them, both only where it switches thinking off, or neither. The others are left out, and with them `top_k` and penalties.",
  }),
  penalties: flag("The model accepts presence and frequency penalties. Otherwise they are left out."),
  stops: flag("The model accepts stop sequences. Otherwise the gateway ends the answer at them."),
  forcedCalls: Type.Enum(["always", "without-thinking", "never"], {
    description:
      "Whether a request may require a tool call: always, only where thinking is off (which is then switched off), or never. Where it may not, the model is offered only the required tools, and an instruction asks for the call.",
  }),
  thinkingSwitch: Type.Enum(["effort", "thinking", "enable_thinking"], {
    description:
      "For openai-chat: the field that switches thinking off, `reasoning_effort: none`, `thinking: {type: disabled}` or `enable_thinking: false`.",
  }),
  callsWhileReasoning: flag(
    "For openai-chat: the model accepts functions together with reasoning. Otherwise a request with functions goes to the upstream's endpoint of openai-responses, if `alsoSpeaks` names it, or without reasoning.",
  ),
  verbosity: flag("The model accepts `verbosity`. Otherwise it is left out."),
  cacheMarks: Type.Enum(["none", "breakpoint", "control"], {
    description:
      "For OpenAI's dialects: the field that marks the end of a prompt's cached part, `prompt_cache_breakpoint` (OpenAI) or `cache_control` (Claude and others behind OpenRouter and similar services).",
  }),
  formatsWithTools: flag(
    "For gemini: the model accepts a format of the answer together with tools. Otherwise an instruction asks for the format.",
  ),
  jsonSchemas: flag("The model accepts a JSON schema for its answer."),
  systemTurns: flag("The model accepts instructions in the middle of a conversation."),
  turns: Type.Enum(["free", "instructions-first", "alternating"], {
    description:
      "For openai-chat: `instructions-first` moves instructions in the middle of a conversation into the user's turns; `alternating` also joins turns of one role, begins with the user, and puts a turn of the assistant between results and the user's next words.",
  }),
  boundThinking: flag("For anthropic-messages: the model refuses thinking of other models, so it is left out."),
  signedCalls: flag("The first call of each turn must be signed, and tool results may contain media."),
  knownToReason: flag(
    "The model reasons even if its `capabilities` are empty and a request does not ask for it. Requests ask it for encrypted reasoning (Responses).",
  ),
  requiresReasoning: flag(
    "The model refuses a conversation with calls without its reasoning (`reasoning_content`), so a blank stands for reasoning that was lost (openai-chat).",
  ),
  signsCalls: flag(
    "For openai-chat: the first call of a turn must have Google's signature (`extra_content`). A call that none of Google's models made gets the one that Google documents for it.",
  ),
  functionsOnly: flag(
    "For openai-responses: the upstream knows no tools but functions, so it gets functions in place of custom tools, namespaces and tools that OpenAI defines and the caller runs, and no tools that OpenAI runs. An upstream that refuses such a tool counts as one for an hour.",
  ),
  completions: flag(
    "Upstreams of openai-chat serve the model at OpenAI's legacy endpoint for completions, so these requests pass to it unchanged. Otherwise they become conversations.",
  ),
  prefill: Type.Optional(
    flag(
      "The model continues an assistant turn at the end of a request. Overrides `prefill` of its upstreams. If false, the model refuses such a request, and an instruction to continue follows the turn.",
    ),
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
  functionsOnly: false,
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

/** A rule; `source` is the public document with it. */
const row = (model: RegExp, traits: Row["traits"], source?: string, versions: Pick<Row, "from" | "to"> = {}): Row => ({
  model,
  traits,
  ...versions,
  ...(source !== undefined && { source }),
});

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

const geminiEndings = row(
  /gemini-(?:3\.5-flash-lite|3\.[6-9]|[4-9]|\d{2})/,
  { prefill: false },
  "https://ai.google.dev/gemini-api/docs/latest-model",
);

/** The models of GPT-6 that refuse `none`. */
const alwaysThinking: Row["traits"] = { efforts: ["low", "medium", "high", "xhigh", "max"], thinksAlways: true };

/** Rules that OpenAI's models have at both of OpenAI's endpoints. */
const openaiRows: readonly Row[] = [
  row(gpt, { thinking: "none" }, openaiChat, { to: 499 }),
  row(oSeries, { efforts: ["low", "medium", "high"], sampling: "none", stops: false }, openaiReasoning),
  row(reasoningGpt, { sampling: "without-thinking", verbosity: true, stops: false }, openaiNewest, { from: 500 }),
  row(
    reasoningGpt,
    { efforts: ["minimal", "low", "medium", "high"], sampling: "none", thinksAlways: true },
    openaiReasoning,
    { from: 500, to: 500 },
  ),
  row(reasoningGpt, { efforts: ["none", "low", "medium", "high"] }, openaiReasoning, { from: 501, to: 501 }),
  row(reasoningGpt, { efforts: ["none", "low", "medium", "high", "xhigh"] }, openaiReasoning, { from: 502, to: 505 }),
  row(reasoningGpt, { efforts: ["none", "low", "medium", "high", "xhigh", "max"] }, openaiReasoning, { from: 506 }),
  row(/gpt-\d.*-astra/, alwaysThinking, "https://github.com/UKGovernmentBEIS/inspect_ai/pull/5254"),
  row(/gpt-\d.*-sol/, alwaysThinking, openaiNewest, { from: 601 }),
  row(
    /gpt-\d.*-pro\b/,
    { efforts: ["medium", "high", "xhigh"], sampling: "none", thinksAlways: true },
    openaiReasoning,
    { from: 501 },
  ),
  row(/gpt-5-pro\b/, { efforts: ["high"], sampling: "none", thinksAlways: true }, openaiReasoning),
  row(reasoningGpt, { sampling: "none" }, openaiNewest, { from: 506 }),
  row(reasoningGpt, { cacheMarks: "breakpoint" }, openaiCaching, { from: 506 }),
  row(/gpt-oss/, { efforts: ["low", "medium", "high"] }, openaiReasoning),
];

/** Every matching row applies, and later rows win. */
export const modelRules: Partial<Record<UpstreamDialect, readonly Row[]>> = {
  "openai-chat": [
    row(/(?:^|\/)(?:gpt-3\.5-turbo-instruct|(?:davinci|babbage)-002)/, { completions: true }),
    ...openaiRows,
    row(reasoningGpt, { callsWhileReasoning: false }, openaiNewest, { from: 504 }),
    row(
      /gpt-\d.*-astra/,
      { efforts: ["low", "medium", "high", "xhigh"] },
      "https://github.com/genkit-ai/genkit/pull/6303",
    ),
    row(
      /deepseek/,
      {
        efforts: ["low", "medium", "high", "xhigh", "max"],
        forcedCalls: "without-thinking",
        thinkingSwitch: "thinking",
      },
      deepseekThinking,
    ),
    row(
      kimi,
      {
        efforts: ["low", "high", "max"],
        forcedCalls: "without-thinking",
        sampling: "none",
        penalties: false,
        thinkingSwitch: "thinking",
      },
      kimiThinking,
    ),
    row(/kimi-(?:k(?:[3-9]|\d{2})|latest|k2-thinking)/, { thinksAlways: true }, kimiThinking),
    row(
      /(?:^|[/:])glm/,
      {
        efforts: ["low", "high", "max"],
        forcedCalls: "never",
        penalties: false,
        thinkingSwitch: "thinking",
      },
      glmChat,
    ),
    row(/glm-(?:5\.[3-9]|[6-9])(?!.*flash)/, { thinksAlways: true }, glmChat),
    row(/qwen|(?:^|[/:])qwq/, { forcedCalls: "without-thinking", thinkingSwitch: "enable_thinking" }, qwenThinking),
    row(/grok-(?![123]\b|2-|code)/, { stops: false, penalties: false }, grokReasoning),
    row(/mistral|ministral|codestral|devstral|pixtral/, { thinking: "none" }, mistralReasoning),
    row(
      /mistral-medium-3\.[5-9]|mistral-medium-latest|magistral/,
      { thinking: "effort", efforts: ["none", "high"] },
      mistralReasoning,
    ),
    row(
      /claude|(?:^|[/:])anthropic\/|(?:google|vertex)\/gemini|qwen\/|alibaba\//,
      { cacheMarks: "control" },
      "https://openrouter.ai/docs/features/prompt-caching",
    ),
    row(/deepseek(?!-(?:r1|coder|v2|v3(?!\.[2-9])))/, { requiresReasoning: true }, deepseekThinking),
    row(kimi, { requiresReasoning: true }, kimiThinking),
    row(
      /^(?:models\/|google\/)?gemini-(?![12]\b)/,
      { signsCalls: true },
      "https://ai.google.dev/gemini-api/docs/thought-signatures#openai",
    ),
    row(
      /qwen|(?:^|[/:])qwq/,
      { turns: "instructions-first" },
      "https://huggingface.co/Qwen/Qwen3.5-397B-A17B/blob/main/chat_template.jinja",
    ),
    row(/minimax/, { turns: "instructions-first" }, "https://platform.minimax.io/docs/api-reference/errorcode"),
    row(
      /mi[sx]tral|ministral|codestral|devstral|pixtral|magistral/,
      { turns: "alternating", prefill: false },
      "https://docs.mistral.ai/api/#tag/chat",
    ),
    row(/claude/, { prefill: false }, claudeMigration, { from: 406 }),
    geminiEndings,
    row(/(?:^|[/:])gemma/, { turns: "alternating" }, "https://ai.google.dev/gemma/docs/core/prompt-structure"),
    row(/(?:^|\/)mimo-/, { requiresReasoning: true }, "https://platform.xiaomimimo.com/docs"),
  ],
  "openai-responses": [
    row(/(?:^|[/:])(?:o\d|gpt-(?:[5-9]|\d{2})|codex)(?!.*-chat)/, { knownToReason: true }),
    row(/./, { verbosity: true }, "https://platform.openai.com/docs/api-reference/responses/create"),
    row(gpt, { verbosity: false }, openaiNewest, { to: 499 }),
    row(oSeries, { verbosity: false }, openaiNewest),
    ...openaiRows,
  ],
  "anthropic-messages": [
    row(/./, { forcedCalls: "without-thinking" }),
    row(/claude/, { thinking: "none" }, undefined, { to: 306 }),
    row(/claude/, { thinking: "budget" }, undefined, { from: 307, to: 405 }),
    row(/claude/, { jsonSchemas: false }, undefined, { to: 400 }),
    row(/claude/, { sampling: "one" }, undefined, { from: 401, to: 406 }),
    row(/claude/, { efforts: ["low", "medium", "high", "max"] }, undefined, { to: 406 }),
    row(/claude/, { prefill: false }, claudeMigration, { from: 406 }),
    row(/claude/, { sampling: "none" }, undefined, { from: 407 }),
    row(/claude/, { thinksByDefault: true, systemTurns: true }, undefined, { from: 500 }),
    row(/(?=.*claude).*(?:fable|mythos)/, { thinksAlways: true, forcedCalls: "never" }, undefined, { from: 500 }),
    row(/claude(?!-haiku-\d)/, { thinksAlways: true, forcedCalls: "never" }, undefined, { from: 505 }),
    row(/deepseek/, { thinksByDefault: true }, deepseekThinking),
    row(kimi, { thinksByDefault: true }, kimiThinking),
    row(/(?:^|[/:])glm/, { forcedCalls: "never" }, glmChat),
    row(/qwen/, { thinksByDefault: true }, qwenThinking),
    row(
      /claude-(?:opus|fable|mythos)/,
      { boundThinking: true },
      "https://platform.claude.com/docs/en/build-with-claude/thinking",
      { from: 501 },
    ),
  ],
  gemini: [
    row(/gemini-[12]\b/, { signedCalls: false, formatsWithTools: false }),
    row(/gemini-.*\bpro\b/, { efforts: ["low", "medium", "high"] }),
    row(/gemini-3-pro/, { efforts: ["low", "high"] }),
    row(
      /gemini-(?:3\.[1-9].*pro|3\.[89]|[4-9]|\d{2})/,
      { efforts: ["low", "medium", "high"] },
      "https://ai.google.dev/gemini-api/docs/thinking",
    ),
    row(/gemini-(?:3\.[89]|[4-9]|\d{2})/, { sampling: "none" }, "https://ai.google.dev/gemini-api/docs/models"),
    geminiEndings,
    row(/gemini-2\.5/, { thinking: "budget", thinkingTokensMin: 128, thinkingTokensMax: 32_768, thinksAlways: true }),
    row(/gemini-2\.5-flash/, { thinkingTokensMin: 1, thinkingTokensMax: 24_576, thinksAlways: false }),
    row(/gemini-2\.5-flash-lite/, { thinkingTokensMin: 512 }),
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
export function modelTraitsOf(dialect: UpstreamDialect, model: string, set?: Partial<ModelTraits>): ModelTraits {
  const traits = traitsByRulesOf(dialect, model);
  return set === undefined ? traits : { ...traits, ...set };
}

/** The results of the rules, by dialect and name, because every request asks for them. */
const results = new Map<string, ModelTraits>();

function traitsByRulesOf(dialect: UpstreamDialect, model: string): ModelTraits {
  const key = `${dialect} ${model}`;
  const present = results.get(key);
  if (present !== undefined) return present;
  if (results.size >= rememberedModelsMax) results.clear();
  const traits = newTraitsOf(dialect, model);
  results.set(key, traits);
  return traits;
}

function newTraitsOf(dialect: UpstreamDialect, model: string): ModelTraits {
  const name = model.toLowerCase();
  const version = versionOf(name);
  const matching = (modelRules[dialect] ?? []).filter(
    ({ model: pattern, from = 0, to = Number.POSITIVE_INFINITY }) =>
      pattern.test(name) && version >= from && version <= to,
  );
  return Object.assign({}, common, ...matching.map(({ traits }) => traits));
}
