/** The gateway's additions to a conversation, with which its upstream caches the prompt. */
import { cacheTokensMinOf, withCacheMarks } from "#dialects/anthropic-messages/auto-marks.ts";
import { isPresent, jsonBytesOf } from "#wire/json/parse.ts";
import { objectSpansOf, readSpan, withValuesAt } from "#wire/json/spans.ts";
import type { PreparationTask, Prepared } from "./exchange.ts";

/** Marks for Anthropic, and a key for OpenAI if the caller sent none. */
export function withPromptCache(prepared: Prepared, { promptCache, spoken, target }: PreparationTask): Prepared {
  if (promptCache === undefined || prepared.kind !== "conversation") return prepared;
  const { body } = prepared.request;
  const { ttl, tokensMin = cacheTokensMinOf(target.model), key } = promptCache;
  switch (spoken) {
    case "anthropic-messages":
      return withBody(prepared, withCacheMarks(body, { ttl, tokensMin }));
    case "openai-chat":
    case "openai-responses":
      return key === undefined ? prepared : withBody(prepared, withCacheKey(body, key));
    default:
      return prepared;
  }
}

const withBody = <Value extends Extract<Prepared, { kind: "conversation" }>>(prepared: Value, body: Buffer): Value => ({
  ...prepared,
  request: { ...prepared.request, body },
});

function withCacheKey(bytes: Buffer, key: string): Buffer {
  const spans = objectSpansOf(bytes, ["prompt_cache_key"]);
  const present = spans?.members.prompt_cache_key;
  if (spans === undefined || (present !== undefined && isPresent(readSpan(bytes, present)))) return bytes;
  return withValuesAt(bytes, spans, { prompt_cache_key: jsonBytesOf(key) });
}
