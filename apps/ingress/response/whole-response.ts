/** A response that is held back until it is complete, and then answered with another body. */
import type { OutgoingHttpHeaders } from "node:http";
import type { Claim } from "../common/capacity.ts";
import type { AnswerResponse } from "./generation-response.ts";
import { PassingResponse } from "./passing-response.ts";

/** Its generation must answer with a whole response, not with a stream. */
export abstract class WholeResponse extends PassingResponse {
  /** The claim on memory for an answer that does not come at once. */
  readonly #held: Claim;
  #head: { status: number; headers: OutgoingHttpHeaders } | undefined;
  #body: Buffer[] = [];
  #bytes = 0;

  constructor(inner: AnswerResponse, held: Claim) {
    super(inner);
    this.#held = held;
    inner.once("close", () => this.#forget());
  }

  /** Sends what the caller gets for this response. An error has a status of 300 or above. */
  protected abstract answer(status: number, body: Buffer): void;

  /** Sends the response, with the headers of the original one. */
  protected send(status: number, contentType: string, body: string | Buffer): void {
    this.sendHead(status, { "content-type": contentType, "content-length": Buffer.byteLength(body) });
    this.inner.end(body);
  }

  /** Sends the head, with the headers of the original one that do not describe its body. */
  protected sendHead(status: number, headers: OutgoingHttpHeaders): void {
    const { "content-length": _, ...original } = this.#head?.headers ?? {};
    this.inner.writeHead(status, { ...original, ...headers });
  }

  override get headersSent(): boolean {
    return this.#head !== undefined;
  }

  override writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.#head = { status, headers };
    return this;
  }

  override write(chunk: string | Buffer, written?: () => void): boolean {
    const bytes = Buffer.from(chunk as Buffer);
    this.#bytes += bytes.length;
    if (this.#held.hold(this.#bytes) !== undefined) this.destroy();
    else this.#body.push(bytes);
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  override end(chunk: string | Buffer = ""): void {
    this.answer(this.#head?.status ?? 200, Buffer.concat([...this.#body, Buffer.from(chunk as Buffer)]));
    this.#forget();
  }

  override destroy(): void {
    this.#forget();
    super.destroy();
  }

  #forget(): void {
    this.#body = [];
    this.#held.end();
  }
}
