/** Parts of requests and answers that OpenAI's two dialects share. */
import { attachmentOf, checkedBase64 } from "./attachments.ts";
import { isObject, objectOf } from "./json.ts";
import type { Part, Settings } from "./neutral.ts";
import { plausible, serviceTierOf, tokensOf, type Usage } from "./usage.ts";

/** `path` names the field with the address or data URL. */
export const imageOf = (url: string, detail: unknown, path: string): Extract<Part, { kind: "image" }> => ({
  kind: "image",
  source: attachmentOf(url, path),
  ...((detail === "low" || detail === "high" || detail === "auto") && { detail }),
  ...(detail === "original" && { detail: "high" as const }),
  path,
});

export function audioOf(value: unknown, path: string): Part {
  const { data, format } = objectOf(value);
  return {
    kind: "audio",
    mimeType: `audio/${format}`,
    data: checkedBase64(String(data), `${path}.input_audio.data`),
    path,
  };
}

/** The format setting for a JSON schema. */
export const schemaFormatOf = (value: unknown, path: string): NonNullable<Settings["format"]> => {
  const { schema, name, description, strict } = objectOf(value);
  return {
    value: {
      kind: "schema",
      schema: objectOf(schema),
      ...(typeof name === "string" && { name }),
      ...(typeof description === "string" && { description }),
      ...(typeof strict === "boolean" && { strict }),
    },
    path,
  };
};

/** OpenAI's details of the tokens in and out. Cached audio is counted as cached. */
export const audioTokensOf = (
  input: Record<string, unknown>,
  output: Record<string, unknown>,
): Pick<Usage, "audioInputTokens" | "audioOutputTokens"> => ({
  audioInputTokens: Math.max(
    0,
    tokensOf(input.audio_tokens) - tokensOf(objectOf(input.cached_tokens_details).audio_tokens),
  ),
  audioOutputTokens: tokensOf(output.audio_tokens),
});

/**
 * The dialects name the input and output counters differently. `serviceTier` is the member `service_tier` of the answer. Undefined if the value is not an object.
 */
export function openaiUsageOf(
  value: unknown,
  input: "prompt" | "input",
  output: "completion" | "output",
  serviceTier?: unknown,
): Usage | undefined {
  if (!isObject(value)) return undefined;
  const usage = objectOf(value);
  const details = objectOf(usage[`${input}_tokens_details`]);
  const outputDetails = objectOf(usage[`${output}_tokens_details`]);
  return plausible({
    inputTokens: tokensOf(usage[`${input}_tokens`]),
    cachedInputTokens: tokensOf(details.cached_tokens),
    cacheWriteTokens: tokensOf(details.cache_write_tokens),
    outputTokens: tokensOf(usage[`${output}_tokens`]),
    reasoningTokens: tokensOf(outputDetails.reasoning_tokens),
    ...audioTokensOf(details, outputDetails),
    ...serviceTierOf(serviceTier),
  });
}
