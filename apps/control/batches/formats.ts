/** The formats of the requests and results of batches. */
import { attachmentsIn, inputTokensOf } from "#dialects/attached-tokens.ts";
import { parseWithin, requestBounds } from "#wire/json/bounds.ts";
import { anthropicFormat } from "./anthropic-format.ts";
import { type BatchFormat, type CheckedLine, LineFault } from "./format.ts";
import { geminiFormat } from "./gemini-format.ts";
import { openaiFormat } from "./openai-format.ts";

export const batchFormats = {
  openai: openaiFormat,
  anthropic: anthropicFormat,
  gemini: geminiFormat,
} satisfies Record<string, BatchFormat>;
export type BatchDialect = keyof typeof batchFormats;

export function readLine(format: BatchFormat, bytes: Buffer, endpoint: string): CheckedLine | LineFault {
  try {
    // Small values take fifty times their bytes in memory.
    const read = parseWithin(bytes, requestBounds);
    if ("broken" in read)
      return new LineFault("invalid_request", "This request has too many values, or too many levels of them.");
    if ("repeated" in read) {
      const name = JSON.stringify(read.repeated);
      return new LineFault("invalid_request", `This request has ${name} twice in the same place.`);
    }
    const line = format.read(read.value, bytes, endpoint);
    if (line instanceof LineFault) return line;
    return { ...line, inputTokens: inputTokensOf(line.body.length, attachmentsIn(read.value)) };
  } catch {
    return new LineFault("invalid_json_line", "This line is not parseable as valid JSON.");
  }
}
