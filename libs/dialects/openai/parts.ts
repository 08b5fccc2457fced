/** Parts of requests and answers that OpenAI's two dialects share. */

import { defined, flagOf, isObject, type JsonObject, listOf, objectOf, stringOf, textOf } from "#wire/json/parse.ts";
import { attachmentOf, checkedBase64, typeByNameOf } from "../neutral/attachments.ts";
import { refuse } from "../neutral/field-support.ts";
import type { Attachment, Part, Settings } from "../neutral/neutral.ts";
import { countedUnits, plausible, serviceTierOf, tokensOf, type Units, type Usage, unitNames } from "../usage.ts";

/** `path` names the field with the address or data URL. */
export const imageOf = (url: string, detail: unknown, path: string): Extract<Part, { kind: "image" }> => ({
  kind: "image",
  source: attachmentOf(url, path),
  ...((detail === "low" || detail === "high" || detail === "auto") && { detail }),
  ...(detail === "original" && { detail: "high" as const }),
  path,
});

/** An http(s) address or a data URL, in place of base64 or of an id. */
export const isAddress = (text: string) => /^(?:data:|https?:)/i.test(text);

/**
 * A document by address, as a data URL, or as bare base64, whose bytes or file name give the type.
 */
export const documentSourceOf = (data: string, name: unknown, path: string): Attachment =>
  isAddress(data)
    ? attachmentOf(data, path)
    : {
        kind: "data",
        mimeType: typeByNameOf(textOf(name) ?? "") ?? "application/octet-stream",
        data: checkedBase64(data, path),
      };

/**
 * Recorded speech: base64 with a format, or, from clients of Qwen, a data URL or an address.
 * https://www.alibabacloud.com/help/en/model-studio/qwen-omni
 */
export function audioOf(value: unknown, path: string): Part {
  const { data, format } = objectOf(value);
  const own = `${path}.input_audio.data`;
  const text = String(data);
  const source: Attachment = isAddress(text)
    ? attachmentOf(text, own)
    : { kind: "data", mimeType: `audio/${format}`, data: checkedBase64(text, own) };
  return { kind: "audio", source, path };
}

/**
 * A part with `video_url` or `audio_url`, whose value is an address or a data URL, or an object
 * with it. https://docs.vllm.ai/en/latest/features/multimodal_inputs.html
 */
export function mediaUrlOf(kind: "audio" | "video", value: unknown, path: string): Part {
  const [url, own] = typeof value === "string" ? [value, path] : [objectOf(value).url, `${path}.url`];
  return { kind, source: attachmentOf(textOf(url) ?? refuse(own, "is missing"), own), path: own };
}

/** The format setting for a JSON schema. */
export const schemaFormatOf = (value: unknown, path: string): NonNullable<Settings["format"]> => {
  const { schema, name, description, strict } = objectOf(value);
  return {
    value: {
      kind: "schema",
      schema: objectOf(schema),
      ...defined({
        name: textOf(name),
        description: stringOf(description),
        strict: strict === "true" ? true : flagOf(strict),
      }),
    },
    path,
  };
};

const none: Units = {};

/**
 * OpenAI's details of the tokens in and out, and `more` units. Cached tokens count as cached only.
 */
function modalitiesOf(
  input: JsonObject,
  output: JsonObject,
  more: Units = none,
): Pick<Usage, "audioInputTokens" | "audioOutputTokens" | "units"> {
  const cached = objectOf(input.cached_tokens_details);
  const uncached = (name: string) => Math.max(0, tokensOf(input[name]) - tokensOf(cached[name]));
  const audioInputTokens = uncached("audio_tokens");
  const audioOutputTokens = tokensOf(output.audio_tokens);
  const cachedAudioTokens = tokensOf(cached.audio_tokens);
  const imageInputTokens = uncached("image_tokens");
  const imageOutputTokens = tokensOf(output.image_tokens);
  const hasUnits = more !== none || cachedAudioTokens + imageInputTokens + imageOutputTokens > 0;
  const units = hasUnits ? countedUnits({ ...more, cachedAudioTokens, imageInputTokens, imageOutputTokens }) : {};
  return { audioInputTokens, audioOutputTokens, ...units };
}

/**
 * The usage in any of OpenAI's formats: each names its counters and their details otherwise, and
 * some servers use the names of another one (https://github.com/ksylvest/omniai/pull/140).
 * `serviceTier` is the member `service_tier` of the answer, `units` what other members say.
 * Undefined if the value is not an object.
 *
 * Other vendors of these formats differ: DeepSeek counts `prompt_cache_hit_tokens`
 * (https://api-docs.deepseek.com/guides/kv_cache), Moonshot `cached_tokens`
 * (https://platform.moonshot.ai/docs/api/chat), gateways to Claude `cache_read_input_tokens`
 * (https://github.com/cline/cline/pull/10266), beside details that may be zero. xAI counts reasoning
 * beside the completion, so that only all three add up to the total
 * (https://docs.x.ai/docs/guides/reasoning), and lists the tools that it ran. SGLang has
 * `reasoning_tokens` outside of the details, as a part of the completion. Perplexity has them there
 * too, but its prompt, completion and total have neither them nor the `citation_tokens` that its
 * model read
 * (https://docs.perplexity.ai/guides/pricing#detailed-pricing-breakdown-for-sonar-deep-research).
 * Google counts thinking in the total alone
 * (https://discuss.ai.google.dev/t/127400), Mistral the audio that it heard
 * (https://github.com/pydantic/genai-prices/pull/591). Gateways to Claude may count the prompt
 * without the cache, as Anthropic does (https://github.com/QuantumNous/new-api/issues/5005).
 */
