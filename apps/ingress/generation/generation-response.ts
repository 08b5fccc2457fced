/**
 * The caller's side of an answer: holds the head back until there is content, keeps the connection alive meanwhile, writes what
 * the relay delivers, and tells it what the socket took.
 */
import type { OutgoingHttpHeaders } from "node:http";
import type { Framing } from "#dialects/codec.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { errorBodyOf, errorEventOf, type Failure, statusOf } from "#dialects/errors.ts";
import { type AnswerHead, deliveredBytesMax } from "#relay/job.ts";
import type { Claim } from "../admission/capacity.ts";
import { failureHeadersOf } from "../http/refusals.ts";

/** A whole answer is held back up to this size, as far as its key has room for it, so that it can be run anew until its end is there; a larger one is passed on as it comes. */
const heldBytesMax = 512 * 1024;

/** What keeps proxies and content-delivery networks from holding a stream back or changing it. */
const streamHeaders = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
};
const lineFeed = 0x0a;
/** In place of a seq: of this attempt the socket took nothing yet. */
const nothingTaken = -1;
/** What every client of every dialect passes over, between two events. */
const newline = "\n";
const eventEnd = Buffer.from("\n\n");
/** Between events of an answer that has begun: some clients count events and not bytes. */
const signsOfLife: Record<ConversationDialect, string> = {
  "openai-chat": newline,
  "openai-responses": 'event: keepalive\ndata: {"type":"keepalive"}\n\n',
  "anthropic-messages": 'event: ping\ndata: {"type":"ping"}\n\n',
  gemini: newline,
};

export interface AnswerListener {
  /** No other attempt can answer any more. */
  committed(): void;
  /** The caller's socket took everything up to this seq. */
  taken(seq: number): void;
}

/** What an answer needs of its response: an HTTP response, or what stands for one. */
export interface AnswerResponse {
  /** The status can't be changed any more. */
  readonly headersSent: boolean;
  /** All of it was sent, or the caller left. */
  readonly closed: boolean;
  writeHead(status: number, headers: OutgoingHttpHeaders): unknown;
  /** Copies what can't leave at once, if it lies in a larger buffer. False: the caller reads more slowly than this is written; "drain" tells when it has caught up. */
  write(chunk: string | Buffer, written?: () => void): boolean;
  end(chunk?: string | Buffer): unknown;
  destroy(): unknown;
  once(event: "close" | "drain", listener: () => void): unknown;
}

export interface AnswerOptions {
  response: AnswerResponse;
  dialect: ConversationDialect;
  framing: Framing;
  /** The catalogue's id. */
  model: string;
  requestId: string;
  /** Go with every answer, good or bad. */
  headers: Record<string, string>;
  /** An answer that has begun may be gone on with by another attempt: what of it was delivered is remembered, as far as there is room for it. */
  resumed: boolean;
  deliveredClaim: Claim;
  /** Of the bytes of answers: what is held back. */
  heldBack: Claim;
  listener: AnswerListener;
}

export class GenerationResponse {
  /** The HTTP status the caller got, or gets. */
  status = 0;
  readonly #options: AnswerOptions;
  readonly #response: AnswerResponse;
  readonly #streams: boolean;
  readonly #headers: Record<string, string>;
  #head: AnswerHead | undefined;
  #held: Buffer[] = [];
  #contentSent = false;
  /** Server-sent events sent so far. */
  #events = 0;
  /** What the caller has, as long as another attempt may go on from it. */
  #delivered: Buffer[] | undefined;
  /** The bytes sent so far end where an event ends. */
  #betweenEvents = true;
  #lastByte: number | undefined;
  #writtenAt: number;
  #blockedAt: number | undefined;
  #over = false;

  constructor(options: AnswerOptions, now: number) {
    this.#options = options;
    this.#response = options.response;
    this.#headers = { ...options.headers };
    this.#streams = options.framing !== "whole";
    this.#writtenAt = now;
    if (options.resumed && options.framing === "sse") this.#delivered = [];
  }

