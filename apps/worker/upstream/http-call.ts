/** A call over HTTP. */
import type { Transform } from "node:stream";
import type { Dispatcher } from "undici";
import { joined } from "#wire/joined.ts";
import { decompressorOf } from "./decompress.ts";
import { isOfReused } from "./plain-socket.ts";
import { PooledCall, type UpstreamHandlers, type UpstreamHeaders } from "./pooled-call.ts";
import type { StreamPace } from "./stream-pace.ts";
import { failureOfEncoding, failureOfTransport } from "./transport-failures.ts";

type Controller = Dispatcher.DispatchController;

const aborted = new Error("aborted");

export class HttpCall extends PooledCall implements Dispatcher.DispatchHandler {
  #controller: Controller | undefined;
  #decompressor: Transform | undefined;
  #open = true;
  #hasHead = false;
  #again: (() => boolean) | undefined;
  readonly #pace: StreamPace;
  /** The chunks of one read, while the process is busy; bounded by what a read takes. */
  #chunks: Buffer[] = [];

  constructor(handlers: UpstreamHandlers, pace: StreamPace) {
    super(handlers);
    this.#pace = pace;
  }

  /** `again` sends the request once more after a kept connection was reset; false if it may not. */
  send(connections: Dispatcher, options: Dispatcher.DispatchOptions, again?: () => boolean): void {
    this.#again = again;
    if (this.isOver) this.leave();
    else connections.dispatch(options, this);
  }

  override abort(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.release();
    if (this.#controller !== undefined) this.#controller.abort(aborted);
    else if (!this.started) this.leave();
  }

  override flow(open: boolean): void {
    this.#open = open;
    if (this.isOver) return;
    if (!open) {
      this.#decompressor?.pause();
      this.#controller?.pause();
      return;
    }
    this.#decompressor?.resume();
    if (this.#decompressor?.writableNeedDrain !== true) this.#controller?.resume();
  }

  protected override release(): void {
    this.#decompressor?.destroy();
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    if (this.isOver) controller.abort(aborted);
  }

  onResponseStart(controller: Controller, status: number, headers: UpstreamHeaders): void {
    this.#controller = controller;
    if (this.isOver || status < 200) return;
    const decompressor = decompressorOf(headers["content-encoding"]);
    if (decompressor !== undefined) {
      this.#decompressor = decompressor;
      decompressor.on("data", (chunk: Buffer) => this.isOver || this.handlers.data(chunk));
      decompressor.on("drain", () => this.#open && this.#controller?.resume());
      decompressor.on("end", () => this.#end());
      decompressor.on("error", () => {
        controller.abort(aborted);
        this.fail(failureOfEncoding, "content-encoding");
      });
    }
    this.#hasHead = true;
    this.handlers.head(status, headers);
    if (!this.#open) this.flow(false);
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.isOver) return;
    if (this.#decompressor !== undefined) {
      if (!this.#decompressor.write(chunk)) controller.pause();
    } else if (this.#pace.intervalMs === 0 && this.#chunks.length === 0) this.handlers.data(chunk);
    else if (this.#chunks.push(chunk) === 1) queueMicrotask(() => this.#flush());
  }

  onResponseEnd(): void {
    this.#flush();
    this.leave();
    if (this.#decompressor === undefined) this.#end();
    else if (!this.isOver) this.#decompressor.end();
  }

  onResponseError(_controller: Controller, error: Error): void {
    if (!this.isOver && !this.#hasHead && isOfReused(error) && this.#again?.() === true) return;
    this.#flush();
    this.fail(failureOfTransport(error), (error as NodeJS.ErrnoException).code ?? error.name);
  }

  #flush(): void {
    const chunks = this.#chunks;
    if (chunks.length === 0) return;
    this.#chunks = [];
    if (!this.isOver) this.handlers.data(joined(chunks));
  }

  #end(): void {
    if (this.isOver) return;
    this.isOver = true;
    this.handlers.end();
  }
}
