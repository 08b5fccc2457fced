/** The formats of the requests and results of batches. */
import { boundBroken, requestBounds } from "#wire/json/bounds.ts";
import { parseJson } from "#wire/json/parse.ts";
import { anthropicFormat } from "./anthropic-format.ts";
import { type BatchFormat, LineFault, type RequestLine } from "./format.ts";
import { geminiFormat } from "./gemini-format.ts";
import { openaiFormat } from "./openai-format.ts";

export const batchFormats = {
  openai: openaiFormat,
  anthropic: anthropicFormat,
  gemini: geminiFormat,
} satisfies Record<string, BatchFormat>;
export type BatchDialect = keyof typeof batchFormats;

export function readLine(format: BatchFormat, bytes: Buffer, endpoint: string): RequestLine | LineFault {
  // Small values take fifty times their bytes in memory.
  if (boundBroken(bytes, requestBounds) !== undefined)
    return new LineFault("invalid_request", "This request has too many values, or too many levels of them.");
  try {
    return format.read(parseJson(bytes), bytes, endpoint);
  } catch {
    return new LineFault("invalid_json_line", "This line is not parseable as valid JSON.");
  }
}
