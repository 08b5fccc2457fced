import type { OutgoingHttpHeaders } from "node:http";
import type { AnswerResponse } from "./generation-response.ts";

/**
 * A response that passes everything on to another one. Its subclasses look at what passes, or
 * change it.
 */
export abstract class PassingResponse implements AnswerResponse {
  protected readonly inner: AnswerResponse;

  constructor(inner: AnswerResponse) {
    this.inner = inner;
  }

  get headersSent(): boolean {
    return this.inner.headersSent;
  }

  get closed(): boolean {
    return this.inner.closed;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): this {
    this.inner.writeHead(status, headers);
    return this;
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    return this.inner.write(chunk, written);
  }

  end(chunk?: string | Buffer): void {
    this.inner.end(chunk);
  }

  destroy(): void {
    this.inner.destroy();
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.inner.once(event, listener);
  }
}
