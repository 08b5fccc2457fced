/** A response to one of Ollama's clients: translates what is written in the format of chat completions or embeddings. */
import type { OutgoingHttpHeaders } from "node:http";
import { internalFailure } from "#dialects/errors.ts";
import { jsonOf } from "#dialects/json.ts";
import { type SseEvent, SseReader } from "#dialects/sse.ts";
import type { Claim } from "../admission/capacity.ts";
import { socketEventBytesMax } from "../bounds.ts";
import type { AnswerResponse } from "../generation/generation-response.ts";
import { messageIn, type OllamaAnswer, ollamaErrorOf } from "./answer.ts";

export class OllamaResponse implements AnswerResponse {
  readonly #inner: AnswerResponse;
  readonly #answer: OllamaAnswer;
  /** The claim on memory for a whole answer that does not come at once. */
  readonly #held: Claim;
  /** Of a stream. */
  readonly #events: SseReader | undefined;
  #head: { status: number; headers: OutgoingHttpHeaders } = { status: 200, headers: {} };
  #headWritten = false;
  #body: Buffer[] = [];
  #bytes = 0;

  constructor(inner: AnswerResponse, answer: OllamaAnswer, streams: boolean, held: Claim) {
    this.#inner = inner;
    this.#answer = answer;
    this.#held = held;
    this.#events = streams ? new SseReader(socketEventBytesMax) : undefined;
    inner.once("close", () => this.#forget());
  }

  get headersSent(): boolean {
    return this.#headWritten;
  }

  get closed(): boolean {
    return this.#inner.closed;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.#headWritten = true;
    this.#head = { status, headers };
    if (this.#streamsLines) this.#inner.writeHead(status, { ...headers, "content-type": "application/x-ndjson" });
    return this;
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    if (!this.#streamsLines) return this.#keep(chunk, written);
    const lines = this.#linesOf(chunk);
    // A text without an event is a keep-alive.
    if (lines === "" && typeof chunk === "string")
      return this.#inner.write(`${jsonOf(this.#answer.keepAlive)}\n`, written);
    if (lines !== "") return this.#inner.write(lines, written);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  end(chunk: string | Buffer = ""): void {
    if (this.#streamsLines) {
      this.#inner.end(this.#linesOf(chunk));
      return;
    }
    const body = Buffer.concat([...this.#body, Buffer.from(chunk as Buffer)]);
    const { status } = this.#head;
    const whole = status >= 300 ? undefined : this.#answer.wholeOf(body);
    if (whole !== undefined) this.#send(status, jsonOf(whole));
    else if (status >= 300) this.#send(status, ollamaErrorOf(messageIn(body)));
    else this.#send(500, ollamaErrorOf(internalFailure.message));
    this.#forget();
  }

  destroy(): void {
    this.#forget();
    this.#inner.destroy();
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.#inner.once(event, listener);
  }

  get #streamsLines(): boolean {
    return this.#events !== undefined && this.#head.status < 300;
  }

  #linesOf(chunk: string | Buffer): string {
    const events = this.#eventsIn(Buffer.from(chunk as Buffer));
    return events.flatMap(({ data }) => this.#answer.linesOf(data).map((line) => `${jsonOf(line)}\n`)).join("");
  }

  /** An event that is too large breaks the connection. */
  #eventsIn(chunk: Buffer): SseEvent[] {
    try {
      return this.#events?.push(chunk) ?? [];
    } catch {
      this.destroy();
      return [];
    }
  }

  #keep(chunk: string | Buffer, written: (() => void) | undefined): boolean {
    const bytes = Buffer.from(chunk as Buffer);
    this.#bytes += bytes.length;
    if (this.#held.hold(this.#bytes) !== undefined) this.destroy();
    else this.#body.push(bytes);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  #send(status: number, body: string): void {
    const length = Buffer.byteLength(body);
    this.#inner.writeHead(status, {
      ...this.#head.headers,
      "content-type": "application/json",
      "content-length": length,
    });
    this.#inner.end(body);
  }

  #forget(): void {
    this.#body = [];
    this.#held.end();
  }
}
