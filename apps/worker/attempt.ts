/**
 * One attempt of a generation in a worker, from its job to its last byte:
 *
 *     begin ─▶ body ─▶ a target ─▶ request ─▶ upstream ─▶ head … data ─▶ end | fail
 *                         ▲                        │
 *                         └──── before content ────┘
 *
 * The relay says when it begins, when it must stop, and whether its window has room.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Catalogue, UpstreamTimeouts } from "#catalogue/catalogue.ts";
import type { Failure } from "#dialects/errors.ts";
import { Refusal } from "#dialects/field-support.ts";
import { parseJson } from "#dialects/json.ts";
import type { ResumedAnswer } from "#dialects/resumed.ts";
import { bytesPerToken, plainUsageOf, type Usage } from "#dialects/usage.ts";
import {
  type AnswerProgress,
  dataBytesMax,
  encodeData,
  encodePayload,
  type GenerationJob,
  upstreamRequestIdHeader,
} from "#relay/job.ts";
import type { AnswerKind } from "#relay/owner.ts";
import type { JobSlot } from "#relay/ports.ts";
import type { Outcome, Run } from "#relay/runner.ts";
import { type AnswerReader, type AnswerStep, type FailedStep, isAnswerStatus, readerOf } from "./answer.ts";
import type { Exchange, Exchanged, OwnAnswer } from "./exchange.ts";
import type { WorkerMetrics } from "./metrics.ts";
import { exchangeOf } from "./operations.ts";
import { Preparation, type PreparationThread } from "./preparation.ts";
import type { RequestAttachments } from "./request-attachments.ts";
import { classifyFailure, outcomeOf, RetryState } from "./retry-state.ts";
import { type Candidate, candidatesOf } from "./route.ts";
import type { CallOutcome, Permit, Routing } from "./routing.ts";
import { type UpstreamCall, type UpstreamHeaders, type Upstreams, upstreamRequestIdOf } from "./upstream.ts";

/** How long an answer that lacks only its terminator is waited for, the body of an error answer, and how long an answer that is ended may keep its connection. */
const lingerMs = 2_000;

/** Bytes of a request in which an upstream's words are looked for. */
const searchedBytesMax = 1 << 20;
const openBrace = 0x7b;
/** White space before an answer, at most: more is taken for the answer itself, and bounded as that is. */
const leadingBytesMax = 1 << 20;

const unprocessed: Failure = { code: "internal", message: "The gateway failed to process this request." };

export interface AttemptDeps {
  catalogue(): Catalogue;
  upstreams: Upstreams;
  routing: Routing;
  /** For a request of this key. */
  attachmentsFor(keyId: string): RequestAttachments;
  preparationThread: PreparationThread;
  metrics: WorkerMetrics;
  /** A call of an upstream failed, whatever becomes of the generation. `reason` is the upstream's, without secrets and addresses. */
  callFailed(generation: Attempt, call: FailedCall): void;
  /** The body of a job that carries none; null when it is gone. */
  readBody(generation: string): Promise<Buffer | null>;
  send(held: Run<Attempt>, kind: AnswerKind, payload: Buffer): void;
}

interface FailedCall {
  /** The upstream and its name of the model. */
  target: string;
  /** The name of the credential. */
  credential: string | undefined;
  failure: Failure;
  reason: string | undefined;
}

type Phase = "waiting" | "preparing" | "head" | "content" | "ended";

