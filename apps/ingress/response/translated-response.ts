/**
 * A response to a client of an API that the gateway has no dialect for: translates what is written
 * in the format of a dialect.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { contentTypes } from "#dialects/codec.ts";
import { internalFailure } from "#dialects/errors.ts";
import { type SseEvent, SseReader } from "#wire/sse.ts";
import { socketEventBytesMax } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import type { AnswerResponse } from "./generation-response.ts";
import { PassingResponse } from "./passing-response.ts";
import { WholeResponse } from "./whole-response.ts";

/** All texts are complete: lines, events or bodies. */
export interface AnswerTranslation {
  /** The content type of a stream. */
  streamType: string;
  /** What replaces a keep-alive that is no event. */
  keepAlive(): string;
  /** For the data of one event; "" for an event without a counterpart. */
  textOf(data: Buffer): string;
  /** For a whole answer; undefined if it cannot be read. */
  wholeOf(body: Buffer): string | undefined;
  /** For an error in the dialect's format. */
  errorOf(status: number, body: Buffer): string;
  /** For an error of the gateway. */
  failureOf(message: string): string;
}

/**
 * The response of a request for a stream, or for a whole answer. `held` is the claim on memory for
 * a whole answer that does not come at once.
 */
export const translatedResponseOf = (
  inner: AnswerResponse,
  translation: AnswerTranslation,
  streams: boolean,
  held: Claim,
): AnswerResponse => {
  const whole = new TranslatedWhole(inner, translation, held);
  return streams ? new TranslatedStream(inner, translation, whole) : whole;
};

class TranslatedWhole extends WholeResponse {
  readonly #translation: AnswerTranslation;

  constructor(inner: AnswerResponse, translation: AnswerTranslation, held: Claim) {
    super(inner, held);
    this.#translation = translation;
  }

  protected answer(status: number, body: Buffer): void {
    const { wholeOf, errorOf, failureOf } = this.#translation;
    const whole = status >= 300 ? errorOf(status, body) : wholeOf(body);
    if (whole !== undefined) this.send(status, contentTypes.whole, whole);
    else this.send(500, contentTypes.whole, failureOf(internalFailure.message));
  }
}

/** An error before the first event is a whole response. */
class TranslatedStream extends PassingResponse {
  readonly #translation: AnswerTranslation;
  readonly #error: AnswerResponse;
  readonly #events = new SseReader(socketEventBytesMax);
  #hasFailed = false;

  constructor(inner: AnswerResponse, translation: AnswerTranslation, error: AnswerResponse) {
    super(inner);
    this.#translation = translation;
    this.#error = error;
  }

  override get headersSent(): boolean {
    return this.#hasFailed || this.inner.headersSent;
  }

  override writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.#hasFailed = status >= 300;
    if (this.#hasFailed) this.#error.writeHead(status, headers);
    else this.inner.writeHead(status, { ...headers, "content-type": this.#translation.streamType });
    return this;
  }

  override write(chunk: string | Buffer, written?: () => void): boolean {
    if (this.#hasFailed) return this.#error.write(chunk, written);
    const text = this.#textOf(chunk);
    // A text without an event is a keep-alive.
    if (text === "" && typeof chunk === "string") return this.inner.write(this.#translation.keepAlive(), written);
    if (text !== "") return this.inner.write(text, written);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  override end(chunk: string | Buffer = ""): void {
    if (this.#hasFailed) this.#error.end(chunk);
    else this.inner.end(this.#textOf(chunk));
  }

  #textOf(chunk: string | Buffer): string {
    return this.#eventsIn(Buffer.from(chunk as Buffer))
      .map(({ data }) => this.#translation.textOf(data))
      .join("");
  }

  /** An event that is too large breaks the connection. */
  #eventsIn(chunk: Buffer): SseEvent[] {
    try {
      return this.#events.push(chunk);
    } catch {
      this.destroy();
      return [];
    }
  }
}
