/** The interface of all responses, and what responses that are not HTTP responses share. */
import { EventEmitter } from "node:events";
import type { OutgoingHttpHeaders } from "node:http";

/**
 * The response that an answer is written to: an HTTP response, or an object with the same
 * interface. Layers have it too, and pass on to the response below what they do not change.
 */
export interface AnswerResponse {
  /** The status can no longer change. */
  readonly headersSent: boolean;
  /** Everything was sent, or the caller left. */
  readonly closed: boolean;
  /** Bytes that were written and not sent, of an HTTP response. */
  readonly writableLength?: number;
  writeHead(status: number, headers: OutgoingHttpHeaders): unknown;
  /**
   * Copies a slice of a larger buffer that can't leave at once. Returns false when the caller reads
   * too slowly; "drain" follows when it has caught up.
   */
  write(chunk: string | Buffer, written?: () => void): boolean;
  end(chunk?: string | Buffer): unknown;
  destroy(): unknown;
  once(event: "close" | "drain", listener: () => void): unknown;
}

/** A layer has the state and the events of the response below. */
export abstract class ResponseLayer {
  protected readonly below: AnswerResponse;

  constructor(below: AnswerResponse) {
    this.below = below;
  }

  get headersSent(): boolean {
    return this.below.headersSent;
  }

  get closed(): boolean {
    return this.below.closed;
  }

  once(event: "close" | "drain", listener: () => void): void {
    this.below.once(event, listener);
  }
}

/** The state and the events of a response that is not an HTTP response. */
export class ResponseEvents {
  closed = false;
  readonly #emitter = new EventEmitter();

  once(event: "close" | "drain", listener: () => void): void {
    this.#emitter.once(event, listener);
  }

  drained(): void {
    this.#emitter.emit("drain");
  }

  /** Like an HTTP response, it emits `close` in a later turn and never inside a call. */
  close(): void {
    if (this.closed) return;
    this.closed = true;
    process.nextTick(() => this.#emitter.emit("close"));
  }
}

/** A caller that is not there: nobody reads the answer as it comes. */
export const nobody: AnswerResponse = {
  headersSent: true,
  closed: true,
  writeHead: () => undefined,
  write: () => true,
  end: () => undefined,
  destroy: () => undefined,
  once: () => undefined,
};

/** Takes an answer that nobody gets. */
export class DiscardedResponse extends ResponseEvents implements AnswerResponse {
  headersSent = false;

  writeHead(): void {
    this.headersSent = true;
  }

  write(_chunk: string | Buffer, written?: () => void): boolean {
    if (written !== undefined) process.nextTick(written);
    return true;
  }

  end(): void {
    this.close();
  }

  destroy(): void {
    this.close();
  }
}

/** Headers that keep proxies and content-delivery networks from buffering or changing a stream. */
export const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};

/** The headers of an answer that others may have later, without those of one request alone. */
export const sharedHeadersOf = (headers: OutgoingHttpHeaders): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers)
      .filter(([name]) => !/ratelimit|request-id|^connection$/.test(name))
      .map(([name, value]) => [name, String(value)]),
  );