export class Attempt {
  readonly job: GenerationJob;
  readonly slot: JobSlot;
  /** Undefined until it has begun. */
  #run: Run<Attempt> | undefined;
  /** The failure that ended it, if one did. */
  failure: Failure | undefined;
  /** What went wrong in our own code, if anything did; for the log alone. */
  cause: unknown;
  upstream: string | undefined;
  /** The model that answers: the one that was asked for, or a fallback. */
  model: string;
  /** What the upstream did, for the operator's log: no content. */
  readonly diagnosis: { status?: number; requestId?: string; cause?: string; malformedEvents?: number } = {};
  /** How it counts; undefined as long as nobody settled it. */
  settled: Outcome | undefined;
  readonly #deps: AttemptDeps;
  #phase: Phase = "waiting";
  #call: UpstreamCall | undefined;
  #reader: AnswerReader | undefined;
  /** Bytes of white space before the answer. */
  #leadingBytes = 0;
  /** Makes the reader; set when the answer's head arrives. */
  #begin: ((firstByte: number | undefined) => AnswerReader) | undefined;
  #timeouts: UpstreamTimeouts | undefined;
  #body: Buffer | undefined;
  #retryState: RetryState | undefined;
  /** The keys of targets whose failure was counted. */
  readonly #countedAt = new Set<string>();
  /** What was delivered, if another target may go on from it. */
  #resumed: ResumedAnswer | undefined;
  /** The call under way, and its number: what an earlier call still says is not heard. */
  #current: { candidate: Candidate; permit: Permit; retryAfterMs: number | undefined; isProven: boolean } | undefined;
  #turn = 0;
  #streams = false;
  #contentType = "";
  /** What the caller is told beside the body. */
  #headers: Record<string, string> = {};
  #open = true;
  /** Bytes that the window had no room for, in pieces of at most one frame. */
  #pending: Buffer[] = [];
  #endPending = false;
  /** The caller has the head, from this attempt or one that was lost. */
  #headSent: boolean;
  /** What the owner was told last of what was produced; undefined for nothing. */
  #notified: AnswerProgress | undefined;
  /** Ends a call whose answer is complete while its upstream holds the line. */
  #hangUp: NodeJS.Timeout | undefined;
  /** When the first call began. */
  #startedAt: number | undefined;
  #calledAt = 0;
  #progressedAt = 0;
  /** When all of the answer was seen to be there but its terminator. */
  #finishedAt: number | undefined;
  /** When the head of an error answer arrived. */
  #errorHeadAt: number | undefined;
  /** Ends what is prepared and fetched for the request before its upstream is called. */
  readonly #preparing = new AbortController();
  readonly #preparation: Preparation;
  readonly #attachments: RequestAttachments;

  constructor(slot: JobSlot, deps: AttemptDeps) {
    this.job = slot.job;
    this.model = slot.job.model;
    this.slot = slot;
    this.#headSent = slot.job.delivered !== undefined;
    this.#deps = deps;
    this.#attachments = deps.attachmentsFor(slot.job.keyId);
    this.#preparation = new Preparation(deps.preparationThread, slot.job.keyId);
  }

  get usage(): Usage | undefined {
    return this.#reader?.usage;
  }

