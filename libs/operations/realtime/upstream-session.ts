/**
 * Reads the messages of a session's upstream: the model's name, usage, and an error in place of the
 * first message.
 */
import type { UpstreamError } from "#dialects/errors.ts";
import { plausible, type Usage, unitNames } from "#dialects/usage.ts";
import { type JsonObject, parsedObject } from "#wire/json/parse.ts";

export type SessionMessage =
  | { kind: "message"; bytes: Buffer }
  /** The upstream refuses the session. */
  | { kind: "refused"; error: UpstreamError };

export interface UpstreamSession {
  /** All usage that the upstream reported so far; undefined if there was none. */
  readonly usage: Usage | undefined;
  /** An estimate of the usage that it has not reported; undefined while it produces nothing. */
  readonly unreported: Usage | undefined;
  /** The upstream got this part of a message of the caller, or all of it. */
  sent(fragment: Buffer, isFirst: boolean): void;
  /**
   * The message as the caller gets it: with the catalogue's name of the model, and otherwise
   * unchanged.
   */
  read(message: Buffer): SessionMessage;
  /** The error of an upstream that closed the connection before its first message. */
  closedWith(code: number | undefined, reason: string): UpstreamError;
}

/** A larger message is relayed unread. Messages with usage or a model's name are far smaller. */
const readBytesMax = 4 << 20;

/**
 * The object in a message that names one of these members; undefined for every other message, which
 * is not parsed.
 */
export function readIfNaming(message: Buffer, names: readonly string[]): JsonObject | undefined {
  if (message.length > readBytesMax || !names.some((name) => message.includes(`"${name}"`))) return undefined;
  return parsedObject(message);
}

export function sumOf(one: Usage | undefined, other: Usage | undefined): Usage | undefined {
  if (one === undefined || other === undefined) return one ?? other;
  const isEstimated = one.isEstimated === true || other.isEstimated === true;
  return {
    ...plausible({
      inputTokens: one.inputTokens + other.inputTokens,
      cachedInputTokens: one.cachedInputTokens + other.cachedInputTokens,
      cacheWriteTokens: one.cacheWriteTokens + other.cacheWriteTokens,
      outputTokens: one.outputTokens + other.outputTokens,
      reasoningTokens: one.reasoningTokens + other.reasoningTokens,
      audioInputTokens: (one.audioInputTokens ?? 0) + (other.audioInputTokens ?? 0),
      audioOutputTokens: (one.audioOutputTokens ?? 0) + (other.audioOutputTokens ?? 0),
      units: Object.fromEntries(unitNames.map((kind) => [kind, (one.units?.[kind] ?? 0) + (other.units?.[kind] ?? 0)])),
    }),
    ...(isEstimated && { isEstimated }),
    ...((one.isCapped || other.isCapped) && { isCapped: true }),
  };
}
