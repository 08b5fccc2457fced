/**
 * A response to a client of an API that the gateway has no dialect for: translates what is written
 * in the format of a dialect.
 */
import type { OutgoingHttpHeaders } from "node:http";
import { internalFailure } from "#dialects/errors.ts";
import { type SseEvent, SseReader } from "#wire/sse.ts";
import { socketEventBytesMax } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import { type AnswerResponse, ResponseLayer } from "./response.ts";
import { sendWhole, type WholeAnswer, WholeResponse } from "./whole-response.ts";

/** All texts are complete: lines, events or bodies. */
export interface AnswerTranslation {
  /** The content type of a stream. */
  streamType: string;
  /** The text in place of a keep-alive that is no event. */
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

export interface TranslationOptions {
  translation: AnswerTranslation;
  /** The request is for a stream. An error before its first event is a whole response. */
  streams: boolean;
  /** The claim on memory for a whole answer that does not come at once. */
  claim: Claim;
}

export class TranslatedResponse extends ResponseLayer implements AnswerResponse {
  readonly #translation: AnswerTranslation;
  readonly #whole: WholeResponse;
  readonly #events = new SseReader(socketEventBytesMax);
  #isWhole: boolean;

  constructor(below: AnswerResponse, { translation, streams, claim }: TranslationOptions) {
    super(below);
    this.#translation = translation;
    this.#whole = new WholeResponse(below, claim, (answer) => this.#answer(answer));
    this.#isWhole = !streams;
  }

  override get headersSent(): boolean {
    return (this.#isWhole ? this.#whole : this.below).headersSent;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): void {
    this.#isWhole ||= status >= 300;
    if (this.#isWhole) this.#whole.writeHead(status, headers);
    else this.below.writeHead(status, { ...headers, "content-type": this.#translation.streamType });
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    if (this.#isWhole) return this.#whole.write(chunk, written);
    const text = this.#textOf(chunk);
    // A text without an event is a keep-alive.
    if (text === "" && typeof chunk === "string") return this.below.write(this.#translation.keepAlive(), written);
    if (text !== "") return this.below.write(text, written);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  end(chunk: string | Buffer = ""): void {
    if (this.#isWhole) this.#whole.end(chunk);
    else this.below.end(this.#textOf(chunk));
  }

  destroy(): void {
    this.#whole.destroy();
  }

  #answer({ status, headers, body }: WholeAnswer): void {
    const { wholeOf, errorOf, failureOf } = this.#translation;
    const whole = status >= 300 ? errorOf(status, body) : wholeOf(body);
    if (whole !== undefined) sendWhole(this.below, { status, headers, body: whole });
    else sendWhole(this.below, { status: 500, headers, body: failureOf(internalFailure.message) });
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
