/** A response to one of Ollama's clients: translates what is written in the format of chat completions or embeddings. */
import type { OutgoingHttpHeaders } from "node:http";
import { contentTypes } from "#dialects/codec.ts";
import { internalFailure } from "#dialects/errors.ts";
import { jsonOf } from "#dialects/json.ts";
import { type SseEvent, SseReader } from "#dialects/sse.ts";
import type { Claim } from "../admission/capacity.ts";
import { socketEventBytesMax } from "../bounds.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import { PassingResponse } from "../generation/passing-response.ts";
import { WholeResponse } from "../generation/whole-response.ts";
import { messageIn, type OllamaAnswer, ollamaErrorOf } from "./answer.ts";

/** The response of a request for a stream, or for a whole answer. `held` is the claim on memory for a whole answer that does not come at once. */
export const ollamaResponseOf = (
  inner: AnswerResponse,
  answer: OllamaAnswer,
  streams: boolean,
  held: Claim,
): AnswerResponse => {
  const whole = new OllamaWholeResponse(inner, answer, held);
  return streams ? new OllamaStream(inner, answer, whole) : whole;
};

class OllamaWholeResponse extends WholeResponse {
  readonly #answer: OllamaAnswer;

  constructor(inner: AnswerResponse, answer: OllamaAnswer, held: Claim) {
    super(inner, held);
    this.#answer = answer;
  }

  protected answer(status: number, body: Buffer): void {
    const whole = status >= 300 ? undefined : this.#answer.wholeOf(body);
    if (whole !== undefined) this.send(status, contentTypes.whole, jsonOf(whole));
    else if (status >= 300) this.send(status, contentTypes.whole, ollamaErrorOf(messageIn(body)));
    else this.send(500, contentTypes.whole, ollamaErrorOf(internalFailure.message));
  }
}

/** Lines of JSON. An error before the first is a whole response. */
class OllamaStream extends PassingResponse {
  readonly #answer: OllamaAnswer;
  readonly #error: AnswerResponse;
  readonly #events = new SseReader(socketEventBytesMax);
  #hasFailed = false;

  constructor(inner: AnswerResponse, answer: OllamaAnswer, error: AnswerResponse) {
    super(inner);
    this.#answer = answer;
    this.#error = error;
  }

  override get headersSent(): boolean {
    return this.#hasFailed || this.inner.headersSent;
  }

  override writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.#hasFailed = status >= 300;
    if (this.#hasFailed) this.#error.writeHead(status, headers);
    else this.inner.writeHead(status, { ...headers, "content-type": "application/x-ndjson" });
    return this;
  }

  override write(chunk: string | Buffer, written?: () => void): boolean {
    if (this.#hasFailed) return this.#error.write(chunk, written);
    const lines = this.#linesOf(chunk);
    // A text without an event is a keep-alive.
    if (lines === "" && typeof chunk === "string")
      return this.inner.write(`${jsonOf(this.#answer.keepAlive)}\n`, written);
    if (lines !== "") return this.inner.write(lines, written);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  override end(chunk: string | Buffer = ""): void {
    if (this.#hasFailed) this.#error.end(chunk);
    else this.inner.end(this.#linesOf(chunk));
  }

  #linesOf(chunk: string | Buffer): string {
    const events = this.#eventsIn(Buffer.from(chunk as Buffer));
    return events.flatMap(({ data }) => this.#answer.linesOf(data).map((line) => `${jsonOf(line)}\n`)).join("");
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
