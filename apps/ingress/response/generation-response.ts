/**
 * The caller's side of an answer: delays the head until there is content, keeps the connection
 * alive meanwhile, writes what the relay delivers, and reports to the relay what the socket took.
 */

import type { Framing } from "#dialects/codec.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import { emptyLines } from "#dialects/profile.ts";
import { profiles } from "#dialects/profiles.ts";
import { deliveredBytesMax } from "#relay/bounds.ts";
import type { AnswerHead } from "#relay/job.ts";
import { breakDelayMs, bufferedAnswerBytesMax } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import { failureHeadersOf } from "../server/refusals.ts";
import { type AnswerResponse, streamHeaders } from "./response.ts";

const lineFeed = 0x0a;
/** In place of a seq: the socket has taken nothing of this attempt. */
const nothingTaken = -1;
const eventEnd = Buffer.from("\n\n");

export interface AnswerListener {
  /** No further attempt can replace or resume the answer. */
  committed(): void;
  /** The caller's socket took everything up to this seq. */
  taken(seq: number): void;
}

export interface AnswerOptions {
  response: AnswerResponse;
  dialect: ConversationDialect;
  framing: Framing;
  /** The catalogue's id. */
  model: string;
  requestId: string;
  /** Sent with the answer and with an error alike. */
  headers: Record<string, string>;
  /**
   * Another attempt may resume an answer that has begun. The delivered part is kept for that, as
   * far as its key gets memory.
   */
  resumed: boolean;
  deliveredClaim: Claim;
  /** The claim on the memory for unread answers, for the buffered part. */
  bufferClaim: Claim;
  listener: AnswerListener;
}

export class GenerationResponse {
  /** The HTTP status that the caller got or will get; 0 until it is decided. */
  status = 0;
  readonly #options: AnswerOptions;
  readonly #response: AnswerResponse;
  /** The answer is events, or a growing array. */
  readonly #streams: boolean;
  readonly #headers: Record<string, string>;
  #head: AnswerHead | undefined;
  #buffered: Buffer[] = [];
  #contentSent = false;
  /** Server-sent events sent so far. */
  #events = 0;
  /** The delivered part, as long as another attempt may resume it. */
  #delivered: Buffer[] | undefined;
  /** The sent bytes end at the end of an event. */
  #betweenEvents = true;
  #lastByte: number | undefined;
  #writtenAt: number;
  #blockedAt: number | undefined;
  #over = false;

  constructor(options: AnswerOptions, now: number) {
    this.#options = options;
    this.#response = options.response;
    this.#headers = { ...options.headers };
    this.#streams = options.framing === "sse" || options.framing === "array";
    this.#writtenAt = now;
    if (options.resumed && options.framing === "sse") this.#delivered = [];
  }