  /** About what was produced of a stream that its caller left before its upstream counted anything; undefined for nothing. */
  get producedUsage(): Usage | undefined {
    const { outputTokens = 0 } = this.#reader?.produced ?? {};
    return outputTokens === 0
      ? undefined
      : plainUsageOf(Math.ceil((this.#body?.length ?? 0) / bytesPerToken), outputTokens);
  }

  /** Never throws: a fault of ours fails the generation, and is kept as its cause. */
  async begin(held: Run<Attempt>): Promise<void> {
    this.#run = held;
    if (this.#phase !== "waiting") return;
    try {
      await this.#prepare();
    } catch (error) {
      this.#crash(error);
    }
  }

  /** Runs a callback. A fault of ours in it ends the generation at once, instead of leaving its caller waiting. */
  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#crash(error);
    }
  }

  /** An answer that was delivered in full stays as it is: the relay takes nothing after its end. */
  #crash(error: unknown): void {
    this.cause ??= error;
    this.#endPending = false;
    this.#pending = [];
    this.#fail(unprocessed);
  }

  async #prepare(): Promise<void> {
    this.#phase = "preparing";
    const catalogue = this.#deps.catalogue();
    const model = catalogue.modelFor(this.job.group, this.job.model);
    const candidates =
      model === undefined ? [] : candidatesOf(catalogue, this.job.group, model, this.job.fallbacks ?? [], Math.random);
    if (model === undefined || candidates.length === 0)
      return this.#fail({
        code: "unavailable",
        message: "The model of this request is being added or removed; try again in a moment.",
        retryAfterSeconds: 1,
      });
    let body: Buffer | null;
    try {
      body = this.job.body === null ? await this.#deps.readBody(this.job.generation) : Buffer.from(this.job.body);
    } catch {
      body = null;
    }
    if (this.#isOver()) return;
    if (body === null)
      return this.#fail({
        code: "unavailable",
        message: "The request was lost before it could be answered; send it again.",
      });
    this.#body = body;
    this.#retryState = new RetryState(candidates, performance.now(), Math.random);
    await this.#tryNext(this.#retryState, body);
  }

  /** Calls the next target that can be called, and waits for it if that is worth while. */
  async #tryNext(retryState: RetryState, body: Buffer): Promise<void> {
    this.#phase = "preparing";
    for (;;) {
      const ready = retryState.ready(performance.now());
      for (const candidate of ready) {
        const exchange = await this.#exchangeWith(candidate, body);
        if (this.#isOver()) return;
        if (exchange.kind === "answered") return this.#answer(exchange);
        if (exchange.kind === "refused") {
          retryState.unsuitable(candidate, exchange.failure);
          continue;
        }
        const permission = await this.#deps.routing.permit(
          candidate,
          `${this.job.generation}-${this.job.attempt}-${retryState.calls}`,
        );
        if (permission.kind === "blocked") {
          retryState.blocked(candidate, permission.by, Math.max(1, permission.forMs), performance.now());
          continue;
        }
        if (this.#isOver()) return permission.leave(undefined);
        retryState.began(candidate);
        return this.#request(candidate, permission, exchange);
      }
      if (ready.length > 0) continue;
      const waitMs = retryState.waitMs(performance.now());
      if (waitMs === undefined) return this.#fail(retryState.failure);
      await sleep(waitMs, undefined, { signal: this.#preparing.signal }).catch(() => undefined);
      if (this.#isOver()) return;
    }
  }

  async #exchangeWith({ model, target, upstream }: Candidate, body: Buffer): Promise<Exchanged> {
    const resumed = this.#headSent ? this.#resumed : undefined;
    const { signal } = this.#preparing;
    const common = {
      job: this.job,
      body,
      preparation: this.#preparation,
      attachments: this.#attachments,
      resumed,
      signal,
    };
    try {
      return await exchangeOf({ ...common, model, upstream, name: target.model });
    } catch (error) {
      if (signal.aborted) return { kind: "refused", failure: unprocessed };
      if (!(error instanceof Refusal)) throw error;
      return { kind: "refused", failure: { code: "invalid_request", message: error.message, param: error.param } };
    }
  }

  /** Stops at once; nothing more is sent. */
  abort(): void {
    this.#phase = "ended";
    this.#pending = [];
    this.#preparing.abort();
    this.#call?.abort();
    this.#leave(undefined);
    this.#attachments.release();
  }

  /** The relay's window has room, or none. */
  flow(open: boolean): void {
    this.#guarded(() => {
      this.#open = open;
      if (open) {
        this.#progressedAt = performance.now();
        this.#drain();
      }
      this.#call?.flow(this.#open && this.#pending.length === 0);
    });
  }

  /** Enforces the time timeouts; call it a few times a second. `now` is that of performance.now(). */
  watch(now: number): void {
    const timeouts = this.#timeouts;
    if (
      timeouts === undefined ||
      this.#current === undefined ||
      this.#isOver() ||
      !this.#open ||
      this.#pending.length > 0
    )
      return;
    this.#guarded(() => {
      if ((this.#reader?.produced?.outputTokens ?? 0) > (this.#notified?.outputTokens ?? 0)) this.#tell();
      if (!this.#reader?.settled) this.#finishedAt = undefined;
      else this.#finishedAt ??= now;
      if (this.#finishedAt !== undefined && now - this.#finishedAt > lingerMs)
        return this.#step((this.#reader as AnswerReader).end());
      if (this.#errorHeadAt !== undefined && now - this.#errorHeadAt > lingerMs)
        return this.#step(this.#readerFor(undefined).end());
      const overdue = this.#overdueAt(timeouts, now);
      if (overdue !== undefined) this.#timeOut(overdue);
    });
  }

  /** What the upstream did not do in time, if anything. Bytes without content keep nothing alive beyond `firstContentTimeoutMs`. */
  #overdueAt(timeouts: UpstreamTimeouts, now: number): string | undefined {
    const quietMs = now - this.#progressedAt;
    if (this.#isOutOfTime(timeouts, now)) return "did not complete its answer in time";
    if (this.#reader?.begun) return quietMs > timeouts.betweenTokensTimeoutMs ? "fell silent" : undefined;
    const isLate = now - this.#calledAt > timeouts.firstContentTimeoutMs;
    // Nobody hears of an answer that does not stream before it is complete, so giving it up is of use only where another target is left.
    if (!this.#streams) return isLate && this.#isReplaceable ? "did not begin to answer in time" : undefined;
    if (isLate) return "did not begin to answer in time";
    if (this.#phase === "head")
      return now - this.#calledAt > timeouts.firstByteTimeoutMs ? "did not begin to answer in time" : undefined;
    return quietMs > timeouts.firstTokenTimeoutMs ? "fell silent" : undefined;
  }

  /** Another target could be asked in place of the current one. */
  get #isReplaceable(): boolean {
    return this.#current !== undefined && this.#retryState?.hasOther(this.#current.candidate) === true;
  }

  /** Answers without an upstream. */
  #answer({ body, contentType, headers }: OwnAnswer): void {
    this.#contentType = contentType;
    this.#headers = headers;
    this.#phase = "ended";
    this.#endPending = true;
    this.#attachments.release();
    this.#write([body]);
  }

  #request(candidate: Candidate, permit: Permit, { request, reading, unlessThere, resumed }: Exchange): void {
    this.#resumed = resumed;
    const turn = ++this.#turn;
    const current = { candidate, permit, retryAfterMs: undefined as number | undefined, isProven: false };
    this.#current = current;
    this.#phase = "head";
    this.#reader = undefined;
    this.#begin = undefined;
    this.#finishedAt = undefined;
    this.#errorHeadAt = undefined;
    this.#leadingBytes = 0;
    this.upstream = candidate.upstream.name;
    this.model = candidate.model.id;
    delete this.diagnosis.status;
    delete this.diagnosis.requestId;
    this.#timeouts = candidate.timeouts;
    this.#streams = reading.streams;
    this.#contentType = reading.contentType;
    this.#headers = reading.headers ?? {};
    this.#calledAt = performance.now();
    this.#startedAt ??= this.#calledAt;
    this.#progressedAt = this.#calledAt;
    this.#deps.metrics.upstreamCalls.inc({ upstream: candidate.upstream.name, again: turn > 1 ? "yes" : "no" });
    const whileCurrent = (act: () => void) => {
      if (!this.#isOver() && turn === this.#turn) this.#guarded(act);
    };
    this.#call = this.#deps.upstreams.call(candidate.upstream, permit.credential, request, {
      head: (status, headers) =>
        whileCurrent(() => {
          this.#headArrived(status, headers);
          if (unlessThere !== undefined && [404, 405, 501].includes(status)) this.#answerInstead(unlessThere);
          else
            this.#begin = (firstByte) => readerOf(status, headers, reading, firstByte, (text) => this.#isQuoted(text));
        }),
      data: (chunk) => whileCurrent(() => this.#read(chunk)),
      end: () => {
        whileCurrent(() => this.#step(this.#readerFor(undefined).end()));
        clearTimeout(this.#hangUp);
      },
      failed: (failure, cause) => {
        whileCurrent(() => {
          if (this.#reader?.settled) return this.#step(this.#reader.end());
          this.diagnosis.cause = cause;
          this.#callFailed(failure);
        });
        clearTimeout(this.#hangUp);
      },
    });
    if (!this.#open) this.#call.flow(false);
  }

  #headArrived(status: number, headers: UpstreamHeaders): void {
    this.#phase = "content";
    this.#progressedAt = performance.now();
    this.diagnosis.status = status;
    this.#errorHeadAt = isAnswerStatus(status) ? undefined : this.#progressedAt;
    if (status >= 300 && status < 400) this.diagnosis.cause = "redirect";
    const requestId = upstreamRequestIdOf(headers);
    if (requestId !== undefined) this.diagnosis.requestId = requestId;
    if (this.#streams && this.#errorHeadAt === undefined) this.#tell();
  }

  /** The upstream has no such endpoint. */
  #answerInstead(make: () => Promise<OwnAnswer>): void {
    this.#call?.abort();
    this.#leave("answered");
    make().then(
      (answer) => this.#isOver() || this.#guarded(() => this.#answer(answer)),
      (error: unknown) => this.#crash(error),
    );
  }

  /**
   * White space before the answer is a sign of life without content, which some servers send while they think. It stays before JSON that begins in the same
   * chunk, for such an answer is relayed byte for byte; before an event it would hide the name of a field.
   */
  #read(chunk: Buffer): void {
    if (this.#reader !== undefined) {
      this.#step(this.#reader.push(chunk));
      return;
    }
    const from = chunk.findIndex((byte) => byte > 0x20);
    this.#leadingBytes += chunk.length;
    if (from < 0 && this.#leadingBytes <= leadingBytesMax) this.#progressedAt = performance.now();
    else
      this.#step(
        this.#readerFor(chunk[from]).push(chunk[from] === openBrace || from <= 0 ? chunk : chunk.subarray(from)),
      );
  }

  /** Does a text in lower case stand in the caller's request? True for requests that are too large to be looked through. */
  #isQuoted(text: string): boolean {
    const body = this.#body;
    if (body === undefined || body.length > searchedBytesMax) return true;
    let said = body.toString("utf8");
    try {
      // Without the escapes that a caller may have written.
      said = JSON.stringify(parseJson(body));
    } catch {}
    return said.replaceAll("%20", " ").toLowerCase().includes(JSON.stringify(text).slice(1, -1));
  }

  /** The reader of the current answer, which is made with its first byte. */
  #readerFor(firstByte: number | undefined): AnswerReader {
    if (this.#reader === undefined) this.#reader = this.#begin?.(firstByte);
    if (this.#reader === undefined) throw new Error("an answer without a head");
    return this.#reader;
  }

  /** The call under way is over; `outcome` is what it says of its target, if anything. */
  #leave(outcome: CallOutcome | undefined): void {
    const current = this.#current;
    if (current === undefined) return;
    this.#current = undefined;
    current.permit.leave(outcome);
    const isKnown = outcome === "answered" && current.isProven;
    if (outcome === undefined || isKnown || this.#hasCounted(outcome, current.candidate.key)) return;
    this.#deps.routing.ended(current.candidate, current.permit, outcome, current.retryAfterMs);
  }

  /** The retries of one request count as one failure of a target: else one request that no target can answer would block it for all. */
  #hasCounted(outcome: CallOutcome, key: string): boolean {
    if (outcome !== "transient") return false;
    if (this.#countedAt.has(key)) return true;
    this.#countedAt.add(key);
    return false;
  }

  /** Before content the next target may be asked unseen; after it, the failure is the caller's to know. */
  #callFailed(
    failure: Failure,
    { retryAfterSeconds, reason }: Pick<FailedStep, "retryAfterSeconds" | "reason"> = {},
  ): void {
    const current = this.#current;
    const { status } = this.diagnosis;
    const failureClass = classifyFailure(failure, status);
    const retryAfterMs = retryAfterSeconds === undefined ? undefined : Math.max(0, retryAfterSeconds * 1_000);
    if (current !== undefined)
      this.#deps.callFailed(this, {
        target: current.candidate.key,
        credential: current.permit.credential,
        failure,
        reason,
      });
    if (current !== undefined) current.retryAfterMs = retryAfterMs;
    this.#deps.metrics.upstreamErrors.inc({
      upstream: this.upstream as string,
      code: failure.code,
      status: status ?? "none",
    });
    this.#call?.abort();
    this.#leave(outcomeOf(failureClass));
    const retryState = this.#retryState;
    const body = this.#body;
    const mayHaveBegun =
      this.job.operation.startsWith("image") &&
      (failureClass === "silent" || (failureClass === "transient" && status === undefined));
    if (
      current === undefined ||
      retryState === undefined ||
      body === undefined ||
      (this.#headSent && this.#resumed?.canResume !== true) ||
      mayHaveBegun ||
      this.#isOutOfTime(current.candidate.timeouts, performance.now()) ||
      !retryState.failed(current.candidate, failureClass, failure, retryAfterMs, performance.now())
    ) {
      this.#fail(failure);
      return;
    }
    this.#turn++;
    this.#untell();
    this.#tryNext(retryState, body).catch((error: unknown) => this.#crash(error));
  }

  #step(step: AnswerStep): void {
    if (step.kind === "late") {
      this.#stepLater(step.step);
      return;
    }
    this.#measure();
    if (step.kind !== "failed") this.#prove();
    if (step.bytes.length > 0) this.#write(step.bytes);
    const malformedEvents = this.#reader?.malformedEvents ?? 0;
    if (malformedEvents > 0) this.diagnosis.malformedEvents = malformedEvents;
    if (step.kind === "failed") {
      this.diagnosis.cause ??= isAnswerStatus(this.diagnosis.status ?? 0) ? "bad answer" : "bad status";
      this.#callFailed(step.failure, step);
    } else if (step.kind === "end") {
      this.#endPending = true;
      this.#phase = "ended";
      this.#leave("answered");
      const call = this.#call;
      this.#hangUp = setTimeout(() => call?.abort(), lingerMs);
      this.#attachments.release();
      this.#drain();
    }
  }

  /** While a large answer is read, its upstream can no longer be late. */
  #stepLater(later: Promise<AnswerStep>): void {
    const turn = this.#turn;
    this.#timeouts = undefined;
    later.then(
      (step) => {
        if (!this.#isOver() && turn === this.#turn) this.#guarded(() => this.#step(step));
      },
      (error: unknown) => {
        if (!this.#isOver()) this.#crash(error);
      },
    );
  }

  /** The first content proves the target to all who wait for it; the answer may go on for minutes. */
  #prove(): void {
    const current = this.#current;
    if (current === undefined || current.isProven || this.#reader?.begun !== true) return;
    current.isProven = true;
    this.#preparation.forget();
    this.#deps.routing.ended(current.candidate, current.permit, "answered", undefined);
  }

  #measure(): void {
    const now = performance.now();
    const { firstToken, tokenGap } = this.#deps.metrics;
    const labels = { upstream: this.upstream as string };
    if (this.#headSent) tokenGap.observe(labels, (now - this.#progressedAt) / 1_000);
    else if (this.#reader?.committed) firstToken.observe(labels, (now - this.#calledAt) / 1_000);
    this.#progressedAt = now;
  }

  /** The caller's ingress learns what was produced, for it bills a caller who leaves. Other operations than answers are billed by what they reserved. */
  #tell(): void {
    if (this.job.operation !== "answer") return;
    const { outputTokens = 0, reasoningTokens = 0, reported } = this.#reader?.produced ?? {};
    this.#notified = { model: this.model, outputTokens, reasoningTokens, ...(reported !== undefined && { reported }) };
    this.#send("usage", encodePayload(this.#notified));
  }

  /** What a call produced that failed before its content is nobody's to pay. */
  #untell(): void {
    if (this.#notified === undefined || this.#headSent) return;
    this.#notified = undefined;
    this.#send("usage", encodePayload(null));
  }

  /** The upstream has counted another input than it had when the owner was told. */
  get #hasNewInput(): boolean {
    const { reported } = this.#reader?.produced ?? {};
    const { reported: told } = this.#notified ?? {};
    return (
      reported !== undefined &&
      (["inputTokens", "cachedInputTokens", "cacheWriteTokens"] as const).some(
        (name) => reported[name] !== told?.[name],
      )
    );
  }

  #write(bytes: Buffer[]): void {
    if (this.#hasNewInput) this.#tell();
    if (!this.#headSent) {
      this.#headSent = true;
      const answerId = this.#reader?.answerId;
      const { requestId } = this.diagnosis;
      const headers = {
        "content-type": this.#contentType,
        ...this.#headers,
        ...(requestId !== undefined && { [upstreamRequestIdHeader]: requestId }),
      };
      this.#send("head", encodePayload({ status: 200, headers, ...(answerId !== undefined && { answerId }) }));
    }
    const whole = bytes.length === 1 ? (bytes[0] as Buffer) : Buffer.concat(bytes);
    for (let from = 0; from < whole.length; from += dataBytesMax)
      this.#pending.push(whole.subarray(from, from + dataBytesMax));
    this.#drain();
    if (this.#pending.length > 0) this.#call?.flow(false);
  }

  #drain(): void {
    while (this.#open && this.#pending.length > 0) this.#sendData(this.#pending.shift() as Buffer);
    if (this.#endPending && this.#pending.length === 0) {
      this.#endPending = false;
      this.#send("end", encodePayload({ usage: this.usage ?? null, model: this.model }));
    }
  }

  /** All of the targets together have as long as the one that is asked. */
  #isOutOfTime({ totalTimeoutMs }: UpstreamTimeouts, now: number): boolean {
    return now - (this.#startedAt ?? now) > totalTimeoutMs;
  }

  #timeOut(what: string): void {
    this.diagnosis.cause = what;
    this.#callFailed({ code: "upstream_timeout", message: `The upstream of this model ${what}.` });
  }

  /** What was produced before goes out first, whatever the window says: it is bounded by one read of the upstream. */
  #fail(failure: Failure): void {
    const { requestId: upstreamRequestId } = this.diagnosis;
    this.failure = failure;
    for (const bytes of this.#pending.splice(0)) this.#sendData(bytes);
    this.#send("fail", encodePayload({ ...failure, ...(upstreamRequestId !== undefined && { upstreamRequestId }) }));
    this.#phase = "ended";
    this.#call?.abort();
    this.#leave(undefined);
    this.#attachments.release();
  }

  #sendData(bytes: Buffer): void {
    const { outputTokens = 0 } = this.#reader?.produced ?? {};
    if (this.#notified !== undefined) this.#notified.outputTokens = outputTokens;
    this.#send("data", encodeData(outputTokens, bytes));
  }

  #send(kind: AnswerKind, payload: Buffer): void {
    if (this.#run !== undefined) this.#deps.send(this.#run, kind, payload);
  }

  #isOver(): boolean {
    return this.#phase === "ended";
  }
}
