/** Folds a stream into one body, for an upstream that streamed without being asked to. */

import type { AnswerEvent, Finish } from "#dialects/neutral/neutral.ts";
import { Produced } from "#dialects/neutral/produced.ts";
import type { Usage } from "#dialects/usage.ts";
import { SseReader } from "#wire/sse.ts";
import { eventPartBytes } from "../bounds.ts";
import type { Reading } from "../preparation/exchange.ts";
import { type AnswerReader, type AnswerStep, eventsIn, incomplete, stepOf, tooLarge } from "./answer-reader.ts";

type FoldedStream = ReturnType<NonNullable<NonNullable<Reading["adapted"]>["events"]>>;

export class FoldingReader implements AnswerReader {
  usage: Usage | undefined;
  committed = false;
  settled = false;
  readonly produced = new Produced();
  bufferedBytes = 0;
  readonly #bytesMax: number;
  readonly #events: SseReader;
  readonly #stream: FoldedStream;
  readonly #gathered: AnswerEvent[] = [];

  constructor(stream: FoldedStream, bytesMax: number) {
    this.#stream = stream;
    this.#bytesMax = bytesMax;
    this.#events = new SseReader(bytesMax);
  }

  push(chunk: Buffer): AnswerStep {
    this.bufferedBytes += chunk.length;
    if (this.bufferedBytes > this.#bytesMax) return tooLarge(this.#bytesMax);
    const events = eventsIn(this.#events, chunk, this.#bytesMax);
    if (!Array.isArray(events)) return events;
    return this.#gather(events.flatMap((event) => this.#stream.push(event)));
  }

  end(): AnswerStep {
    const step = this.#gather([
      ...this.#events.end().flatMap((event) => this.#stream.push(event)),
      ...this.#stream.end(),
    ]);
    return step.kind === "more" ? { kind: "failed", bytes: [], failure: incomplete } : step;
  }

  get parts(): number {
    return this.produced.parts + Math.floor(this.bufferedBytes / eventPartBytes);
  }

  get finish(): Finish | undefined {
    return this.produced.finish;
  }

  get begun(): boolean {
    return this.#gathered.length > 0;
  }

  #gather(events: AnswerEvent[]): AnswerStep {
    if (this.settled) return { kind: "more", bytes: [] };
    for (const event of events) {
      this.#gathered.push(event);
      this.produced.event(event);
    }
    this.produced.report(this.#stream.usage);
    if (!events.some(({ kind }) => kind === "finish" || kind === "error")) return { kind: "more", bytes: [] };
    const answer = this.#stream.whole(this.#gathered);
    this.settled = true;
    this.committed = answer.kind === "answer";
    if (answer.kind === "answer") this.usage = this.produced.usage;
    return stepOf(answer);
  }
}
