/**
 * Verbatim relay of the events of speech and of transcripts, and their usage:
 * https://platform.openai.com/docs/api-reference/audio/speech-audio-delta-event,
 * https://platform.openai.com/docs/api-reference/audio/transcript-text-delta-event
 */

import { isPresent, type JsonObject, jsonBytesOf, objectOf, textOf } from "#wire/json/parse.ts";
import type { SseEvent } from "#wire/sse.ts";
import type { StreamRelay } from "../codec.ts";
import type { Produced } from "../neutral/produced.ts";
import { eventBytesOf, failedWith, type Passing, VerbatimStream, Watcher } from "../relay/verbatim.ts";
import { upstreamErrorOf } from "../upstream-errors/upstream-errors.ts";
import { countedUsage, plainUsageOf, plausible, type Usage } from "../usage.ts";
import { openaiUsageOf } from "./parts.ts";

/**
 * Input tokens that a second of recorded audio counts as, where an upstream reports only the
 * duration.
 */
export const tokensPerSecond = 25;

/**
 * Tokens, or else a duration in seconds:
 * https://platform.openai.com/docs/api-reference/audio/json-object. OpenRouter has both where the
 * model is billed by tokens
 * (https://openrouter.ai/docs/guides/overview/multimodal/stt). Mistral names the duration otherwise,
 * and bills by it although it counts the tokens of the prompt:
 * https://docs.mistral.ai/api/endpoint/audio/transcriptions. Undefined if there is neither.
 */
export function audioUsageOf(value: unknown): Usage | undefined {
  const { prompt_audio_seconds: heard, seconds = heard } = objectOf(value);
  const counted = heard === undefined ? countedUsage(openaiUsageOf(value)) : undefined;
  if (counted !== undefined || typeof seconds !== "number" || !(seconds > 0)) return counted;
  const usage = plainUsageOf(Math.ceil(seconds * tokensPerSecond));
  return { ...plausible({ ...usage, units: { audioSeconds: Math.ceil(seconds) } }), isEstimated: true };
}

/** Streamed speech. `usage` is billed if the upstream reports none. */
export const speechStreamOf = (usage: Usage): StreamRelay =>
  new VerbatimStream(new AudioWatcher("speech.audio.done", usage));

/** A streamed transcript. */
export const transcriptStreamOf = (): StreamRelay => new VerbatimStream(new TranscriptWatcher("transcript.text.done"));

/** An event of a transcript. */
export function transcriptEventOf(name: "delta" | "done", fields: JsonObject): Buffer {
  const type = `transcript.text.${name}`;
  return eventBytesOf(type, jsonBytesOf({ type, ...fields }));
}

/**
 * The upstream's events pass until the one with this type, which is the last. Nothing is estimated
 * from them, so `usage` is the whole count.
 */
class AudioWatcher extends Watcher {
  usage: Usage | undefined;
  finished = false;
  readonly #last: string;
  readonly #usageDefault: Usage | undefined;

  constructor(last: string, usageDefault?: Usage) {
    super();
    this.#last = last;
    this.#usageDefault = usageDefault;
  }

  override get complete(): boolean {
    return this.finished;
  }

  look({ event, data }: SseEvent, value: JsonObject, produced: Produced): Passing {
    const { type = event, error, usage } = value;
    if (type === "error" || isPresent(error)) return failedWith(upstreamErrorOf(value));
    if (type === this.#last) {
      this.finished = true;
      this.usage = audioUsageOf(usage) ?? this.#usageDefault;
    }
    produced.other();
    return { kind: "relay", bytes: eventBytesOf(event, data), content: true };
  }
}

/**
 * An event of Mistral's transcript as OpenAI's; undefined for the language and for segments:
 * https://docs.mistral.ai/api/endpoint/audio/transcriptions
 */
function ofMistral({ type, text, usage }: JsonObject): JsonObject | undefined {
  if (type === "transcription.text.delta") return { type: "transcript.text.delta", delta: text };
  return type === "transcription.done" ? { type: "transcript.text.done", text, usage } : undefined;
}

/**
 * vLLM sends a transcript as chunks in the form of chat completions, which become OpenAI's events,
 * as do those of Mistral. Each part of a long recording ends with a finish reason:
 * https://github.com/vllm-project/vllm/issues/49116
 */
class TranscriptWatcher extends AudioWatcher {
  #text: string | undefined;

  override get complete(): boolean {
    return this.#text === undefined && super.complete;
  }

  override get endsWithDone(): boolean {
    return this.#text !== undefined;
  }

  override terminator(): Buffer | undefined {
    return this.#text === undefined ? undefined : transcriptEventOf("done", { text: this.#text });
  }

  override look(event: SseEvent, value: JsonObject, produced: Produced): Passing {
    if (!isPresent(value.error) && String(value.type).startsWith("transcription.")) {
      const own = ofMistral(value);
      return own === undefined
        ? { kind: "hidden" }
        : super.look({ event: String(own.type), data: jsonBytesOf(own) }, own, produced);
    }
    if (!Array.isArray(value.choices) || isPresent(value.error)) return super.look(event, value, produced);
    this.usage = audioUsageOf(value.usage) ?? this.usage;
    const { delta, finish_reason: reason } = objectOf(value.choices[0]);
    const text = textOf(objectOf(delta).content) ?? "";
    this.#text = (this.#text ?? "") + text;
    if (value.choices.length > 0) this.finished = isPresent(reason);
    if (text === "") return { kind: "hidden" };
    produced.other();
    return { kind: "relay", bytes: transcriptEventOf("delta", { delta: text }), content: true };
  }
}
