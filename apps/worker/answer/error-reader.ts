/** Reads the reason of an error response, or of a response that is not an answer. */

import type { Failure } from "#dialects/errors.ts";
import { errorBytesMax } from "../bounds.ts";
import type { Reading } from "../preparation/exchange.ts";
import {
  type AnswerReader,
  type AnswerStep,
  type FailedStep,
  isAnswerStatus,
  refusedWith,
  unreadable,
  waitingFor,
} from "./answer-reader.ts";

const redirected: Failure = {
  code: "upstream_failed",
  message:
    "The upstream of this model answered with a redirect, which the gateway does not follow; its operator has been notified.",
};

export class ErrorReader implements AnswerReader {
  readonly #status: number;
  readonly #reading: Reading;
  readonly #retryAfterSeconds: number | undefined;
  readonly #isQuoted: ((text: string) => boolean) | undefined;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(
    status: number,
    reading: Reading,
    retryAfterSeconds: number | undefined,
    isQuoted: ((text: string) => boolean) | undefined,
  ) {
    this.#isQuoted = isQuoted;
    this.#status = status;
    this.#reading = reading;
    this.#retryAfterSeconds = retryAfterSeconds;
  }

  push(chunk: Buffer): AnswerStep {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    return this.#bytes > errorBytesMax ? this.end() : { kind: "more", bytes: [] };
  }

  end(): AnswerStep {
    return waitingFor(this.#retryAfterSeconds, this.#read());
  }

  #read(): FailedStep {
    const failed = (failure: Failure): FailedStep => ({ kind: "failed", bytes: [], failure });
    if (this.#status >= 300 && this.#status < 400) return failed(redirected);
    const body = this.#body();
    if (
      isAnswerStatus(this.#status) &&
      (typeof body !== "object" || body === null || (body as { error?: unknown }).error == null)
    )
      return failed(unreadable);
    const error = this.#reading.errorOf(body);
    const status = isAnswerStatus(this.#status) ? (error.status ?? 502) : this.#status;
    return refusedWith(status, error, this.#isQuoted);
  }

  /** The JSON value; otherwise the text, which may be a server's message or a proxy's page. */
  #body(): unknown {
    const text = Buffer.concat(this.#chunks).toString("utf8");
    try {
      return JSON.parse(text);
    } catch {
      return text;
    }
  }
}
