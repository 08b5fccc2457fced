/**
 * One call of an upstream, from its wait for a connection to its end. Calls no handler after that.
 */
import type { Failure } from "#dialects/errors.ts";
import type { UpstreamCall, UpstreamHandlers } from "./upstreams.ts";

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
