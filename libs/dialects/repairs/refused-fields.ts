/**
 * Finds the field that an upstream refuses in its error. Only fields that optimise, and those that
 * newer models dropped, are known here: a request without them still gets the right answer.
 */
import type { UpstreamError } from "../errors.ts";
import { tokensMaxPaths } from "../neutral/tokens-max.ts";
import {
  betaPath,
  cacheMarks,
  callIds,
  complexSchemas,
  loneSurrogates,
  nullContents,
  spareCacheMarks,
  textLists,
  thinkingCacheMarks,
} from "./omitted-fields.ts";

/** The paths that may be removed (see omitted-fields.ts). */
const paths = [
  "temperature",
  "generationConfig.temperature",
  "top_p",
  "generationConfig.topP",
  "top_k",
  "generationConfig.topK",
  "presence_penalty",
  "generationConfig.presencePenalty",
  "frequency_penalty",
  "generationConfig.frequencyPenalty",
  "seed",
  "generationConfig.seed",
  "user",
  "metadata.user_id",
  "safety_identifier",
  "metadata",
  "client_metadata",
  "store",
  "service_tier",
  "prompt_cache_key",
  "prompt_cache_retention",
  "prompt_cache_options",
  "prompt_cache_breakpoint",
  "verbosity",
  "text.verbosity",
  "reasoning_effort",
  "reasoning.effort",
  "reasoning.summary",
  "stream_options",
  "context_management",
  "cache_control.scope",
  "cache_control.ttl",
  "tools.eager_input_streaming",
  "tools.defer_loading",
  "tools.input_examples",
  "tools.allowed_callers",
  "tools.strict",
  "tools.function.strict",
  "output_config.effort",
  "thinking.display",
  "speed",
  "inference_geo",
  "diagnostics",
  "messages.name",
  "input.status",
  "parallel_tool_calls",
  // The gateway itself encodes vectors, sorts and cuts rankings, and repeats their documents.
  "encoding_format",
  "top_n",
  "return_documents",
  // Options of images.
  "quality",
  "style",
  "moderation",
];

/**
 * Fields of other servers of chat completions, in the body itself, which clients write for every
 * model. They are left out only where the upstream does not know them.
 */
const extensions: ReadonlySet<string> = new Set([
  ...["reasoning", "thinking", "include_reasoning", "enable_thinking", "thinking_budget", "chat_template_kwargs"],
  ...["min_p", "top_a", "typical_p", "repetition_penalty", "repeat_penalty", "length_penalty", "num_ctx"],
  ...["extra_body", "provider", "transforms", "route", "usage", "keep_alive"],
]);

/** The names of several fields, as OpenAI lists them. */
const suppliedNames = /arguments? supplied: ([\w., -]{1,400})/i;

/** A field's name as errors have it, in lower case without underscores. */
const plainOf = (name: string) => name.replace(/[_-]/g, "").toLowerCase();

/** The paths that are removed for a name. */
const fields: ReadonlyMap<string, readonly string[]> = new Map([
  ...Map.groupBy(paths, (path) => plainOf(path.split(".").at(-1) as string)),
  ["outputconfig", ["output_config.effort"]],
  ["cachecontrol", ["cache_control"]],
  // Models of images that do not know it answer in base64 only.
  ["responseformat", ["response_format=b64_json"]],
]);

/** The field itself is refused, whatever its value. */
const refusesField =
  /unsupported (?:parameter|field|property)|(?:is|are) (?:unsupported|not (?:yet )?(?:supported|permitted|allowed|enabled|available))|(?:argument not|does not) support(?:ed:| parameters)|unrecognized|unknown|extra[ _](?:inputs|fields|forbidden)|cannot find field|deprecated|no longer|only the default/i;
/** The value is refused. */
const refusesValue =
  /unsupported|not (?:yet )?support|unexpected|not (?:permitted|allowed|enabled|available|valid|recognized)|invalid|may only be set|must be (?:set to )?(?:1|default)|appears to contain|should (?:not|match)|does not match/i;

/** Names that callers give, which may be longer at another vendor. */
const tooLong = /too long|maximum length|(?:more than|at most) \d+ characters/i;
const callerNames: readonly string[] = ["user", "userid", "promptcachekey"];