  /**
   * The whole content events that the caller has, for another attempt to resume; undefined if there
   * are none.
   */
  get delivered(): string | undefined {
    return this.#contentSent && this.#delivered !== undefined
      ? Buffer.concat(this.#delivered).toString("utf8")
      : undefined;
  }

  /** The caller has some of the content. */
  get hasBegun(): boolean {
    return this.#contentSent;
  }

  /**
   * True if another attempt may replace or resume the answer. None may once the upstream accepted a
   * session, because it has the caller's input.
   */
  get mayRestart(): boolean {
    if (this.#options.framing === "messages") return this.#head === undefined;
    return !this.#contentSent || (this.#delivered !== undefined && this.#betweenEvents);
  }

  head(head: AnswerHead, seq: number): void {
    this.#head = head;
    this.passed(seq);
  }

  /** A frame without bytes for the caller counts as taken with the bytes before it. */
  passed(seq: number): void {
    if (this.#blockedAt === undefined) this.#options.listener.taken(seq);
    else this.#blockedAt = seq;
  }

  data(payload: Buffer, seq: number, now: number): void {
    if (this.#over) return;
    if (this.#options.framing !== "whole" || this.#contentSent) {
      this.#write(payload, seq, now);
      return;
    }
    this.#buffered.push(Buffer.from(payload));
    const { bufferClaim } = this.#options;
    const bufferedBytes = bufferClaim.amount + payload.length;
    if (bufferedBytes > bufferedAnswerBytesMax || bufferClaim.hold(bufferedBytes) !== undefined) {
      const buffered = Buffer.concat(this.#buffered);
      this.#dropBuffered();
      this.#write(buffered, seq, now);
    }
  }

  end(): void {
    if (this.#over) return;
    this.#over = true;
    if (this.#response.headersSent) {
      this.#response.end();
      return;
    }
    const body = Buffer.concat(this.#buffered);
    this.#sendHead({ "content-length": String(body.length) });
    this.#options.listener.committed();
    this.#response.end(body);
  }

  /** Adds headers to the answer or the error; without effect once the head was sent. */
  addHeaders(headers: Record<string, string>): void {
    Object.assign(this.#headers, headers);
  }

  /** Another attempt begins: it replaces what was not sent, and resumes what was sent. */
  restart(): void {
    if (this.#blockedAt !== undefined) this.#blockedAt = nothingTaken;
    if (this.#contentSent) return;
    this.#head = undefined;
    this.#dropBuffered();
  }

  #dropBuffered(): void {
    this.#buffered = [];
    this.#options.bufferClaim.hold(0);
  }

  /**
   * Before the head: an error response. In a stream: the dialect's error event, and no terminator.
   * In the middle of a body or of bytes: a broken connection.
   */
  fail(failure: Failure): void {
    if (this.#over) return;
    this.#over = true;
    if (!this.#response.headersSent) {
      const profile = profiles[this.#options.dialect];
      const body = profile.errorBodyOf(failure, this.#options.requestId);
      this.status = profile.statusOf(failure.code);
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
    const { errorBodyOf, errorEventOf } = profiles[dialect];
    if (framing === "array") return `${this.#contentSent ? "," : "["}${errorBodyOf(failure, requestId)}]`;
    return errorEventOf(failure, { requestId, model, events: this.#events });
  }

  #breakOff(event: string): void {
    const { dialect, framing } = this.#options;
    if (!profiles[dialect].breaksAfterError || framing === "array") this.#response.end(event);
    else this.#response.write(event, () => breakSoon(this.#response));
  }

  /** Whether a keep-alive may be sent, and nothing was sent for so long. */
  isSilent(now: number, forMs: number): boolean {
    return (
      !this.#over &&
      this.#streams &&
      this.#betweenEvents &&
      this.#blockedAt === undefined &&
      now - this.#writtenAt >= forMs
    );
  }

  /**
   * Call it about once a second. A keep-alive before the head commits to status 200: a later
   * failure becomes an event of the stream.
   */
  keepAlive(now: number, everyMs: number): void {
    if (this.isSilent(now, everyMs))
      this.#tell(
        this.#contentSent && this.#options.framing === "sse" ? profiles[this.#options.dialect].keepAlive : emptyLines,
        now,
      );
  }

  /**
   * A comment of the event stream, in the place of a keep-alive. It has no empty line, which some
   * clients take for the end of an event.
   */
  comment(text: string, now: number): void {
    if (this.isSilent(now, 0)) this.#tell(`: ${text}\n`, now);
  }

  #tell(text: string, now: number): void {
    if (!this.#response.headersSent) this.#sendHead({});
    this.#writtenAt = now;
    this.#response.write(text);
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

  /** Releases its memory. Call it at the end, whatever the outcome. */
  forget(): void {
    this.#options.deliveredClaim.end();
    this.#options.bufferClaim.end();
    this.#buffered = [];
    this.#delivered = undefined;
  }
}

/**
 * Breaks the connection of a stream whose last event was an error, so that no client takes the
 * answer for a complete one. The client has a moment to read the event, because many discard what
 * they have not read when a connection breaks.
 */
export function breakSoon(response: Pick<AnswerResponse, "destroy" | "once">): void {
  const timer = setTimeout(() => response.destroy(), breakDelayMs);
  response.once("close", () => clearTimeout(timer));
}

/** Counts server-sent events by the empty lines that end them. */
function eventsIn(payload: Buffer): number {
  let count = 0;
  for (let at = payload.indexOf(eventEnd); at >= 0; at = payload.indexOf(eventEnd, at + eventEnd.length)) count++;
  return count;
}
