/**
 * A streamed response that goes to a log, and to its caller as long as that is connected. It goes
 * on without the caller. Each event has an id by which the caller can read on
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html#the-last-event-id-header).
 */

import type { OutgoingHttpHeaders } from "node:http";
import { keepAliveAmongIds } from "#dialects/profile.ts";
import { loggedEventBytesMax, wholeAnswerBytesMax } from "../common/bounds.ts";
import { EventCutter } from "./event-cutter.ts";
import { type AnswerResponse, ResponseEvents, sharedHeadersOf, streamHeaders } from "./response.ts";

/** A response that goes on without its caller. */
export interface DetachedResponse {
  /** Connects the caller, and takes its place. */
  over(caller: AnswerResponse): AnswerResponse;
  /**
   * Stops the generation, as if its caller had left. "cancelled": the answer ends here. "lost":
   * another process writes it on, so the caller's connection is broken, and it reads on there.
   */
  leave(why: "cancelled" | "lost"): void;
}

/** A failure before the first event: an error response. */
export interface ErrorResponse {
  status: number;
  body: string;
}

/** How the answer's response begins. */
export interface LogHead {
  status: number;
  headers: Record<string, string>;
}

/** Writes the log of an answer (background/answer-log.ts). */
export interface AnswerLog {
  /** The number of the next event. */
  readonly nextEvent: number;
  /** The flow must stop until it has drained. */
  readonly isFull: boolean;
  head(head: LogHead): void;
  /** Logs a whole event; returns it with its id, as it is logged. */
  event(event: Buffer): Buffer;
  /**
   * As "failed" where its last event is an error, as "broken" where the answer is not complete and
   * does not say so. Resolves when all of it is written, or lost.
   */
  end(kind?: "end" | "failed" | "broken"): Promise<void>;
  /** Writes no more. */
  abandon(): void;
}

export interface LoggedResponseOptions {
  log: AnswerLog;
  /** The caller reads the ids of events. */
  sendsIds: boolean;
  /** Events of the gateway's own, which a stream begins with. */
  firstEvents?: readonly Buffer[];
  /** The event that is sent and logged for one; undefined for none. `number` is the event's. */
  changed?(event: Buffer, number: number): Buffer | undefined;
  /**
   * Called when the generation is over. Resolves to events that end the answer; must not reject.
   */
  ending?(error: ErrorResponse | undefined): Promise<readonly Buffer[]>;
  /** Called when everything is written; `error` is a failure before the first event. */
  ended(error: ErrorResponse | undefined): void;
}

export class LoggedResponse extends ResponseEvents implements AnswerResponse, DetachedResponse {
  readonly #options: LoggedResponseOptions;
  readonly #cutter = new EventCutter();
  #live: AnswerResponse | undefined;
  #isLiveBlocked = false;
  #hasHead = false;
  #hasEnded = false;
  /** The last event is an error. */
  #hasFailed = false;
  #error: { status: number; headers: OutgoingHttpHeaders } | undefined;

  constructor(options: LoggedResponseOptions) {
    super();
    this.#options = options;
  }