const beta =
  /anthropic-beta[\s\S]{0,40}?`([\w.-]{1,100})`|(?:unexpected|unsupported|unknown|invalid)[\s\S]{0,60}?`([\w.-]{1,100})`[\s\S]{0,40}anthropic-beta/i;
const thinkingOff = 'thinking:={"type":"disabled"}';
const efforts = ["output_config.effort", "reasoning_effort"];

/** Refusals whose words tell the fields. The first match decides. */
const wholeRefusals: readonly (readonly [words: RegExp, fields: readonly string[], isLasting: boolean])[] = [
  // https://github.com/anthropics/anthropic-sdk-typescript/issues/885,
  // https://github.com/genkit-ai/genkit/issues/5230, https://github.com/camel-ai/camel/pull/4171
  [
    /compiled grammar is too large|too complex for compilation|too many strict tools/i,
    ["tools.strict", "tools.function.strict"],
    true,
  ],
  // https://github.com/google-gemini/gemini-cli/issues/5923,
  // https://github.com/bethington/ghidra-mcp/issues/440,
  // https://github.com/anomalyco/opencode/issues/25495, https://github.com/Avick3110/houseCARL/issues/730
  [
    /maximum (?:allowed )?nesting depth|schema depth exceeds|too many states for serving/i,
    [complexSchemas, "tools.strict", "tools.function.strict"],
    false,
  ],
  // https://github.com/open-webui/open-webui/issues/17922
  [/temperature[`'"]? and [`'"]?top_p[`'"]? cannot both/i, ["top_p"], false],
  [/penalty is not enabled/i, paths.filter((path) => /penalty$/i.test(path)), true],
  // https://platform.openai.com/docs/guides/latest-model
  [/(?:function )?tools with [`'"]?reasoning_effort[`'"]? are not supported/i, ['reasoning_effort:="none"'], false],
  // https://www.alibabacloud.com/help/en/model-studio/deep-thinking,
  // https://api-docs.deepseek.com/guides/thinking_mode
  [
    /tool_choice[\s\S]{0,200}thinking[ _]mode|thinking[ _]mode[\s\S]{0,200}tool_choice/i,
    [thinkingOff, "enable_thinking:=false"],
    false,
  ],
  [
    /thinking may not be enabled when tool_choice|tool_choice[\s\S]{0,200}(?:thinking|reasoning) (?:is )?enabled|max_tokens[`'"]? must be greater than [`'"]?thinking\.budget_tokens/i,
    [thinkingOff],
    false,
  ],
  // https://platform.claude.com/docs/en/build-with-claude/adaptive-thinking
  [/thinking\.type\.enabled\W{1,3}is not supported/i, ['thinking:={"type":"adaptive","display":"summarized"}'], false],
  [
    /adaptive thinking is not supported|thinking[\s\S]{0,40}'adaptive' found|thinking\.type: input should be 'enabled' or 'disabled'|thinking\.enabled\.budget_tokens: field required/i,
    ['thinking:={"type":"enabled","budget_tokens":8192}'],
    false,
  ],
  [
    /does not support (?:extended )?thinking|thinking is not supported by|\bthinking: extra inputs/i,
    ["thinking"],
    true,
  ],
  // OpenAI's older and newer models, and older servers of the format, read one of two names:
  // https://github.com/langchain-ai/langchainjs/issues/8641
  [
    /[`'"]?max_tokens[`'"]? is not supported[\s\S]{0,60}max_completion_tokens|max_tokens[`'"]? and [`'"]?max_completion_tokens[`'"]? at the same time/i,
    ["max_tokens=>max_completion_tokens"],
    true,
  ],
  [
    /(?:unsupported|unrecognized|unknown)[^.\n]{0,40}[\s`'"]max_completion_tokens|max_completion_tokens[`'"]?(?:: extra inputs| is (?:unsupported|not supported))/i,
    ["max_completion_tokens=>max_tokens"],
    true,
  ],
  // https://github.com/openai/swarm/issues/30
  [
    /(?:tool_choice|parallel_tool_calls)[`'"]? is only allowed when|when using [`'"]?tool_choice[`'"]?, [`'"]?tools/i,
    ["tools=[]", "tool_choice", "parallel_tool_calls"],
    false,
  ],
  [/[`'"]tools[`'"]?\W{1,3}(?:empty array|minimum number of items)|too short - [`'"]tools/i, ["tools=[]"], false],
  [/clear_thinking\w*[`'"]? strategy requires/i, ["context_management"], false],
  [/not support (?:the |reasoning )?effort/i, efforts, true],
  [/effort: input should be/i, efforts, false],
  [
    /invalid type: sequence, expected a string|content['"`]? : value must be a string|cannot unmarshal array into go struct field \S{0,60}content/i,
    [textLists],
    true,
  ],
  [
    /content(?:\.str)?\S{0,3}(?: -)? input should be a valid string|^input should be a valid string/i,
    [textLists, nullContents],
    true,
  ],
  [
    /content['"`] (?:field must|to) be a string or an array|missing ['"`]content|invalid ['"`]content['"`] type|missing field ['"`]content|invalid type: null, expected a string|content\W{1,6}(?:msg\W{1,5})?field required/i,
    [nullContents],
    true,
  ],
  [/encrypted content is not supported with this model/i, ["include"], true],
  [/surrogate|unexpected end of hex escape/i, [loneSurrogates], true],
  [/invalid beta flag/i, [betaPath], false],
  [/tool call id was \S{1,200} but must be/i, [callIds.nine], true],
  [/call\S{0,12}id'?: string too long[^.]*\.[^.]*maximum length 40\b/i, [callIds.upTo40], true],
  [/call\S{0,12}id'?: string too long/i, [callIds.upTo64], true],
  [/tool_use(?:\.id|_id): string should match/i, [callIds.plain], true],
  [/maximum of 4 blocks with [`'"]?cache_control/i, [spareCacheMarks], true],
  // https://github.com/NousResearch/hermes-agent/issues/89886
  [/cache_control may not be specified within [`'"]?tool_result/i, ["messages.content.content.cache_control"], true],
];

/** The largest accepted number of output tokens. */
const outputTokens =
  /max_?(?:new_|completion_?|output_?)?tokens[\s\S]{0,200}?(?:\d > |at most |output tokens \(|\[\d, ?|(?:less than or equal to|<=) [`'"]?|inclusive\) to )(\d{1,9})( \(exclusive)?|maximum tokens you requested exceeds the model limit of (\d{1,9})/i;
/** The context window, what was requested of it in all, and that of it for the output. */
const contexts = [
  /context length is (?<window>\d{1,9}) tokens[\s\S]{0,60}requested (?:about )?(?<all>\d{1,9}) tokens \([\s\S]{0,120}?(?<output>\d{1,9}) in the (?:completion|output)/i,
  /context length is (?<window>\d{1,9}) tokens(?: and|\. However,) your request has (?<all>\d{1,9}) input tokens/i,
  /context limit: (?<all>\d{1,9}) \+ \d{1,9} > (?<window>\d{1,9})/i,
];
/**
 * OpenRouter compares the account's credits with the most output that the request allows, or that
 * the model has where it names no limit: https://openrouter.ai/docs/api-reference/limits
 */
const affordable = /^this request requires more credits, or fewer max_tokens[\s\S]{0,100}can only afford (\d{1,9})/i;
/** An agent does better to shorten its conversation than to get less output. */
const remainderMin = 1_024;

/**
 * A name in quotes, a path before a colon or in brackets, or the name behind "supplied:" and
 * similar words.
 */
const mentions = [
  /[`'"]([\w.[\]-]{1,120})[`'"]/g,
  /(?:^|[\s(])((?:[\w-]{1,40}[.[\]]{1,2}){0,8}[\w-]{1,40})(?=: )/g,
  /(?:on this model|not supported): ([\w.]{1,120})/gi,
  /(?:supplied|parameter|argument|property|field)s?(?:\(s\))?:? (?!supplied)([\w.[\]-]{1,120})/gi,
];

export interface RefusedFields {
  /** The paths to leave out or to set. */
  fields: readonly string[];
  /** The paths to leave out of a request that has none of the fields. */
  fallback?: readonly string[];
  /** Later requests to the same target are refused for the same field, whatever they say. */
  isLasting: boolean;
}

/** Where the conversation begins in the path of a refused cache mark. */
const conversation = /^(?:messages|system|tools|input|contents?)(?:[.[]|$)/;

/**
 * The cache marks that a refusal is about: those of the place that it names. The name alone is that
 * of the body's own mark; a parser that names no places means the others of a body without one.
 */
function refusedMarksOf(named: readonly string[]): Omit<RefusedFields, "isLasting"> {
  const path = named.find((one) => conversation.test(one)) ?? "";
  if (path === "") return { fields: ["cache_control"], fallback: [cacheMarks] };
  if (path.startsWith("tools")) return { fields: ["tools.cache_control", "tools.function.cache_control"] };
  return { fields: [/thinking\W+cache_control/.test(path) ? thinkingCacheMarks : cacheMarks] };
}

const outputUpTo = (most: number) => tokensMaxPaths.map((path) => `${path}<=${most}`);

/** For a prompt that fits the context window, but not together with the requested output. */
export function shorterOutputOf(message: string): RefusedFields | undefined {
  for (const context of contexts) {
    const { window, all, output = 0 } = context.exec(message)?.groups ?? {};
    const most = Number(window) - (Number(all) - Number(output));
    if (most >= remainderMin) return { fields: outputUpTo(most), isLasting: false };
  }
  return undefined;
}

/** For an account whose credits pay for a part of the output. */
export function affordableOutputOf(message: string): RefusedFields | undefined {
  const most = Number(affordable.exec(message)?.[1]);
  return most >= remainderMin ? { fields: [...outputUpTo(most), `max_tokens:=${most}`], isLasting: false } : undefined;
}

/** For messages whose words tell the fields. */
export function wholeRefusalOf(message: string): RefusedFields | undefined {
  for (const [words, fields, isLasting] of wholeRefusals) if (words.test(message)) return { fields, isLasting };
  return undefined;
}

/**
 * Undefined if the error is about something else. `param` may be the caller's own name of the
 * field, so the message counts first.
 */
export function refusedFieldsOf({
  message,
  param,
}: Pick<UpstreamError, "message" | "param">): RefusedFields | undefined {
  const whole = wholeRefusalOf(message);
  if (whole !== undefined) return whole;
  const remainder = shorterOutputOf(message);
  if (remainder !== undefined) return remainder;
  const [, bound, exclusive, limit] = outputTokens.exec(message) ?? [];
  const most = Number(bound ?? limit) - (exclusive === undefined ? 0 : 1);
  if (most > 0) return { fields: outputUpTo(most), isLasting: true };
  const refusedBeta = beta.exec(message);
  if (refusedBeta !== null) return { fields: [`${betaPath}${refusedBeta[1] ?? refusedBeta[2]}`], isLasting: true };
  const isLasting = refusesField.test(message);
  const isRefused = isLasting || refusesValue.test(message);
  if (!isRefused && !tooLong.test(message)) return undefined;
  const supplied = (suppliedNames.exec(message)?.[1] ?? "").split(/[\s,]+/).flatMap((name) => {
    const paths = fields.get(plainOf(name)) ?? [];
    return extensions.has(name) ? [name, ...paths] : paths;
  });
  if (supplied.length > 0) return { fields: supplied, isLasting: true };
  const named = [
    ...mentions.flatMap((pattern) => [...message.matchAll(pattern)].map(([, name = ""]) => name)),
    param ?? "",
  ];
  for (const path of named) {
    const steps = path.split(/[.[\]]+/).filter((step) => step !== "" && step !== "body" && !/^\d+$/.test(step));
    const last = plainOf(steps.at(-1) ?? "");
    // A message's `name` differs from a tool's.
    if (last === "name" && steps[0] !== "messages") continue;
    if (!isRefused && !callerNames.includes(last)) continue;
    const [first = "", ...others] = steps;
    if (isLasting && others.length === 0 && extensions.has(first)) return { fields: [first], isLasting };
    // Callers choose the names in it.
    const refused = fields.get(steps[0] === "metadata" && last !== "userid" ? "metadata" : last);
    if (refused !== undefined)
      return { ...(last === "cachecontrol" ? refusedMarksOf(named) : { fields: refused }), isLasting };
  }
  return undefined;
}
