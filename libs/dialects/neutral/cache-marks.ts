/**
 * Marks at the end of a prompt's cached part, in the spellings of all dialects: `cache_control`
 * (https://platform.claude.com/docs/en/build-with-claude/prompt-caching, and in chat completions
 * https://openrouter.ai/docs/features/prompt-caching) and `prompt_cache_breakpoint`
 * (https://platform.openai.com/docs/guides/prompt-caching).
 */
import { isObject, type JsonObject, objectOf } from "#wire/json/parse.ts";
import type { ModelTraits } from "./model-traits.ts";
import type { NeutralRequest, Part, ResultPart, TextPart } from "./neutral.ts";

type Mark = TextPart["cache"];
type Marked = { cache?: Mark };

/** The most marks of a request, for all vendors. */
export const marksMax = 4;

/** The mark of a message, a part, a block or a tool. */
export function cacheIn({ cache_control: control, prompt_cache_breakpoint: breakpoint }: JsonObject): {
  cache?: NonNullable<Mark>;
} {
  if (isObject(control)) return { cache: { ttl: objectOf(control).ttl === "1h" ? "long" : "short" } };
  const { mode, ttl } = objectOf(breakpoint);
  return mode === "explicit" ? { cache: { ttl: ttl === "12h" ? "long" : "short" } } : {};
}

/** The part whose mark counts for a call's result: itself, or the last marked one in it. */
export const markedIn = (result: ResultPart): Marked =>
  result.cache === undefined ? (result.content.findLast(({ cache }) => cache !== undefined) ?? {}) : result;

export const cacheControlOf = ({ cache }: Marked): JsonObject =>
  cache === undefined ? {} : { cache_control: { type: "ephemeral", ...(cache.ttl === "long" && { ttl: "1h" }) } };

/** The member that marks a part for a model of OpenAI's dialects. */
export function markFor({ cache }: Marked, kind: ModelTraits["cacheMarks"]): JsonObject {
  if (cache === undefined || kind === "none") return {};
  return kind === "control"
    ? cacheControlOf({ cache })
    : { prompt_cache_breakpoint: { mode: "explicit", ...(cache.ttl === "long" && { ttl: "12h" }) } };
}

/**
 * The request with the last four marks, in the order of the prompt: tools, instructions,
 * conversation.
 */
export function withFewMarks(request: NeutralRequest): NeutralRequest {
  const ofPart = (part: Part): Marked[] => (part.kind === "result" ? [...part.content, part] : [part]);
  const marked = [
    ...request.tools,
    ...request.system,
    ...request.messages.flatMap(({ parts }) => parts.flatMap(ofPart)),
  ].filter(({ cache }) => cache !== undefined);
  if (marked.length <= marksMax) return request;
  const surplus = new Set<Marked>(marked.slice(0, -marksMax));
  const kept = <Value extends Marked>(value: Value): Value => {
    if (!surplus.has(value)) return value;
    const { cache: _, ...rest } = value;
    return rest as Value;
  };
  const keptPart = (part: Part): Part => {
    if (part.kind !== "result") return kept(part);
    const { content, ...rest } = kept(part);
    return { ...rest, content: content.map(kept) };
  };
  return {
    ...request,
    tools: request.tools.map(kept),
    system: request.system.map(kept),
    messages: request.messages.map((message) => ({ ...message, parts: message.parts.map(keptPart) })),
  };
}