  over(caller: AnswerResponse): this {
    if (!caller.closed) {
      this.#live = caller;
      caller.once("close", () => this.#liveLeft());
    }
    const { firstEvents } = this.#options;
    if (firstEvents !== undefined) {
      this.writeHead(200, streamHeaders);
      for (const event of firstEvents) this.#write(event);
    }
    return this;
  }

  get headersSent(): boolean {
    return this.#hasHead || this.#error !== undefined;
  }

  writeHead(status: number, headers: OutgoingHttpHeaders): void {
    if (status >= 300) this.#error = { status, headers };
    else if (!this.#hasHead) {
      this.#hasHead = true;
      this.#options.log.head({ status, headers: sharedHeadersOf(headers) });
      if (this.#live?.closed === false) this.#live.writeHead(status, headers);
    }
  }

  write(chunk: string | Buffer, written?: () => void): boolean {
    // Keep-alives are the only texts without a callback, and are no part of the answer. A text with
    // one is the error event.
    if (typeof chunk === "string" && written === undefined)
      this.#send(Buffer.from(this.#options.sendsIds ? keepAliveAmongIds(chunk) : chunk));
    else {
      this.#hasFailed = typeof chunk === "string";
      this.#take(Buffer.from(chunk as Buffer));
    }
    if (written !== undefined) process.nextTick(written);
    return !this.#isBlocked;
  }

  end(chunk: string | Buffer = ""): void {
    if (this.#hasEnded) return;
    if (this.#error === undefined) {
      // A text is the error event here, too.
      if (typeof chunk === "string" && chunk !== "") this.#hasFailed = true;
      this.#take(Buffer.from(chunk as Buffer));
    }
    void this.#finish(this.#error && { status: this.#error.status, body: String(chunk) });
  }

  /** The answer broke off. */
  destroy(): void {
    if (this.#hasEnded) return;
    if (this.#options.ending === undefined) this.#breakLive();
    void this.#finish({ status: 502, body: "" });
  }

  leave(why: "cancelled" | "lost"): void {
    this.#hasEnded = true;
    if (why === "cancelled") void this.#options.log.end();
    else {
      this.#options.log.abandon();
      this.#breakLive();
    }
    this.#close();
  }

  /** The log was appended, so the flow may go on. */
  override drained(): void {
    if (!this.#isBlocked) super.drained();
  }

  async #finish(error: ErrorResponse | undefined): Promise<void> {
    this.#hasEnded = true;
    const { log, ending } = this.#options;
    for (const event of (await ending?.(error)) ?? []) this.#write(event);
    const isComplete = ending !== undefined || (error === undefined && !this.#hasFailed);
    await log.end(isComplete ? "end" : this.#hasFailed ? "failed" : "broken");
    const live = this.#live;
    if (this.#error !== undefined && !this.#hasHead && live?.closed === false) {
      live.writeHead(this.#error.status, this.#error.headers);
      live.end(error?.body);
      this.#live = undefined;
    }
    this.#close(this.#hasHead ? undefined : error);
  }

  #take(bytes: Buffer): void {
    const { log, changed } = this.#options;
    for (const event of this.#cutter.push(bytes, loggedEventBytesMax)) {
      const written = changed === undefined ? event : changed(event, log.nextEvent);
      if (written !== undefined) this.#write(written);
    }
  }

  #write(event: Buffer): void {
    const logged = this.#options.log.event(event);
    this.#send(this.#options.sendsIds ? logged : event);
  }

  #send(bytes: Buffer): void {
    const live = this.#live;
    if (live === undefined || live.closed || live.write(bytes) || this.#isLiveBlocked) return;
    this.#isLiveBlocked = true;
    live.once("drain", () => {
      this.#isLiveBlocked = false;
      this.drained();
    });
  }

  get #isBlocked(): boolean {
    return this.#isLiveBlocked || this.#options.log.isFull;
  }

  #liveLeft(): void {
    this.#live = undefined;
    this.#isLiveBlocked = false;
    this.drained();
  }

  #breakLive(): void {
    const live = this.#live;
    this.#liveLeft();
    live?.destroy();
  }

  #close(error?: ErrorResponse): void {
    if (this.closed) return;
    this.close();
    if (this.#live?.closed === false) this.#live.end();
    this.#options.ended(error);
  }
}

/** Takes the whole answer (background/background-answer.ts). */
interface WholeAnswer {
  whole(body: Buffer): void;
  ending(error: ErrorResponse | undefined, number: number): Promise<unknown>;
}

export class WholeSink extends ResponseEvents implements AnswerResponse, DetachedResponse {
  headersSent = false;
  readonly #answer: WholeAnswer;
  readonly #ended: () => void;
  #status = 200;
  #body: Buffer[] = [];
  #bytes = 0;

  constructor({ answer, ended }: { answer: WholeAnswer; ended: () => void }) {
    super();
    this.#answer = answer;
    this.#ended = ended;
  }

  over(): this {
    return this;
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
    this.close();
    this.#body = [];
    this.#ended();
  }

  async #finish(error: ErrorResponse | undefined): Promise<void> {
    await this.#answer.ending(error, 0);
    this.leave();
  }
}
