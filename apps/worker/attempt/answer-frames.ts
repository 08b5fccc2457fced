/**
 * Writes an answer to its owner as frames: a head, data as the relay's window allows, and an end or
 * a failure.
 */
import {
  type AnswerEnd,
  type AnswerFailure,
  type AnswerHead,
  dataBytesMax,
  encodeData,
  encodePayload,
} from "#relay/job.ts";
import { joined } from "#wire/joined.ts";
import { gatherBytesMax } from "../bounds.ts";
import type { StreamPace } from "../upstream/stream-pace.ts";
import type { AnsweringCall, SendFrame, UsageReports } from "./usage-reports.ts";

export class AnswerFrames {
  readonly #send: SendFrame;
  readonly #reports: UsageReports;
  readonly #pace: StreamPace | undefined;
  /**
   * Bytes that wait for the window, each of at most one frame; bounded by one read of the upstream.
   */
  readonly #queued: Buffer[] = [];
  /** Bytes that wait for more; `flush` is called soon unless there are none. */
  #gathered: Buffer[] = [];
  #gatheredBytes = 0;
  /**
   * When data came last while the process was busy and nothing had gathered, by the clock of the
   * pace.
   */
  #cameAt = Number.NEGATIVE_INFINITY;
  /** Waits until the queued bytes are sent. */
  #end: AnswerEnd | undefined;
  #call: AnsweringCall | undefined;
  #isOpen = true;
  #hasHead: boolean;

  /**
   * `hasHead`: the caller has the head already, from an attempt whose worker was lost. Without a
   * `pace` every chunk leaves at once.
   */
  constructor(
    send: SendFrame,
    reports: UsageReports,
    { hasHead, pace }: { hasHead: boolean; pace: StreamPace | undefined },
  ) {
    this.#send = send;
    this.#reports = reports;
    this.#hasHead = hasHead;
    this.#pace = pace;
  }

  /** The caller has the head, and perhaps more. */
  get hasHead(): boolean {
    return this.#hasHead;
  }

  /** No more of the answer can be sent now, so the upstream should not be read. */
  get isBlocked(): boolean {
    return !this.#isOpen || this.#queued.length > 0;
  }

  head(head: AnswerHead): void {
    if (this.#hasHead) return;
    this.#hasHead = true;
    this.#send("head", encodePayload(head));
  }

  /** `call` is undefined for an answer without an upstream. */
  data(bytes: readonly Buffer[], call: AnsweringCall | undefined): void {
    this.#call = call;
    if (this.#gathered.length > 0 || this.#comesEarly()) this.#gather(bytes);
    else this.#queue(bytes);
  }

  /** Sends what has gathered. */
  flush(): void {
    if (this.#gathered.length === 0) return;
    const gathered = this.#gathered;
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#queue(gathered);
  }

  end(end: AnswerEnd): void {
    this.flush();
    this.#end = end;
    this.#drain();
  }

  /** Sends everything produced before the failure first, regardless of the window. */
  fail(failure: AnswerFailure): void {
    this.flush();
    for (const bytes of this.#queued.splice(0)) this.#sendData(bytes);
    this.#send("fail", encodePayload(failure));
  }

  /** Forgets what is not sent yet. */
  discard(): void {
    this.#gathered = [];
    this.#gatheredBytes = 0;
    this.#queued.length = 0;
    this.#end = undefined;
  }

  /** The window opens or closes. */
  setOpen(isOpen: boolean): void {
    this.#isOpen = isOpen;
    if (isOpen) this.#drain();
  }

  /**
   * Notes the data that comes now. True if the process is busy and other data came a moment ago:
   * not all connections are read at the pace.
   */
  #comesEarly(): boolean {
    if (this.#pace === undefined || this.#pace.intervalMs === 0) return false;
    const before = this.#cameAt;
    this.#cameAt = this.#pace.now();
    return this.#cameAt - before < this.#pace.intervalMs / 2;
  }

  #gather(bytes: readonly Buffer[]): void {
    const size = bytes.reduce((sum, { length }) => sum + length, 0);
    // Gathering divides no chunk that fits into a frame: an answer whose worker is lost can only be
    // resumed, or end with an error, between two events.
    if (this.#gatheredBytes + size > dataBytesMax) this.flush();
    if (this.#gathered.length === 0) this.#pace?.later(() => this.flush());
    this.#gathered.push(...bytes);
    this.#gatheredBytes += size;
    if (this.#gatheredBytes >= gatherBytesMax) this.flush();
  }

  #queue(bytes: readonly Buffer[]): void {
    const all = joined(bytes);
    if (all.length > 0 && all.length <= dataBytesMax) this.#queued.push(all);
    else
      for (let from = 0; from < all.length; from += dataBytesMax)
        this.#queued.push(all.subarray(from, from + dataBytesMax));
    this.#drain();
  }

  #drain(): void {
    while (this.#isOpen && this.#queued.length > 0) this.#sendData(this.#queued.shift() as Buffer);
    if (this.#end === undefined || this.#queued.length > 0) return;
    const end = this.#end;
    this.#end = undefined;
    this.#send("end", encodePayload(end));
  }

  #sendData(bytes: Buffer): void {
    const outputTokens = this.#call?.produced?.outputTokens ?? 0;
    this.#reports.sentWithData(outputTokens);
    this.#send("data", encodeData(outputTokens, bytes));
  }
}
