/** A response whose answer is collected as its caller gets it. Everything is passed on at once. */
import type { OutgoingHttpHeaders } from "node:http";
import type { ContentBody } from "#content/content.ts";
import { ContentText } from "./content-text.ts";
import { type AnswerResponse, ResponseLayer } from "./response.ts";

export interface ContentResponseOptions {
  /** Takes memory for so many bytes in total; false if there is none. */
  hold(bytes: number): boolean;
  /**
   * Called once, at the end of the answer or when the caller left. `status` is 0 if there was no
   * answer.
   */
  ended(status: number, answer: ContentBody): void;
}

export class ContentResponse extends ResponseLayer implements AnswerResponse {
  readonly #options: ContentResponseOptions;
  readonly #text: ContentText;
  #status = 0;
  #type = "";
  #isOver = false;

  constructor(below: AnswerResponse, options: ContentResponseOptions) {
    super(below);
    this.#options = options;
    this.#text = new ContentText((bytes) => options.hold(bytes));
    below.once("close", () => this.#end());
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): void {
    this.#status = status;
    this.#type = String(headers["content-type"] ?? "application/json");
    this.below.writeHead(status, headers);
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    // Keep-alives are the only texts without a callback, and are no part of the answer.
    if (typeof chunk !== "string" || written !== undefined) this.#collect(chunk);
    return this.below.write(chunk, written);
  }

  end(chunk?: string | Buffer): void {
    if (chunk !== undefined) this.#collect(chunk);
    this.below.end(chunk);
    this.#end();
  }

  destroy(): void {
    this.below.destroy();
    this.#end();
  }

  #collect(chunk: string | Buffer): void {
    if (this.#isOver) return;
    if (isText(this.#type)) this.#text.push(Buffer.from(chunk as Buffer));
    else this.#text.skip(Buffer.byteLength(chunk));
  }

  #end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#options.ended(this.#status, { type: this.#type, ...this.#text.result() });
  }
}

/** Whether bodies of this media type are text. */
export const isText = (type: string): boolean => /^(text\/|application\/(json|x-ndjson|problem\+json)\b)/.test(type);
