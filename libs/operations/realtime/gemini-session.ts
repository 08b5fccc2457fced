/** The messages of Gemini's Live: https://ai.google.dev/api/live#receive-messages */
import type { UpstreamError } from "#dialects/errors.ts";
import { usageOf } from "#dialects/gemini/answer.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { plausible, type Usage, type UsageBounds } from "#dialects/usage.ts";
import { type JsonObject, listOf, objectOf, textOf } from "#wire/json/parse.ts";
import { textTokensIn, UnreportedUsage } from "./unreported-usage.ts";
import { readIfNaming, type SessionMessage, sumOf, type UpstreamSession } from "./upstream-session.ts";

/**
 * The close code for a setup that is not valid:
 * https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1
 */
const invalidPayload = 1007;
/**
 * Characters of base64 for each token of audio, of 16 bits and 25 tokens a second: 16 kHz from
 * callers, 24 kHz from models. https://ai.google.dev/gemini-api/docs/tokens#multimodal-tokens
 */
const heardPerToken = 1_707;
const spokenPerToken = 2_560;
/** Tokens of an image, or of a frame of video. */
const imageTokens = 258;

export class GeminiSession implements UpstreamSession {
  /** The usage of the turns that are complete. */
  #complete: Usage | undefined;
  /** The last report of the turn in progress: each replaces the one before it. */
  #current: Usage | undefined;
  /** The estimate of a turn that ended without a report, which may still come. */
  #late: Usage | undefined;
  readonly #bounds: UsageBounds | undefined;
  readonly #unreported = new UnreportedUsage();
  #sending: "audio" | "image" | "text" = "text";

  /** `bounds` are those of each turn. */
  constructor(bounds?: UsageBounds) {
    this.#bounds = bounds;
  }

  get usage(): Usage | undefined {
    return sumOf(this.#complete, this.#current);
  }

  get unreported(): Usage | undefined {
    return sumOf(this.#late, this.#unreported.usage);
  }

  read(message: Buffer): SessionMessage {
    const value = readIfNaming(message, ["usageMetadata", "turnComplete", "modelTurn", "toolCall"]);
    const content = objectOf(value?.serverContent);
    this.#countTurn(content, objectOf(value?.toolCall));
    const report = value?.usageMetadata === undefined ? undefined : reportOf(value.usageMetadata, this.#bounds);
    if (report !== undefined) {
      if (this.#late === undefined) this.#current = report;
      else this.#complete = sumOf(this.#complete, report);
      this.#late = undefined;
      this.#unreported.reported(report);
    }
    if (content.turnComplete === true) {
      this.#late = this.#current === undefined ? this.unreported : undefined;
      this.#complete = this.usage;
      this.#current = undefined;
      this.#unreported.ended();
    }
    return { kind: "message", bytes: message };
  }

  sent(fragment: Buffer, isFirst: boolean): void {
    if (isFirst) this.#sending = sendingOf(fragment);
    switch (this.#sending) {
      case "audio":
        this.#unreported.heard("audio", fragment.length / heardPerToken);
        return;
      case "image":
        if (isFirst) this.#unreported.heard("text", imageTokens);
        return;
      case "text":
        this.#unreported.heard("text", textTokensIn(fragment.length));
        return;
      default:
        this.#sending satisfies never;
    }
  }

  /** Google's server names the reason in the close frame. */
  closedWith(code: number | undefined, reason: string): UpstreamError {
    const status = code === invalidPayload ? 400 : 502;
    return { ...upstreamErrorOf({ error: { message: reason, code: status } }), status };
  }

  /** No report of the turn before it will come. */
  #begin(): void {
    this.#complete = sumOf(this.#complete, this.#late);
    this.#late = undefined;
    this.#unreported.began();
    if (this.#current !== undefined) this.#unreported.reported(this.#current);
  }

  #countTurn({ modelTurn }: JsonObject, { functionCalls }: JsonObject): void {
    if (modelTurn === undefined && functionCalls === undefined) return;
    if (!this.#unreported.isAnswering) this.#begin();
    for (const part of listOf(objectOf(modelTurn).parts).map(objectOf)) {
      const data = textOf(objectOf(part.inlineData).data);
      if (data !== undefined) this.#unreported.spoke("audio", data.length / spokenPerToken);
      else this.#unreported.spoke("text", textTokensIn(JSON.stringify(part.text ?? part).length));
    }
    for (const call of listOf(functionCalls)) this.#unreported.spoke("text", textTokensIn(JSON.stringify(call).length));
  }
}

/**
 * By the beginning of a message of the caller, in either spelling:
 * https://ai.google.dev/api/live#bidigeneratecontentrealtimeinput
 */
function sendingOf(fragment: Buffer): "audio" | "image" | "text" {
  const names = (...texts: string[]) => texts.some((text) => fragment.includes(text));
  if (!names('"realtimeInput"', '"realtime_input"') || names('"text"')) return "text";
  // The type of long data may come after it.
  return names('"video"', "image/", "video/") ? "image" : "audio";
}

/** Undefined for a report without tokens. */
function reportOf(value: unknown, bounds: UsageBounds | undefined): Usage | undefined {
  const usage = usageOf(value);
  return usage !== undefined && usage.inputTokens + usage.outputTokens > 0 ? plausible(usage, bounds) : undefined;
}
