/** Reads a stream for a caller who wants a stream. */

import type { StreamRelay } from "#dialects/codec.ts";
import type { RelayedText } from "#dialects/neutral/continuation.ts";
import type { Finish } from "#dialects/neutral/neutral.ts";
import type { Produced } from "#dialects/neutral/produced.ts";
import type { Usage } from "#dialects/usage.ts";
import { type SseEvent, SseReader } from "#wire/sse.ts";
import { eventPartBytes } from "../bounds.ts";
import { type AnswerReader, type AnswerStep, eventsIn, failedWith, incomplete } from "./answer-reader.ts";

export class StreamReader implements AnswerReader {
  readonly #bytesMax: number;
  readonly #events: SseReader;
  readonly #answer: StreamRelay;
  #bytes = 0;

  /** `bytesMax` is that of one event. */
  constructor(answer: StreamRelay, bytesMax: number) {
    this.#answer = answer;
    this.#bytesMax = bytesMax;
    this.#events = new SseReader(bytesMax);
  }

  get bufferedBytes(): number {
    return this.#events.bufferedBytes;
  }

  get usage(): Usage | undefined {
    return this.#answer.usage;
  }

  get finish(): Finish | undefined {
    return this.#answer.produced.finish;
  }

  get produced(): Produced {
    return this.#answer.produced;
  }

  get relayedText(): RelayedText | undefined {
    return this.#answer.relayedText;
  }

  get parts(): number {
    return this.#answer.produced.parts + Math.floor(this.#bytes / eventPartBytes);
  }

  get malformedEvents(): number {
    return this.#answer.malformedEvents;
  }

  get committed(): boolean {
    return this.#answer.committed;
  }

  get settled(): boolean {
    return this.#answer.settled;
  }

  push(chunk: Buffer): AnswerStep {
    this.#bytes += chunk.length;
    const events = eventsIn(this.#events, chunk, this.#bytesMax);
    return Array.isArray(events) ? this.#read(events) : events;
  }

  end(): AnswerStep {
    const step = this.#read(this.#events.end());
    if (step.kind !== "more") return step;
    if (!this.#answer.finished) return { kind: "failed", bytes: step.bytes, failure: incomplete };
    this.#answer.end(step.bytes);
    return this.#reached(step.bytes);
  }

  #read(events: SseEvent[]): AnswerStep {
    const bytes: Buffer[] = [];
    const answer = this.#answer;
    for (const event of events) answer.push(event, bytes);
    if (answer.error === undefined && answer.complete) answer.end(bytes);
    return this.#reached(bytes);
  }

  #reached(bytes: Buffer[]): AnswerStep {
    const { error, ended } = this.#answer;
    if (error !== undefined) return failedWith(error, bytes);
    return { kind: ended ? "end" : "more", bytes };
  }
}
