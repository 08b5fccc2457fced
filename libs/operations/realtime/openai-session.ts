/**
 * The messages of OpenAI's Realtime:
 * https://platform.openai.com/docs/api-reference/realtime-server-events
 */
import type { UpstreamError } from "#dialects/errors.ts";
import { audioUsageOf } from "#dialects/openai/audio.ts";
import { openaiUsageOf } from "#dialects/openai/parts.ts";
import { withMember } from "#dialects/relay/verbatim.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";
import { countedUsage, plausible, tokensOf, type Usage, type UsageBounds } from "#dialects/usage.ts";
import { type JsonObject, jsonBytesOf, objectOf, textOf } from "#wire/json/parse.ts";
import { objectSpansOf, readSpan } from "#wire/json/spans.ts";
import { transcriptionModelPath } from "./operation.ts";
import { type Medium, textTokensIn, UnreportedUsage } from "./unreported-usage.ts";
import { readIfNaming, type SessionMessage, sumOf, type UpstreamSession } from "./upstream-session.ts";

/** Tokens of a second: https://developers.openai.com/api/docs/guides/realtime-costs */
const heardPerSecond = 10;
const spokenPerSecond = 20;
/**
 * Bytes of a second: PCM of 16 bits at 24 kHz, or G.711.
 * https://platform.openai.com/docs/api-reference/realtime-client-events/session/update
 */
const pcmBytesPerSecond = 48_000;
const g711BytesPerSecond = 8_000;
/** Tokens of an image in a message of the caller. */
const imageTokens = 1_000;

const base64Ratio = 4 / 3;

export class OpenaiSession implements UpstreamSession {
  usage: Usage | undefined;
  readonly #model: Buffer;
  readonly #bounds: UsageBounds | undefined;
  readonly #unreported = new UnreportedUsage();
  #hasBegun = false;
  /** Each item is an answer of its own. */
  #isTranscription = false;
  #inputBytesPerSecond = pcmBytesPerSecond;
  #outputBytesPerSecond = pcmBytesPerSecond;
  /**
   * The content of the message that is being sent to the upstream; undefined if it costs nothing.
   */
  #sending: Sending | undefined;
  /** Seconds of audio that are not committed. */
  #bufferedSeconds = 0;
  /** When the speech in them began and ended, in ms of the session. */
  #speech: { start: number; end: number | undefined } | undefined;

  /** `model` is the catalogue's id, `bounds` those of each response. */
  constructor(model: string, bounds?: UsageBounds) {
    this.#model = jsonBytesOf(model);
    this.#bounds = bounds;
  }

  get unreported(): Usage | undefined {
    return this.#unreported.usage;
  }

