/** The response of a generation whose whole answer is stored, and sent to nobody. */
import { wholeAnswerBytesMax } from "../common/bounds.ts";
import type { DetachedResponse, ErrorResponse } from "./logged-response.ts";
import { type AnswerResponse, ResponseEvents } from "./response.ts";

/** Takes the whole answer (background/background-answer.ts). */
interface WholeAnswer {
  whole(body: Buffer): void;
  ending(error: ErrorResponse | undefined, number: number): Promise<unknown>;
}

export class WholeSink implements AnswerResponse, DetachedResponse {
  headersSent = false;
  readonly #answer: WholeAnswer;
  readonly #ended: () => void;
  readonly #events = new ResponseEvents();
  #status = 200;
  #body: Buffer[] = [];
  #bytes = 0;

  constructor({ answer, ended }: { answer: WholeAnswer; ended: () => void }) {
    this.#answer = answer;
    this.#ended = ended;
  }

  over(): this {
    return this;
  }

  get closed(): boolean {
    return this.#events.closed;
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.#events.once(event, listener);
  }

  writeHead(status: number): void {
    this.headersSent = true;
    this.#status = status;
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

  leave(): void {
    if (this.closed) return;
    this.#events.close();
    this.#body = [];
    this.#ended();
  }

  async #finish(error: ErrorResponse | undefined): Promise<void> {
    await this.#answer.ending(error, 0);
    this.leave();
  }
}
