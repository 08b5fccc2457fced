/** Translates an upstream's stream for a caller of another dialect. */

import type { SseEvent } from "#wire/sse.ts";
import type { StreamDecoder, StreamEncoder, StreamRelay } from "../codec.ts";
import type { UpstreamError } from "../errors.ts";
import type { AnswerEvent, ContentEvent } from "../neutral/neutral.ts";
import { type Delivered, Produced } from "../neutral/produced.ts";
import type { Usage } from "../usage.ts";

export class TranslatedStream implements StreamRelay {
  error: UpstreamError | undefined;
  committed: boolean;
  ended = false;
  readonly produced: Produced;
  readonly #decoder: StreamDecoder;
  readonly #encoder: StreamEncoder;
  #waiting = "";
  /** Content followed the finish. */
  #isContradicted = false;

  readonly #usageOf: ((produced: Produced) => Usage) | undefined;

  /**
   * `delivered`: content of the answer that was delivered before this stream. `usageOf` gives what
   * the caller sees as usage of an answer whose upstream reported none.
   */
  constructor(
    decoder: StreamDecoder,
    encoder: StreamEncoder,
    delivered?: Delivered,
    usageOf?: (produced: Produced) => Usage,
  ) {
    this.committed = delivered !== undefined;
    this.produced = new Produced(delivered);
    this.#decoder = decoder;
    this.#encoder = encoder;
    this.#usageOf = usageOf;
  }

  get finished(): boolean {
    return this.#decoder.finished;
  }

  get settled(): boolean {
    return this.finished && !this.#isContradicted;
  }

  get complete(): boolean {
    return this.ended;
  }

  get usage(): Usage | undefined {
    return this.produced.usage;
  }

  get malformedEvents(): number {
    return this.#decoder.malformedEvents;
  }

  push(event: SseEvent, out: Buffer[]): void {
    const wasFinished = this.finished;
    const events = this.#decoder.push(event);
    this.#isContradicted ||= wasFinished && events.some(({ kind }) => kind === "delta" || kind === "block");
    this.#translate(events, out);
  }

  end(out: Buffer[]): void {
    this.#translate(this.#decoder.end(), out);
  }

  #translate(events: readonly AnswerEvent[], out: Buffer[]): void {
    let text = this.#waiting;
    for (const event of events) {
      if (this.ended || this.error !== undefined) break;
      if (event.kind === "error") {
        this.error = event.error;
        break;
      }
      if (event.kind === "finish") this.ended = true;
      this.produced.event(event);
      if (isContent(event)) this.committed = true;
      text += this.#encoder.push(this.#shown(event), this.#decoder.usage);
    }
    const { repeatedParts = 0, usage } = this.#decoder;
    this.produced.repeated(repeatedParts);
    this.produced.report(usage);
    this.#waiting = this.committed ? "" : text;
    if (this.committed && text !== "") out.push(Buffer.from(text));
  }

  #shown(event: ContentEvent): ContentEvent {
    if (event.kind !== "finish" || event.usage !== undefined || this.#usageOf === undefined) return event;
    return { ...event, usage: this.#usageOf(this.produced) };
  }
}

const isContent = (event: AnswerEvent) =>
  event.kind === "finish" ||
  event.kind === "signature" ||
  (event.kind === "delta" && event.text !== "") ||
  (event.kind === "block" &&
    event.block.kind !== "text" &&
    event.block.kind !== "reasoning" &&
    event.block.kind !== "refusal");
