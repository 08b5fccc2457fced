/**
 * One call of an upstream, from its wait for a connection to its end. Calls no handler after that.
 */
import type { Failure } from "#dialects/errors.ts";

export type UpstreamHeaders = Readonly<Record<string, string | string[] | undefined>>;

export interface UpstreamHandlers {
  head(status: number, headers: UpstreamHeaders): void;
  /**
   * Always decompressed. `kind` is set for a message of a session, which comes whole, and for the
   * close frame that ends it.
   */
  data(chunk: Buffer, kind?: "text" | "binary" | "close"): void;
  end(): void;
  /** A part of a message of the caller was sent to the upstream of a session. */
  sent?(fragment: Buffer, isFirst: boolean): void;
  /**
   * Nothing follows. Not called after `abort`. `cause` is the transport's error code, for the
   * operator.
   */
  failed(failure: Failure, cause: string): void;
}

export interface UpstreamCall {
  /** Closes the connection at once, or stops waiting for one. No handler is called afterwards. */
  abort(): void;
  /** Pauses or resumes reading the response. */
  flow(open: boolean): void;
}

export abstract class PooledCall implements UpstreamCall {
  /** It has a connection, or is about to open one. */
  started = false;
  protected readonly handlers: UpstreamHandlers;
  protected isOver = false;
  #left: (() => void)[] = [];

  constructor(handlers: UpstreamHandlers) {
    this.handlers = handlers;
  }

  abstract abort(): void;
  abstract flow(open: boolean): void;
  /** Releases what the call holds besides its connection. */
  protected abstract release(): void;

  /** `then` runs when the call no longer needs a connection or waits for one. */
  onceLeft(then: () => void): void {
    this.#left.push(then);
  }

  fail(failure: Failure, cause: string): void {
    this.leave();
    if (this.isOver) return;
    this.isOver = true;
    this.release();
    this.handlers.failed(failure, cause);
  }

  protected leave(): void {
    for (const then of this.#left.splice(0)) then();
  }
}
