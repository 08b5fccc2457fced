/** A response that is kept until it is complete, and then answered with another body. */
import type { OutgoingHttpHeaders } from "node:http";
import { contentTypes } from "#dialects/codec.ts";
import type { Claim } from "../common/capacity.ts";
import { type AnswerResponse, ResponseLayer } from "./response.ts";

/** An error has a status of 300 or above. */
export interface WholeAnswer {
  status: number;
  /** Without those that describe the body. */
  headers: OutgoingHttpHeaders;
  body: Buffer;
}

/** Its generation must answer with a whole response, not with a stream. */
export class WholeResponse extends ResponseLayer implements AnswerResponse {
  /** The claim on memory for an answer that does not come at once. */
  readonly #claim: Claim;
  readonly #answer: (answer: WholeAnswer) => void;
  #head: { status: number; headers: OutgoingHttpHeaders } | undefined;
  #body: Buffer[] = [];
  #bytes = 0;

  /** Calls `answer` with the complete response; it writes to `below`. */
  constructor(below: AnswerResponse, claim: Claim, answer: (answer: WholeAnswer) => void) {
    super(below);
    this.#claim = claim;
    this.#answer = answer;
    below.once("close", () => this.#forget());
  }

  override get headersSent(): boolean {
    return this.#head !== undefined;
  }

  writeHead(status: number, { "content-length": _, ...headers }: OutgoingHttpHeaders): void {
    this.#head = { status, headers };
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    const bytes = Buffer.from(chunk as Buffer);
    this.#bytes += bytes.length;
    if (this.#claim.hold(this.#bytes) !== undefined) this.destroy();
    else this.#body.push(bytes);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  end(chunk: string | Buffer = ""): void {
    const body = Buffer.concat([...this.#body, Buffer.from(chunk as Buffer)]);
    this.#answer({ status: 200, headers: {}, ...this.#head, body });
    this.#forget();
  }

  destroy(): void {
    this.#forget();
    this.below.destroy();
  }

  #forget(): void {
    this.#body = [];
    this.#claim.end();
  }
}

/** Sends JSON with these headers. */
export function sendWhole(
  response: AnswerResponse,
  { status, headers, body }: Omit<WholeAnswer, "body"> & { body: string | Buffer },
): void {
  const own = { "content-type": contentTypes.whole, "content-length": Buffer.byteLength(body) };
  response.writeHead(status, { ...headers, ...own });
  response.end(body);
}