export function openaiUsageOf(
  value: unknown,
  { service_tier: serviceTier, model }: JsonObject = {},
  units: Units = none,
): Usage | undefined {
  if (!isObject(value)) return undefined;
  const usage = objectOf(value);
  const details = objectOf(usage.prompt_tokens_details ?? usage.input_tokens_details ?? usage.input_token_details);
  const outputDetails = objectOf(
    usage.completion_tokens_details ?? usage.output_tokens_details ?? usage.output_token_details,
  );
  const prompt = Math.max(tokensOf(usage.prompt_tokens), tokensOf(usage.input_tokens));
  const completion = Math.max(tokensOf(usage.completion_tokens), tokensOf(usage.output_tokens));
  const reasoning = tokensOf(outputDetails.reasoning_tokens ?? usage.reasoning_tokens);
  /** Tokens that only the total has. */
  const more = Math.max(0, tokensOf(usage.total_tokens) - prompt - completion);
  const isHeard = more > 0 && tokensOf(usage.prompt_audio_seconds) > 0;
  const isThinking =
    reasoning === 0
      ? more > 0 && !isHeard && /gemini/i.test(String(model))
      : more === reasoning || usage.num_search_queries !== undefined;
  const thoughts = isThinking ? reasoning || more : 0;
  const cached = Math.max(
    tokensOf(details.cached_tokens),
    tokensOf(details.cached_read_tokens),
    tokensOf(usage.prompt_cache_hit_tokens),
    tokensOf(usage.cached_tokens),
    tokensOf(usage.cache_read_input_tokens),
  );
  const written = cacheWritesOf(usage, details);
  const isBeside = Math.max(cached, written) > prompt || (more > 0 && more === cached + written);
  return plausible({
    inputTokens: prompt + tokensOf(usage.citation_tokens) + (isHeard ? more : 0) + (isBeside ? cached + written : 0),
    cachedInputTokens: cached,
    cacheWriteTokens: written,
    outputTokens: completion + thoughts,
    reasoningTokens: reasoning || thoughts,
    ...modalitiesOf(
      isHeard ? { audio_tokens: more, ...details } : details,
      outputDetails,
      largerOf(serverToolsOf(usage), largerOf(hourWritesOf(usage, details), units)),
    ),
    ...serviceTierOf(serviceTier),
  });
}

/**
 * Tokens written to the cache: a part of the input, as each vendor and gateway names them.
 *
 * - OpenAI, OpenRouter: `cache_write_tokens`
 * - Qwen: `cache_creation_input_tokens`, for Responses in `x_details`
 *   (https://www.alibabacloud.com/help/en/model-studio/context-cache)
 * - LiteLLM: `cache_creation_tokens` (https://github.com/BerriAI/litellm/issues/11364)
 * - new-api: `cached_creation_tokens`
 * - Bifrost: `cached_write_tokens` (https://github.com/maximhq/bifrost/pull/6500)
 * - Cline, Vercel: `cache_creation_input_tokens` outside of the details
 *   (https://github.com/cline/cline/pull/10266)
 */
function cacheWritesOf({ x_details: more, cache_creation_input_tokens: own }: JsonObject, details: JsonObject): number {
  const hidden = more === undefined ? undefined : objectOf(objectOf(listOf(more)[0]).prompt_tokens_details);
  return Math.max(
    tokensOf(own),
    tokensOf(details.cache_write_tokens),
    tokensOf(details.cache_creation_input_tokens),
    tokensOf(details.cache_creation_tokens),
    tokensOf(details.cached_creation_tokens),
    tokensOf(details.cached_write_tokens),
    tokensOf(hidden?.cache_creation_input_tokens),
  );
}

/** The writes for an hour, in the members of Qwen, LiteLLM and Anthropic, or of new-api. */
function hourWritesOf(usage: JsonObject, details: JsonObject): Units {
  const split = details.cache_creation ?? details.cache_creation_token_details ?? usage.cache_creation;
  const hour = tokensOf(
    split === undefined ? usage.claude_cache_creation_1_h_tokens : objectOf(split).ephemeral_1h_input_tokens,
  );
  return hour === 0 ? none : { cacheWrite1hTokens: hour };
}

/**
 * The larger count of each kind. Most answers have none, and some servers report usage with every
 * chunk.
 */
function largerOf(one: Units, other: Units): Units {
  if (one === none) return other;
  if (other === none) return one;
  return Object.fromEntries(unitNames.map((kind) => [kind, Math.max(one[kind] ?? 0, other[kind] ?? 0)]));
}

/**
 * Tools that the upstream ran, by xAI's, OpenRouter's and Perplexity's counters:
 * https://openrouter.ai/docs/use-cases/usage-accounting
 */
function serverToolsOf({
  server_side_tool_usage_details: own,
  server_tool_use: used,
  num_search_queries: queries,
}: JsonObject): Units {
  if (own === undefined && used === undefined && queries === undefined) return none;
  const {
    web_search_calls: web,
    x_search_calls: posts,
    file_search_calls: files,
    code_interpreter_calls: code,
  } = objectOf(own);
  const webSearches = [web, posts, objectOf(used).web_search_requests, queries].reduce<number>(
    (sum, count) => sum + tokensOf(count),
    0,
  );
  return { webSearches, fileSearches: tokensOf(files), codeSessions: tokensOf(code) };
}
