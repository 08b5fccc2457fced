/** The response of a generation whose whole answer is stored, and sent to nobody. */
import { EventEmitter } from "node:events";
import { wholeAnswerBytesMax } from "../common/bounds.ts";
import type { AnswerResponse } from "./generation-response.ts";
import type { ErrorResponse } from "./logged-response.ts";

/** Takes the whole answer (background/background-answer.ts). */
interface WholeAnswer {
  whole(body: Buffer): void;
  ending(error: ErrorResponse | undefined, number: number): Promise<unknown>;
}

export class WholeSink implements AnswerResponse {
  closed = false;
  headersSent = false;
  readonly #answer: WholeAnswer;
  readonly #ended: () => void;
  readonly #emitter = new EventEmitter();
  #status = 200;
  #body: Buffer[] = [];
  #bytes = 0;

  constructor({ answer, ended }: { answer: WholeAnswer; ended: () => void }) {
    this.#answer = answer;
    this.#ended = ended;
  }

  writeHead(status: number): this {
    this.headersSent = true;
    this.#status = status;
    return this;
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    const bytes = Buffer.from(chunk as Buffer);
    this.#bytes += bytes.length;
    if (this.#bytes > wholeAnswerBytesMax) this.destroy();
    else this.#body.push(bytes);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  end(chunk: string | Buffer = ""): void {
    if (this.closed) return;
    const body = Buffer.concat([...this.#body, Buffer.from(chunk as Buffer)]);
    const isError = this.#status >= 300;
    if (!isError) this.#answer.whole(body);
    void this.#finish(isError ? { status: this.#status, body: body.toString("utf8") } : undefined);
  }

  destroy(): void {
    if (!this.closed) void this.#finish({ status: 502, body: "" });
  }

  /** Stops the generation, as if its caller had left. */
  leave(): void {
    this.#close();
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.#emitter.once(event, listener);
  }

  async #finish(error: { status: number; body: string } | undefined): Promise<void> {
    await this.#answer.ending(error, 0);
    this.#close();
  }

  #close(): void {
    if (this.closed) return;
    this.closed = true;
    this.#body = [];
    this.#ended();
    process.nextTick(() => this.#emitter.emit("close"));
  }
}