  /** Whole events of content that the caller has, for another attempt to go on from; undefined where there are none. */
  get delivered(): string | undefined {
    return this.#contentSent && this.#delivered !== undefined
      ? Buffer.concat(this.#delivered).toString("utf8")
      : undefined;
  }

  /** The caller has some of the content. */
  get hasBegun(): boolean {
    return this.#contentSent;
  }

  /** Can another attempt answer? */
  get mayRestart(): boolean {
    return !this.#contentSent || (this.#delivered !== undefined && this.#betweenEvents);
  }

  head(head: AnswerHead, seq: number): void {
    this.#head = head;
    this.passed(seq);
  }

  /** A frame that is not for the caller counts as taken with all that came before it. */
  passed(seq: number): void {
    if (this.#blockedAt === undefined) this.#options.listener.taken(seq);
    else this.#blockedAt = seq;
  }

  data(payload: Buffer, seq: number, now: number): void {
    if (this.#over) return;
    if (this.#streams || this.#contentSent) {
      this.#write(payload, seq, now);
      return;
    }
    this.#held.push(Buffer.from(payload));
    const { heldBack } = this.#options;
    const heldBytes = heldBack.amount + payload.length;
    if (heldBytes > heldBytesMax || heldBack.hold(heldBytes) !== undefined) {
      const held = Buffer.concat(this.#held);
      this.#dropHeld();
      this.#write(held, seq, now);
    }
  }

  end(): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#response.headersSent) {
      this.#response.end();
      return;
    }
    const body = Buffer.concat(this.#held);
    this.#sendHead({ "content-length": String(body.length) });
    this.#options.listener.committed();
    this.#response.end(body);
  }

  /** More of what goes with the answer, good or bad; without effect once the head was sent. */
  addHeaders(headers: Record<string, string>): void {
    Object.assign(this.#headers, headers);
  }

  /** Another attempt begins. What was delivered and not sent is void; what was sent is gone on from. */
  restart(): void {
    if (this.#blockedAt !== undefined) this.#blockedAt = nothingTaken;
    if (this.#contentSent) return;
    this.#head = undefined;
    this.#dropHeld();
  }

  #dropHeld(): void {
    this.#held = [];
    this.#options.heldBack.hold(0);
  }

  /** Before the head: the status and body of the dialect. In a stream: its error event, and no terminator. In mid-body: a broken connection. */
  fail(failure: Failure): void {
    if (this.#over) return;
    this.#over = true;
    const { dialect, requestId } = this.#options;
    if (!this.#response.headersSent) {
      const body = errorBodyOf(dialect, failure, requestId);
      this.status = statusOf(failure.code, dialect);
      this.#response.writeHead(this.status, {
        ...this.#headers,
        ...failureHeadersOf(failure),
        "content-length": Buffer.byteLength(body),
      });
      this.#response.end(body);
    } else if (this.#streams && this.#betweenEvents) this.#breakOff(this.#failureEventOf(failure));
    else this.#response.destroy();
  }

  #failureEventOf(failure: Failure): string {
    const { dialect, framing, model, requestId } = this.#options;
    if (framing === "array") return `${this.#contentSent ? "," : "["}${errorBodyOf(dialect, failure, requestId)}]`;
    return errorEventOf(dialect, failure, { requestId, answerId: this.#head?.answerId, model, events: this.#events });
  }

  /** Google's older clients don't see an error in a stream, but see that a connection breaks. */
  #breakOff(event: string): void {
    if (this.#options.dialect !== "gemini" || this.#options.framing === "array") this.#response.end(event);
    else this.#response.write(event, () => this.#response.destroy());
  }

  /** Call it about once a second. A sign of life before the head settles on a good status: what fails after it fails in the stream. */
  keepAlive(now: number, everyMs: number): void {
    if (
      this.#over ||
      !this.#streams ||
      !this.#betweenEvents ||
      this.#blockedAt !== undefined ||
      now - this.#writtenAt < everyMs
    )
      return;
    if (!this.#response.headersSent) this.#sendHead({});
    this.#writtenAt = now;
    this.#response.write(
      this.#contentSent && this.#options.framing === "sse" ? signsOfLife[this.#options.dialect] : newline,
    );
  }

  #sendHead(more: Record<string, string>): void {
    const head = this.#head ?? { status: 200, headers: {} };
    this.status = head.status;
    this.#response.writeHead(head.status, {
      ...(this.#streams && streamHeaders),
      ...this.#headers,
      ...head.headers,
      ...more,
    });
  }

  #write(payload: Buffer, seq: number, now: number): void {
    if (!this.#response.headersSent) this.#sendHead({});
    this.#events += eventsIn(payload);
    this.#remember(payload);
    this.#writtenAt = now;
    const lastButOne = payload.length > 1 ? payload.at(-2) : this.#lastByte;
    this.#lastByte = payload.at(-1);
    this.#betweenEvents = this.#lastByte === lineFeed && lastButOne === lineFeed;
    const took = this.#response.write(payload);
    if (took && this.#blockedAt === undefined) this.#options.listener.taken(seq);
    else {
      if (this.#blockedAt === undefined)
        this.#response.once("drain", () => {
          const taken = this.#blockedAt as number;
          this.#blockedAt = undefined;
          if (taken !== nothingTaken) this.#options.listener.taken(taken);
        });
      this.#blockedAt = seq;
    }
  }

  #remember(payload: Buffer): void {
    const isFirst = !this.#contentSent;
    this.#contentSent = true;
    const remembers = this.#delivered !== undefined;
    const deliveredBytes = this.#options.deliveredClaim.amount + payload.length;
    if (
      remembers &&
      deliveredBytes <= deliveredBytesMax &&
      this.#options.deliveredClaim.hold(deliveredBytes) === undefined
    ) {
      this.#delivered?.push(Buffer.from(payload));
    } else if (isFirst || remembers) {
      this.forget();
      this.#options.listener.committed();
    }
  }

  /** No other attempt will go on from here, and nothing is held back: call it at the end, whatever that is. */
  forget(): void {
    this.#options.deliveredClaim.end();
    this.#options.heldBack.end();
    this.#held = [];
    this.#delivered = undefined;
  }
}

/** Server-sent events end in an empty line. */
function eventsIn(payload: Buffer): number {
  let count = 0;
  for (let at = payload.indexOf(eventEnd); at >= 0; at = payload.indexOf(eventEnd, at + eventEnd.length)) count++;
  return count;
}