  read(message: Buffer): SessionMessage {
    const isFirst = !this.#hasBegun;
    this.#hasBegun = true;
    if (!isFirst && message.includes('.delta"')) this.#countDelta(message);
    const value = readIfNaming(message, isFirst ? ["type"] : readNames);
    switch (value?.type) {
      case "error":
        return isFirst ? { kind: "refused", error: upstreamErrorOf(value) } : { kind: "message", bytes: message };
      case "session.created":
      case "session.updated": {
        const session = objectOf(value.session);
        this.#isTranscription = session.type === "transcription";
        this.#readFormats(session);
        const path = this.#isTranscription ? transcriptionModelPath : (["session", "model"] as const);
        return { kind: "message", bytes: withMember(message, path, this.#model) };
      }
      case "response.done":
        this.#responseDone(objectOf(value.response));
        return { kind: "message", bytes: withMember(message, ["response", "model"], this.#model) };
      case "response.created":
        this.#unreported.began();
        return { kind: "message", bytes: withMember(message, ["response", "model"], this.#model) };
      case "conversation.item.input_audio_transcription.completed":
        this.#transcribed(audioUsageOf(value.usage));
        return { kind: "message", bytes: message };
      case "conversation.item.input_audio_transcription.failed":
        if (this.#isTranscription) this.#unreported.ended();
        return { kind: "message", bytes: message };
      default:
        if (value !== undefined) this.#readBufferEvent(value);
        return { kind: "message", bytes: message };
    }
  }

  sent(fragment: Buffer, isFirst: boolean): void {
    if (isFirst) this.#sending = sendingOf(fragment);
    switch (this.#sending) {
      case "buffer":
        this.#bufferedSeconds += this.#secondsIn(fragment.length);
        return;
      case "audio":
        this.#unreported.heard("audio", this.#secondsIn(fragment.length) * heardPerSecond);
        return;
      case "image":
        if (isFirst) this.#unreported.heard("text", imageTokens);
        return;
      case "text":
        this.#unreported.heard("text", textTokensIn(fragment.length));
        return;
      default:
        this.#sending satisfies undefined;
    }
  }

  closedWith(_code: number | undefined, reason: string): UpstreamError {
    return upstreamErrorOf({ error: { message: reason } });
  }

  #secondsIn(base64Length: number): number {
    return base64Length / base64Ratio / this.#inputBytesPerSecond;
  }

  /** Both forms of a session's settings, the newer one first. */
  #readFormats({ audio, input_audio_format: input, output_audio_format: output }: JsonObject): void {
    const formatOf = (side: unknown) => objectOf(objectOf(side).format).type;
    this.#inputBytesPerSecond = bytesPerSecondOf(formatOf(objectOf(audio).input) ?? input);
    this.#outputBytesPerSecond = bytesPerSecondOf(formatOf(objectOf(audio).output) ?? output);
  }

  #countDelta(message: Buffer): void {
    const { type, delta } = objectSpansOf(message, ["type", "delta"])?.members ?? {};
    if (type === undefined || delta === undefined) return;
    const name = textOf(readSpan(message, type)) ?? "";
    const length = delta.end - delta.start - 2;
    const medium: Medium = name.endsWith("audio.delta") ? "audio" : "text";
    const seconds = length / base64Ratio / this.#outputBytesPerSecond;
    const isCounted = name.endsWith(".delta") && (this.#isTranscription || name.startsWith("response."));
    if (isCounted && length > 0)
      this.#unreported.spoke(medium, medium === "audio" ? seconds * spokenPerSecond : textTokensIn(length));
  }

  #readBufferEvent({ type, audio_start_ms: start, audio_end_ms: end }: JsonObject): void {
    switch (type) {
      case "input_audio_buffer.speech_started":
        this.#speech = { start: tokensOf(start), end: undefined };
        return;
      case "input_audio_buffer.speech_stopped":
        if (this.#speech !== undefined) this.#speech.end = tokensOf(end);
        return;
      case "input_audio_buffer.cleared":
        this.#bufferedSeconds = 0;
        return;
      case "input_audio_buffer.committed": {
        const { start: from = 0, end: to } = this.#speech ?? {};
        const spoken = to === undefined ? this.#bufferedSeconds : (to - from) / 1_000;
        this.#unreported.heard("audio", Math.min(this.#bufferedSeconds, Math.max(0, spoken)) * heardPerSecond);
        this.#bufferedSeconds = 0;
        this.#speech = undefined;
        if (this.#isTranscription) this.#unreported.began();
        return;
      }
      default:
        return;
    }
  }

  /**
   * A response without a report, such as one that was cancelled, used what it produced. A failed
   * one is free.
   */
  #responseDone({ usage, status }: JsonObject): void {
    const reported = countedUsage(openaiUsageOf(usage));
    const used = reported ?? (status === "failed" ? undefined : this.#unreported.usage);
    this.#add(used);
    if (reported !== undefined) this.#unreported.reported(reported);
    this.#unreported.ended();
  }

  #add(usage: Usage | undefined): void {
    this.usage = sumOf(this.usage, usage && plausible(usage, this.#bounds));
  }

  #transcribed(usage: Usage | undefined): void {
    this.#add(usage ?? (this.#isTranscription ? this.#unreported.usage : undefined));
    if (!this.#isTranscription) return;
    if (usage !== undefined) this.#unreported.reported(usage, false);
    this.#unreported.ended();
  }
}

/** Names and types of the events that are read, one of which each of them has. */
const readNames = [
  "model",
  "usage",
  "audio_start_ms",
  "audio_end_ms",
  "input_audio_buffer.committed",
  "input_audio_buffer.cleared",
  "response.created",
  "response.done",
  "conversation.item.input_audio_transcription.completed",
  "conversation.item.input_audio_transcription.failed",
];

type Sending = "buffer" | "audio" | "image" | "text";

/**
 * Bytes of a message that is neither audio nor one that costs: longer ones name their type after
 * their audio.
 */
const smallMessageBytes = 4_096;

/**
 * By the beginning of a message:
 * https://platform.openai.com/docs/api-reference/realtime-client-events
 */
function sendingOf(fragment: Buffer): Sending | undefined {
  if (fragment.includes('"input_audio_buffer.append"')) return "buffer";
  const costs = ['"conversation.item.create"', '"session.update"', '"response.create"'];
  if (!costs.some((type) => fragment.includes(type))) return fragment.length > smallMessageBytes ? "buffer" : undefined;
  if (fragment.includes('"input_image"')) return "image";
  return fragment.includes('"input_audio"') ? "audio" : "text";
}

const bytesPerSecondOf = (format: unknown) =>
  /g711|pcmu|pcma/i.test(String(format ?? "")) ? g711BytesPerSecond : pcmBytesPerSecond;
