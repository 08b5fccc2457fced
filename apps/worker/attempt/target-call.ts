/**
 * One call of one target: the connection, the progress of the answer, and its times. It only reads;
 * the attempt decides.
 */

import { spokenWith, type UpstreamTimeouts } from "#catalogue/catalogue.ts";
import type { RelayedText } from "#dialects/neutral/continuation.ts";
import type { Finish } from "#dialects/neutral/neutral.ts";
import type { ProducedCounts } from "#dialects/neutral/produced.ts";
import type { Usage } from "#dialects/usage.ts";
import type { AttemptInfo, CallDiagnosis, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { AnswerSource, CallRecord } from "#relay/job.ts";
import type { MessagePartKind } from "#relay/session-messages.ts";
import { childOf } from "#tracing/trace-context.ts";
import { readerOf, type UpstreamHead } from "../answer/answer.ts";
import { type AnswerReader, type AnswerStep, isAnswerStatus } from "../answer/answer-reader.ts";
import { leadingBytesMax, lingerMs } from "../bounds.ts";
import type { Exchange } from "../preparation/exchange.ts";
import type { FailureClass } from "../routing/retry-state.ts";
import type { Candidate } from "../routing/route.ts";
import type { Permit } from "../routing/routing.ts";
import type { UpstreamCall } from "../upstream/pooled-call.ts";
import { upstreamRequestIdOf } from "../upstream/upstreams.ts";
import type { CallProgress } from "./timeouts.ts";
import type { AnsweringCall } from "./usage-reports.ts";

const openBrace = 0x7b;

interface CallOptions {
  candidate: Candidate;
  permit: Permit;
  affinity: CallInfo["affinity"];
  exchange: Exchange;
  attempt: AttemptInfo;
  /** Counted from 1. */
  number: number;
  /** The caller has a part of the answer already. */
  resumes: boolean;
  isQuoted(text: string): boolean;
  /** The answer comes from a batch of the vendor: it says nothing about the target now. */
  isReplayed: boolean;
  /** The calls before it, if any of them failed. */
  earlier: readonly CallRecord[] | undefined;
  now: number;
}

export class TargetCall implements CallProgress, AnsweringCall {
  readonly candidate: Candidate;
  readonly permit: Permit;
  readonly exchange: Exchange;
  readonly info: CallInfo;
  readonly isReplayed: boolean;
  readonly diagnosis: CallDiagnosis = {};
  /** The event of every chunk, which is one object because chunks are frequent. */
  readonly chunk: WorkerEvents["chunk"];
  readonly startedAt: number;
  progressedAt: number;
  contentAt: number;
  /** When the upstream accepts requests again, as it reports itself. */
  retryAfterMs: number | undefined;
  /** Undefined until the upstream is called. */
  connection: UpstreamCall | undefined;
  /** The target is marked as working. */
  isProven = false;
  /** The first content that the caller gets was seen. */
  isAnswering = false;
  /**
   * A large whole answer is being read in a thread: the upstream is done and can no longer be late.
   */
  isReadingWhole = false;
  /** The call is complete, failed or given up. Nothing more is read. */
  isOver = false;
  readonly #isQuoted: (text: string) => boolean;
  readonly #earlier: readonly CallRecord[] | undefined;
  #head: UpstreamHead | undefined;
  #reader: AnswerReader | undefined;
  #leadingBytes = 0;
  /** The reader's count at `contentAt`. */
  #parts = 0;
  #hadContent = false;
  /** When the head of an error response arrived. */
  #errorHeadAt: number | undefined;
  /** When the answer was known to be whole except its terminator. */
  #settledAt: number | undefined;
  #hangUp: NodeJS.Timeout | undefined;
  #isConnectionOver = false;

  constructor({ candidate, permit, affinity, exchange, attempt, number, ...options }: CallOptions) {
    const { resumes, isQuoted, isReplayed, earlier, now } = options;
    this.candidate = candidate;
    this.permit = permit;
    this.exchange = exchange;
    this.isReplayed = isReplayed;
    this.info = {
      number,
      upstream: candidate.upstream.name,
      target: candidate.name,
      targetModel: candidate.target.model,
      model: candidate.model.id,
      credential: permit.credential,
      affinity,
      resumes,
      trace: attempt.trace && childOf(attempt.trace),
    };
    this.chunk = { attempt, call: this.info, gapMs: 0 };
    this.startedAt = now;
    this.progressedAt = now;
    this.contentAt = now;
    this.#isQuoted = isQuoted;
    this.#earlier = earlier;
  }

  get model(): string {
    return this.info.model;
  }

  get source(): AnswerSource {
    const { candidate, info, chunk } = this;
    const { attempt } = chunk;
    const { upstream, target } = candidate;
    const source: AnswerSource = {
      upstream: upstream.name,
      target: target.model,
      dialect: this.exchange.spoken ?? spokenWith(upstream, attempt.dialect),
      calls: info.number,
    };
    if (this.#earlier !== undefined) source.callLog = this.#earlier;
    return source;
  }

  get timeouts(): UpstreamTimeouts {
    return this.candidate.timeouts;
  }

  get isSession(): boolean {
    return this.exchange.reading.raw?.kind === "session";
  }

  get streams(): boolean {
    return this.exchange.reading.streams;
  }

  /**
   * A call that goes on with an answer has a request of the gateway's own making, so a refusal is
   * never the caller's fault.
   */
  classOf(failureClass: FailureClass): FailureClass {
    return this.info.resumes && (failureClass === "caller" || failureClass === "context") ? "unclear" : failureClass;
  }

  /**
   * For the caller's response. Without a readable one from the upstream, that of arbitrary bytes:
   * https://www.rfc-editor.org/rfc/rfc9110#section-8.3
   */
  get contentType(): string {
    const type = this.#head?.headers["content-type"];
    return (
      this.exchange.reading.contentType ??
      (typeof type === "string" && /^[\x20-\x7e]{1,200}$/.test(type) ? type : "application/octet-stream")
    );
  }

  get hasHead(): boolean {
    return this.#head !== undefined;
  }

  get hasContent(): boolean {
    return this.#reader?.begun ?? this.isCommitted;
  }

  /** Content for the caller was seen. */
  get isCommitted(): boolean {
    return this.#reader?.committed === true;
  }

  /** The answer is whole except its terminator. */
  get isSettled(): boolean {
    return this.#reader?.settled === true;
  }

  /** Bytes of the answer that are kept until more arrives. */
  get heldBytes(): number {
    return this.#reader?.bufferedBytes ?? 0;
  }

  /**
   * The caller's part of an answer of plain text that was relayed unchanged, so that another target
   * may go on with it.
   */
  get relayedText(): RelayedText | undefined {
    return this.#reader?.relayedText;
  }

  get usage(): Usage | undefined {
    return this.#reader?.usage;
  }

  get finish(): Finish | undefined {
    return this.#reader?.finish;
  }

  get produced(): ProducedCounts | undefined {
    return this.#reader?.produced;
  }

  /** The response has a status that means an error. */
  get isError(): boolean {
    return this.#errorHeadAt !== undefined;
  }

  headArrived(head: UpstreamHead, now: number): void {
    const { status, headers } = head;
    this.#head = head;
    this.progressedAt = now;
    this.diagnosis.status = status;
    if (!isAnswerStatus(status)) this.#errorHeadAt = now;
    if (status >= 300 && status < 400) this.diagnosis.cause = "redirect";
    const requestId = upstreamRequestIdOf(headers);
    if (requestId !== undefined) this.diagnosis.requestId = requestId;
  }

  /**
   * The step for a chunk. Undefined for white space before the answer, which some servers send
   * while they think: it only shows that the upstream is alive. White space before JSON in the same
   * chunk stays, because such an answer is relayed byte for byte; before an event it would hide a
   * field's name.
   */
  read(chunk: Buffer, now: number, kind?: MessagePartKind): AnswerStep | undefined {
    if (this.#reader !== undefined) return this.#counted(this.#reader.push(chunk, kind), now);
    if (this.exchange.reading.raw !== undefined)
      return this.#counted(this.#readerFrom(chunk[0]).push(chunk, kind), now);
    const from = chunk.findIndex((byte) => byte > 0x20);
    this.#leadingBytes += chunk.length;
    if (from < 0 && this.#leadingBytes <= leadingBytesMax) {
      this.progressedAt = now;
      return undefined;
    }
    const answer = chunk[from] === openBrace || from <= 0 ? chunk : chunk.subarray(from);
    return this.#counted(this.#readerFrom(chunk[from]).push(answer), now);
  }

  /** A part of the caller's message reached the upstream of a session. */
  sent(fragment: Buffer, isFirst: boolean): void {
    const { raw } = this.exchange.reading;
    if (raw?.kind === "session") raw.session.sent(fragment, isFirst);
  }

  /** The step for the end of the response. */
  end(): AnswerStep {
    return this.#counted(this.#readerFrom(undefined).end());
  }

  /** The step for an answer or an error body whose end is overdue. */
  lateEnd(now: number): AnswerStep | undefined {
    if (!this.isSettled) this.#settledAt = undefined;
    else this.#settledAt ??= now;
    const since = this.#settledAt ?? this.#errorHeadAt;
    return since !== undefined && now - since > lingerMs ? this.end() : undefined;
  }

  /** The caller reads again, so that the upstream is read again. */
  readAgain(now: number): void {
    this.progressedAt = now;
    this.contentAt = now;
  }

  flow(isOpen: boolean): void {
    this.connection?.flow(isOpen);
  }

  abort(): void {
    clearTimeout(this.#hangUp);
    this.connection?.abort();
  }

  /**
   * Gives the upstream some time to close a connection whose answer is complete, so that it can be
   * reused.
   */
  abortLater(): void {
    if (!this.#isConnectionOver) this.#hangUp = setTimeout(() => this.connection?.abort(), lingerMs);
  }

  /** The connection is free again, or closed. */
  connectionEnded(): void {
    this.#isConnectionOver = true;
    clearTimeout(this.#hangUp);
  }

  /** Creates the reader at the first byte of the answer, which distinguishes events from JSON. */
  #readerFrom(firstByte: number | undefined): AnswerReader {
    if (this.#head === undefined) throw new Error("an answer arrived without a head");
    this.#reader ??= readerOf(this.#head, this.exchange.reading, firstByte, this.#isQuoted);
    return this.#reader;
  }

  #counted(step: AnswerStep, now?: number): AnswerStep {
    const { parts = 0 } = this.#reader ?? {};
    if (now !== undefined && (parts !== this.#parts || !this.#hadContent)) {
      this.#parts = parts;
      this.#hadContent = this.hasContent;
      this.contentAt = now;
    }
    const malformedEvents = this.#reader?.malformedEvents ?? 0;
    if (malformedEvents > 0) this.diagnosis.malformedEvents = malformedEvents;
    return step;
  }
}
