/**
 * One attempt of a generation, from its job to its last byte. The file reads in that order:
 *
 *     taken ─▶ started ─▶ request read ─▶ target chosen ─▶ called ─▶ content ─▶ answered
 *                                            ▲               │          │
 *                                            ├─ failed over ─┤          │
 *                                            ╰─ resumed ─────┼──────────┤
 *                                                            ╰──────────┴─────▶ failed
 *
 * - Failed over: a call that fails before its first content is repeated, or another target is
 *   called, up to the model's `retries` (2). The caller sees nothing of it. RetryState decides by
 *   the class of the failure: an error of the caller's own is final, a refused credential or rate
 *   limit moves on to the next target, a 5xx or a broken connection is repeated after a pause or a
 *   short Retry-After.
 * - Repeated: a target that refuses something that the request can do without is called again with
 *   the repaired request (libs/dialects/repairs/repairs.ts).
 * - Resumed: a call that fails later is continued by another target, if the model allows that.
 * - Failed: no target is left, or the failure is the caller's own. The caller gets what was
 *   produced, and then the error: the last one, or where every target is blocked 429 for the
 *   credentials' rate limits, else 503.
 * - Cancelled, at any time: the caller left, the owner is gone, or the worker hands the attempt
 *   back.
 *
 * The relay starts and cancels the attempt and says when its window is full. TargetCall reads the
 * upstream, AnswerFrames writes to the owner.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { Catalogue, CatalogueUpstream } from "#catalogue/catalogue.ts";
import { type Failure, internalFailure } from "#dialects/errors.ts";
import { vertexRequestOf } from "#dialects/gemini/vertex.ts";
import { Refusal } from "#dialects/neutral/field-support.ts";
import { isFlexIn } from "#dialects/neutral/service-tier.ts";
import { tokensMaxIn } from "#dialects/neutral/tokens-max.ts";
import { betaPath, withoutFields } from "#dialects/repairs/omitted-fields.ts";
import type { Repair } from "#dialects/repairs/repairs.ts";
import { bytesPerToken, plainUsageOf, type Usage } from "#dialects/usage.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { AttemptInfo, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { GatewayAnswer } from "#operations/exchange.ts";
import { operations } from "#operations/operations.ts";
import { announcementOf } from "#operations/realtime/announcement.ts";
import { jobBodyBytesMax } from "#relay/bounds.ts";
import {
  type AnswerSource,
  type CallRecord,
  callRecordsMax,
  type GenerationJob,
  upstreamRequestIdHeader,
} from "#relay/job.ts";
import type { AnswerKind } from "#relay/owner.ts";
import type { JobSlot } from "#relay/ports.ts";
import type { AttemptEnd, Outcome, Run } from "#relay/runner.ts";
import { encodeMessage } from "#relay/session-messages.ts";
import type { Clock } from "#service/clock.ts";
import { deferredStatus } from "#service/vendor-batch.ts";
import { continued, headersOf } from "#tracing/trace-context.ts";
import type { AnswerClaim, AnswerMemory } from "../answer/answer-memory.ts";
import { type AnswerStep, type FailedStep, isAnswerStatus } from "../answer/answer-reader.ts";
import type { RequestAttachments } from "../attachments/request-attachments.ts";
import { quietMsMin, unclaimedAnswerBytesMax } from "../bounds.ts";
import { continues as continuesText, type Exchange, type Exchanged, lost } from "../preparation/exchange.ts";
import { exchangeOf } from "../preparation/operations.ts";
import { Preparation, type PreparationThread } from "../preparation/preparation.ts";
import type { RequestBodies } from "../preparation/request-bodies.ts";
import { SessionRoute, unbound } from "../routing/affinity.ts";
import type { Bindings } from "../routing/bindings.ts";
import type { ContentTimes } from "../routing/content-times.ts";
import type { LearnedRepairs } from "../routing/learned-repairs.ts";
import { classifyFailure, type FailureClass, outcomeOf, RetryState } from "../routing/retry-state.ts";
import { type Candidate, candidatesOf, drawnOrder, mirrorOf, orderWithStrategies } from "../routing/route.ts";
import type { CallOutcome, Permit, Routing } from "../routing/routing.ts";
import type { TargetMeasures } from "../routing/target-measures.ts";
import type { UpstreamHandlers, UpstreamHeaders } from "../upstream/pooled-call.ts";
import type { SessionCall } from "../upstream/session-call.ts";
import type { Upstreams } from "../upstream/upstreams.ts";
import { type VendorBatches, type VendorLine, vendorTargetOf } from "../upstream/vendor-batches.ts";
import { AnswerFrames } from "./answer-frames.ts";
import { quietMsMaxOf } from "./quiet-limit.ts";
import { isQuotedIn } from "./quoted.ts";
import { TargetCall } from "./target-call.ts";
import { TargetReports } from "./target-reports.ts";
import { isOutOfTime, overdueOf } from "./timeouts.ts";
import { type SendFrame, UsageReports } from "./usage-reports.ts";

export interface AttemptDeps {
  clock: Clock;
  events: EventSink<WorkerEvents>;
  catalogue(): Catalogue;
  upstreams: Upstreams;
  routing: Routing;
  bindings: Pick<Bindings, "placeOf" | "bind">;
  learnedRepairs: LearnedRepairs;
  contentTimes: ContentTimes;
  targetMeasures: Pick<TargetMeasures, "ranked">;
  preparationThread: PreparationThread;
  answerMemory: AnswerMemory;
  vendorBatches: Pick<VendorBatches, "defer" | "answerTo">;
  /** The attachments of one request of this key. */
  attachmentsFor(keyId: string): RequestAttachments;
  requestBodies: Pick<RequestBodies, "read">;
  send(run: Run<Attempt>, kind: AnswerKind, payload: Buffer): void;
  /** The upstream has the caller's input up to this frame. */
  taken(run: Run<Attempt>, seq: number): void;
}

/** The caller's request, and which targets it may still be sent to. */
interface Request {
  body: Buffer;
  retryState: RetryState;
}

const stopping: Failure = {
  code: "unavailable",
  message: "The process that ran this session is stopping; open a new session to go on.",
  retryAfterSeconds: 1,
};

const bodyGone: Failure = {
  code: "unavailable",
  message: "The request was lost before it could be answered; send it again.",
  retryAfterSeconds: 1,
};

const bodyUnread: Failure = {
  code: "unavailable",
  message: "The gateway could not read the request from Redis in time; send it again.",
  retryAfterSeconds: 5,
};

const simulatedFailure: Failure = {
  code: "upstream_failed",
  message: "Every target failed, or counts as failing in this trial.",
};

const noBytes = Buffer.alloc(0);

const isTarget = (target: { upstream: string; model: string }, upstream: string, model: string): boolean =>
  target.upstream === upstream && target.model === model;

/** The answer of a vendor's batch takes nothing of the target. */
const freePermit: Permit = {
  kind: "permitted",
  credential: undefined,
  caller: "",
  isProbe: false,
  answered() {},
  leave() {},
};

/** Responses by which an upstream says that it has no such endpoint. */
const noEndpointStatuses = [404, 405, 501];

export class Attempt {
  readonly #deps: AttemptDeps;
  readonly #slot: JobSlot;
  readonly #job: GenerationJob;
  readonly #info: AttemptInfo;
  readonly #reports: UsageReports;
  readonly #frames: AnswerFrames;
  readonly #targets: TargetReports;
  readonly #preparation: Preparation;
  readonly #attachments: RequestAttachments;
  /** The memory of a large answer; undefined before it is large. */
  #claim: AnswerClaim | undefined;
  /** Ends the preparation of the request and the waits between calls. */
  readonly #ended = new AbortController();
  /** Undefined until the relay starts the attempt. */
  #run: Run<Attempt> | undefined;
  /** Undefined until it is read. */
  #request: Request | undefined;
  /** The last call, which may be over. */
  #call: TargetCall | undefined;
  /** Where its caller's session belongs; undefined for a request without one. */
  #affinity: SessionRoute | undefined;
  /** The connection of the last call, if it is a session's. */
  #session: SessionCall | undefined;
  #firstCallAt = 0;
  /**
   * Answered, failed or cancelled: no upstream is read or called any more. Frames may still wait
   * for the relay's window.
   */
  #isOver = false;
  /** The failure that the caller gets. */
  #failure: Failure | undefined;
  /** An error of the gateway's own code; for the operator alone. */
  #fault: unknown;
  /** Undefined until the owner or the relay says how the attempt counts. */
  #outcome: Outcome | undefined;
  /** Its place in a batch of the vendor, until that was tried. */
  #vendorLine: VendorLine | undefined;
  /** A target that started the answer again gave another one. */
  #hasDiffered = false;
  /** Targets that refused to continue the answer so far, by their keys. */
  readonly #refusingPrefill = new Set<string>();
  #malformedEvents = 0;
  /** Calls that are over, from the first failure on: an attempt that needs one call has none. */
  #callLog: CallRecord[] | undefined;
  /** The last target that a trial passed over. */
  #passedOver: Candidate | undefined;

  /** The attempt is taken from its queue. */
  constructor(slot: JobSlot, deps: AttemptDeps) {
    const { generation, attempt, operation, dialect, group, account, keyId, model, admittedAt, delivered } = slot.job;
    const { user, sessionName, tags, batch, priceVersion, usageMax } = slot.job;
    const send: SendFrame = (kind, payload) => {
      if (this.#run !== undefined) deps.send(this.#run, kind, payload);
    };
    this.#deps = deps;
    this.#slot = slot;
    this.#job = slot.job;
    this.#vendorLine = slot.job.vendorBatch;
    this.#info = {
      generation,
      attempt,
      recorded: slot.job.recorded,
      queue: slot.queue,
      operation,
      dialect,
      requestedModel: model,
      group,
      account,
      keyId,
      user,
      sessionName,
      tags,
      batch,
      priceVersion,
      usageMax,
      isStreamed: slot.job.framing !== "whole",
      receivedAt: admittedAt,
      owner: slot.job.owner,
      trace: continued(slot.job.traceparent, slot.job.tracestate),
    };
    this.#reports = new UsageReports(operation, send);
    const pace = operations[operation].isSession === true ? undefined : deps.upstreams.pace;
    this.#frames = new AnswerFrames(send, this.#reports, { hasHead: delivered !== undefined, pace });
    this.#targets = new TargetReports(deps.routing);
    if (slot.job.trial !== undefined) this.#callLog = [];
    this.#preparation = new Preparation(deps.preparationThread, keyId);
    this.#attachments = deps.attachmentsFor(keyId);
    const queueWaitMs = Math.max(0, deps.clock.epoch() - admittedAt);
    deps.events.emit("taken", { attempt: this.#info, queueWaitMs });
  }

  /** The owner bound the attempt, or the relay dropped it: its job leaves the queue. */
  dispatched(): void {
    this.#deps.events.emit("dispatched", { attempt: this.#info });
    this.#slot.dispatched();
  }

  /**
   * The owner is known to be alive. Never rejects: an error of the gateway's own code fails the
   * attempt.
   */
  async start(run: Run<Attempt>): Promise<void> {
    this.#run = run;
    if (this.#isOver) return;
    try {
      const request = await this.#readRequest();
      if (request === undefined) return;
      this.#request = request;
      await this.#callNextTarget(request);
    } catch (error) {
      this.#crash(error);
    }
  }

  /** Undefined once the attempt is over. */
  async #readRequest(): Promise<Request | undefined> {
    const { group, model: id, fallbacks = [], body: inJob, session, sessionIsAssumed } = this.#job;
    const catalogue = this.#deps.catalogue();
    const model = catalogue.modelFor(group, id);
    if (session !== undefined && model?.affinity === "session")
      this.#affinity = new SessionRoute(session, sessionIsAssumed === true ? unbound : this.#deps.bindings);
    const order = orderWithStrategies(this.#affinity ?? drawnOrder(Math.random), (neighbours) =>
      this.#deps.targetMeasures.ranked(neighbours, {
        isStreamed: this.#info.isStreamed,
        inputTokens: this.#inputTokensOf(inJob?.length ?? jobBodyBytesMax),
        receivedAt: this.#info.receivedAt,
      }),
    );
    const candidates =
      model === undefined
        ? []
        : this.#job.isMirrored === true
          ? mirrorOf(catalogue, model)
          : candidatesOf(catalogue, { group, model, allowed: fallbacks }, order);
    const answeredBy = this.#vendorLine?.answeredBy;
    if (answeredBy !== undefined) {
      const rankOf = ({ upstream, target }: Candidate) => (isTarget(answeredBy, upstream.name, target.model) ? 0 : 1);
      candidates.sort((one, other) => rankOf(one) - rankOf(other));
    }
    if (candidates.length === 0) {
      this.#fail({
        code: "unavailable",
        message: "The catalogue changes, and does not offer this model to this group now; try again in a moment.",
        retryAfterSeconds: 1,
      });
      return undefined;
    }
    const body = inJob === null ? await this.#readBody() : Buffer.from(inJob);
    if (body === undefined || this.#isOver) return undefined;
    const retryState = new RetryState(candidates, this.#deps.clock.now(), Math.random);
    if (this.#job.delivered !== undefined) retryState.keep(lost);
    return { body, retryState };
  }

  /** The body of a job that carries none. Undefined once the attempt is over. */
  async #readBody(): Promise<Buffer | undefined> {
    const { signal } = this.#ended;
    try {
      const body = await this.#deps.requestBodies.read(this.#job.generation, signal);
      if (body !== null) return body;
      if (!this.#isOver) this.#fail(bodyGone);
    } catch (error) {
      if (this.#isOver) return undefined;
      this.#fault = error;
      this.#fail(bodyUnread);
    }
    return undefined;
  }

  /**
   * Calls the next target that may be called, and waits for one if the retry state says so. Fails
   * the attempt when none is left.
   */
  async #callNextTarget(request: Request): Promise<void> {
    const { clock } = this.#deps;
    const { retryState } = request;
    for (;;) {
      // Each of these is called, or becomes unsuitable or blocked for a time, so this ends.
      const ready = retryState.ready(clock.now());
      for (const candidate of ready) {
        if (await this.#tryTarget(candidate, request)) return;
        if (retryState.isHeldUp) break;
      }
      if (ready.length > 0) continue;
      const waitMs = retryState.waitMs(clock.now());
      if (waitMs === undefined) return this.#fail(retryState.failure);
      await sleep(waitMs, undefined, { signal: this.#ended.signal }).catch(() => undefined);
      if (this.#isOver) return;
    }
  }

  /** False when this target can't be called now, so that the next one is tried. */
  async #tryTarget(candidate: Candidate, { body, retryState }: Request): Promise<boolean> {
    const { routing, clock } = this.#deps;
    if (this.#job.trial?.includes(candidate.key) === true) return this.#simulateFailure(candidate, retryState);
    const exchange = await this.#exchangeWith(candidate, body, retryState);
    if (this.#isOver) return true;
    if (exchange.kind === "answered") {
      this.#answerWithoutUpstream(exchange);
      return true;
    }
    if (exchange.kind === "refused") {
      retryState.unsuitable(candidate, exchange.failure);
      this.#passOver(candidate, "unsuitable");
      return false;
    }
    const line = this.#vendorLine;
    const vendorAnswer = line && (await this.#vendorAnswer(line, candidate, exchange));
    if (this.#isOver || vendorAnswer === "deferred") return true;
    if (vendorAnswer !== undefined) {
      this.#affinity = undefined;
      retryState.began(candidate);
      this.#callTarget(candidate, freePermit, exchange, { body, retryState }, vendorAnswer);
      return true;
    }
    const { generation, attempt } = this.#job;
    // Blocked: its circuit breaker is open, its concurrency is used up, or its credentials cool
    // down.
    const { account, keyId } = this.#job;
    const permission = await routing.permit(candidate, {
      holder: `${generation}-${attempt}-${retryState.calls}`,
      caller: account ?? keyId,
      credentials: this.#affinity?.credentialsAt(candidate),
      inputTokens: this.#inputTokensOf(body.length),
      outputTokensMax: () => outputTokensMaxIn(exchange.request.body),
    });
    if (permission.kind === "blocked") {
      retryState.blocked(candidate, permission, clock.now());
      this.#passOver(candidate, permission.by);
      return false;
    }
    if (this.#isOver) permission.leave(undefined);
    else {
      retryState.began(candidate);
      this.#callTarget(candidate, permission, exchange, { body, retryState });
    }
    return true;
  }

  /** A failure that passes, for this request alone: nothing else learns of it. */
  #simulateFailure(candidate: Candidate, retryState: RetryState): boolean {
    retryState.began(candidate);
    this.#passOver(candidate, "simulated");
    const mayGoOn = retryState.failed(candidate, "transient", simulatedFailure, {}, this.#deps.clock.now());
    if (!mayGoOn) this.#fail(simulatedFailure);
    return !mayGoOn;
  }

  /** Only trials list what was not called. */
  #passOver(candidate: Candidate, why: CallRecord[5]): void {
    if (this.#job.trial === undefined) return;
    this.#passedOver = candidate;
    const { clock } = this.#deps;
    this.#logCall({ candidate, diagnosis: {}, startedAt: clock.now() }, why);
  }

  /**
   * The vendor's answer to a request of a batch, which is read once. `deferred`: the request waits
   * for the vendor's batch. Undefined if the target is called.
   */
  async #vendorAnswer(
    line: VendorLine,
    { upstream, target: { model } }: Candidate,
    { request, reading }: Exchange,
  ): Promise<Buffer | "deferred" | undefined> {
    const { vendorBatches } = this.#deps;
    if (reading.streams) return undefined;
    const { answeredBy } = line;
    if (answeredBy !== undefined) {
      if (!isTarget(answeredBy, upstream.name, model)) return undefined;
      this.#vendorLine = undefined;
      return vendorBatches.answerTo(line);
    }
    const target = vendorTargetOf(upstream, model, request);
    if (target === undefined) return undefined;
    this.#vendorLine = undefined;
    if (!(await vendorBatches.defer(line, target, request.body as Buffer))) return undefined;
    if (!this.#isOver) this.#defer();
    return "deferred";
  }

  #defer(): void {
    this.#isOver = true;
    this.#attachments.release();
    this.#frames.head({ status: deferredStatus, headers: { "content-type": "application/json" } });
    this.#frames.data([Buffer.from("{}")], undefined);
    this.#frames.end({ usage: null, isDeferred: true });
  }

  /** The request in the target's dialect, and how its answer is read. */
  async #exchangeWith(candidate: Candidate, body: Buffer, retryState: RetryState): Promise<Exchanged> {
    const { key, model, target, upstream } = candidate;
    const { signal } = this.#ended;
    const call = this.#frames.hasHead ? this.#call : undefined;
    try {
      return await exchangeOf({
        job: this.#job,
        body,
        model,
        upstream,
        name: target.model,
        promptCache: target.promptCache ?? model.promptCache,
        repairs: [...this.#deps.learnedRepairs.of(key, this.#deps.clock.now()), ...retryState.repairsFor(candidate)],
        preparation: this.#preparation,
        attachments: this.#attachments,
        // This attempt's own answer so far; the job has the part that an earlier attempt delivered.
        resumed: call?.exchange.resumed,
        relayed: call?.exchange.resumed === undefined ? call?.relayedText : undefined,
        mayResume:
          model.resume !== false && !this.#hasDiffered && (call !== undefined || retryState.hasOther(candidate)),
        mayContinue: !this.#refusingPrefill.has(key),
        signal,
      });
    } catch (error) {
      if (signal.aborted) return { kind: "refused", failure: internalFailure };
      if (!(error instanceof Refusal)) throw error;
      return { kind: "refused", failure: { code: "invalid_request", message: error.message, param: error.param } };
    }
  }

  /** `answer` is that of the vendor's batch. */
  #callTarget(
    candidate: Candidate,
    permit: Permit,
    exchange: Exchange,
    { body, retryState }: Request,
    answer?: Buffer,
  ): void {
    const { clock, events, upstreams } = this.#deps;
    const call = new TargetCall({
      candidate,
      permit,
      affinity: this.#affinityOf(candidate, permit),
      exchange,
      attempt: this.#info,
      number: retryState.calls,
      resumes: this.#frames.hasHead,
      isQuoted: (text) => isQuotedIn(body, text),
      isReplayed: answer !== undefined,
      earlier: this.#callLog,
      now: clock.now(),
    });
    if (call.info.number === 1) this.#firstCallAt = call.startedAt;
    this.#call = call;
    if (!call.isReplayed) events.emit("upstreamCallStarted", { attempt: this.#info, call: call.info });
    const unlessOver = (act: () => void) => {
      if (!this.#isOver && !call.isOver) this.#guarded(act);
    };
    const handlers: UpstreamHandlers = {
      head: (status, headers) => unlessOver(() => this.#headArrived(call, status, headers)),
      data: (chunk, kind) => unlessOver(() => this.#received(call, call.read(chunk, clock.now(), kind))),
      end: () => {
        call.connectionEnded();
        unlessOver(() => this.#received(call, call.end()));
      },
      sent: (fragment, isFirst) => unlessOver(() => call.sent(fragment, isFirst)),
      failed: (failure, cause) => {
        unlessOver(() => this.#connectionFailed(call, failure, cause));
        call.connectionEnded();
      },
    };
    if (answer !== undefined) {
      handlers.head(200, { "content-type": "application/json" });
      handlers.data(answer);
      handlers.end();
      return;
    }
    const { upstream, target } = candidate;
    const request = withTrace(asVertexReads(exchange.request, upstream), upstream, call.info.trace);
    if (call.isSession && Buffer.isBuffer(request.body)) {
      const opened = { ...request, body: request.body };
      this.#session = upstreams.open(upstream, permit.credential, opened, target.model, handlers);
      call.connection = this.#session;
    } else {
      const { isRepeatable } = operations[this.#job.operation];
      call.connection = upstreams.call(upstream, permit.credential, request, handlers, isRepeatable);
    }
    if (this.#isBlocked) call.flow(false);
  }

  #affinityOf(candidate: Candidate, { credential }: Permit): CallInfo["affinity"] {
    if (this.#affinity === undefined) return undefined;
    return this.#affinity.expects(candidate, credential) ? "kept" : "moved";
  }

  /** The upstream must not be read: the caller is slow, or the answer waits for memory. */
  get #isBlocked(): boolean {
    return this.#frames.isBlocked || this.#claim?.isWaiting === true;
  }

  #claimMemory(call: TargetCall): void {
    this.#claim ??= this.#deps.answerMemory.claim(this.#job.keyId, () => this.#readAgain());
    this.#claim.hold(call.heldBytes);
    if (this.#claim.isWaiting) call.flow(false);
  }

  #readAgain(): void {
    const call = this.#call;
    if (call === undefined || call.isOver) return;
    call.readAgain(this.#deps.clock.now());
    call.flow(!this.#isBlocked);
  }

  #headArrived(call: TargetCall, status: number, headers: UpstreamHeaders): void {
    const { clock } = this.#deps;
    call.headArrived({ status, headers, arrivedAt: clock.epoch() }, clock.now());
    call.permit.answered(headers);
    if (call.streams && !call.isError) this.#reports.report(call);
    const { unlessThere } = call.exchange;
    if (unlessThere !== undefined && noEndpointStatuses.includes(status)) this.#answerInstead(call, unlessThere);
  }

  /**
   * The step that a chunk, the end of the response or a timeout leads to. Undefined for bytes that
   * are no part of the answer.
   */
  #received(call: TargetCall, step: AnswerStep | undefined): void {
    if (step === undefined) return;
    if (step.kind === "late") {
      this.#receivedLater(call, step.step);
      return;
    }
    this.#noteProgress(call);
    if (call.heldBytes > unclaimedAnswerBytesMax) this.#claimMemory(call);
    if (step.kind !== "failed" && call.hasContent && !call.isProven) {
      this.#targets.proven(call);
      this.#affinity?.served(call.candidate, call.permit.credential);
      this.#learnFrom(call);
      this.#preparation.forget();
    }
    if (step.bytes.length > 0) this.#write(call, step.bytes);
    if (step.kind === "failed") {
      call.diagnosis.cause ??= isAnswerStatus(call.diagnosis.status ?? 0) ? "bad answer" : "bad status";
      this.#callFailed(call, step.failure, step);
    } else if (step.kind === "end") this.#answered(call);
  }

  /** The target answers a repaired request: later ones have the lasting repairs at once. */
  #learnFrom({ candidate, info }: TargetCall): void {
    const { learnedRepairs, clock, events } = this.#deps;
    const repairs = this.#request?.retryState.repairsFor(candidate).filter(({ isLasting }) => isLasting === true) ?? [];
    if (repairs.length === 0) return;
    learnedRepairs.learn(candidate.key, repairs, clock.now());
    events.emit("repairsLearned", { attempt: this.#info, call: info, repairs });
  }

  /** A large whole answer is read in a thread. */
  #receivedLater(call: TargetCall, later: Promise<AnswerStep>): void {
    call.isReadingWhole = true;
    later.then(
      (step) => {
        if (!this.#isOver && !call.isOver) this.#guarded(() => this.#received(call, step));
      },
      (error: unknown) => {
        if (!this.#isOver) this.#crash(error);
      },
    );
  }

  #noteProgress(call: TargetCall): void {
    const { clock, events } = this.#deps;
    const now = clock.now();
    if (this.#frames.hasHead) {
      if (events.has("chunk")) {
        call.chunk.gapMs = now - call.progressedAt;
        events.emit("chunk", call.chunk);
      }
    } else if (call.isCommitted && !call.isAnswering) {
      call.isAnswering = true;
      if (!call.isReplayed)
        events.emit("firstContent", { attempt: this.#info, call: call.info, sinceCallMs: now - call.startedAt });
    }
    call.progressedAt = now;
  }

  #write(call: TargetCall, bytes: readonly Buffer[]): void {
    this.#reports.reportNewInput(call);
    if (!this.#frames.hasHead) {
      this.#writeHead(call.contentType, call.exchange.reading.headers);
    }
    this.#frames.data(bytes, call);
    if (this.#isBlocked) call.flow(false);
  }

  #writeHead(contentType: string, headers: Record<string, string> = {}): void {
    const requestId = this.#call?.diagnosis.requestId;
    this.#frames.head({
      status: 200,
      headers: {
        "content-type": contentType,
        ...headers,
        ...(requestId !== undefined && { [upstreamRequestIdHeader]: requestId }),
      },
    });
  }

  /** The answer is complete. Its last bytes may still wait for the relay's window. */
  #answered(call: TargetCall): void {
    this.#isOver = true;
    this.#endCall(call, "answered");
    // Text after a stop sequence would be generated, and billed, for nobody.
    if (call.exchange.mayEndEarly === true && call.streams && call.finish === "stop-sequence") call.abort();
    else call.abortLater();
    this.#attachments.release();
    if (this.#callLog !== undefined) this.#logCall(call, "answered");
    if (!call.streams && call.usage === undefined) this.#reports.reportGrowth(call);
    this.#frames.end({ usage: call.usage ?? null, model: call.model, source: this.#sourceOf(call) });
  }

  #answerWithoutUpstream({ body, contentType, headers }: GatewayAnswer): void {
    this.#isOver = true;
    this.#attachments.release();
    this.#writeHead(contentType, headers);
    this.#frames.data([body], undefined);
    this.#frames.end({ usage: this.#usage ?? null, model: this.#model });
  }

  /** The upstream has no such endpoint, so the gateway answers by itself. */
  #answerInstead(call: TargetCall, make: () => Promise<GatewayAnswer>): void {
    call.abort();
    this.#endCall(call, "answered");
    make().then(
      (answer) => this.#isOver || this.#guarded(() => this.#answerWithoutUpstream(answer)),
      (error: unknown) => this.#crash(error),
    );
  }

  /** The transport failed. That does not matter to an answer that lacks only its terminator. */
  #connectionFailed(call: TargetCall, failure: Failure, cause: string): void {
    if (call.isSettled) {
      this.#received(call, call.end());
      return;
    }
    call.diagnosis.cause = cause;
    this.#callFailed(call, failure);
  }

  /** Fails over, resumes or fails, as the failure, the caller's state and the retry state allow. */
  #callFailed(
    call: TargetCall,
    failure: Failure,
    { retryAfterSeconds, reason, repair: proposed }: Pick<FailedStep, "retryAfterSeconds" | "reason" | "repair"> = {},
  ): void {
    const { clock, events } = this.#deps;
    const { candidate, diagnosis } = call;
    const failureClass = call.classOf(classifyFailure(failure, diagnosis.status));
    const isFlexFull = (failureClass === "capacity" || diagnosis.status === 503) && isFlex(call.exchange.request);
    const whenFlexFull = this.#job.whenFlexFull ?? candidate.model.whenFlexFull;
    const change = isFlexFull && whenFlexFull === "standard" ? standardTier : proposed;
    const repair = change && effectiveRepair(call.exchange.request, change);
    const retryClass = this.#frames.hasHead ? this.#classToResume(call, failureClass) : failureClass;
    if (retryAfterSeconds !== undefined) call.retryAfterMs = Math.max(0, retryAfterSeconds * 1_000);
    const now = clock.now();
    const durationMs = now - call.startedAt;
    const request = this.#request;
    // A later call that can't go on with the answer says nothing that the caller could act on.
    if (this.#frames.hasHead) request?.retryState.keep(failure);
    const mayCallAgain = this.#mayCallAgain(call, failure, failureClass);
    const isRepeated =
      repair !== undefined &&
      mayCallAgain &&
      !this.#frames.hasHead &&
      request?.retryState.repeats(candidate, repair, failure) === true;
    if (!call.isReplayed)
      events.emit("upstreamCallFailed", {
        attempt: this.#info,
        call: call.info,
        durationMs,
        diagnosis,
        failure,
        reason,
        repair: isRepeated ? repair : undefined,
      });
    this.#logCall(call, failure.code);
    call.abort();
    this.#claim?.end();
    this.#claim = undefined;
    // Capacity for flex says nothing about the credential's other requests.
    const outcome = isFlexFull ? undefined : outcomeOf(failureClass);
    this.#leave(call, isRepeated || failure.isPaid ? "answered" : outcome);
    if (request === undefined) {
      this.#fail(failure);
      return;
    }
    const vainWaitMs = now - (this.#frames.hasHead ? call.progressedAt : call.startedAt);
    const isFinal =
      !mayCallAgain ||
      !(
        isRepeated ||
        (isFlexFull && whenFlexFull === "wait" && request.retryState.waitsForFlex(candidate, call.retryAfterMs, now)) ||
        request.retryState.failed(candidate, retryClass, failure, { retryAfterMs: call.retryAfterMs, vainWaitMs }, now)
      );
    if (isFinal) {
      this.#fail(mayCallAgain ? request.retryState.failure : failure);
      return;
    }
    if (!this.#frames.hasHead) this.#reports.withdraw();
    this.#callNextTarget(request).catch((error: unknown) => this.#crash(error));
  }

  /** Whether another call would be of use to the caller, whichever targets are left. */
  #mayCallAgain(call: TargetCall, failure: Failure, failureClass: FailureClass): boolean {
    if (failure.isPaid || (this.#frames.hasHead && !this.#canResume(call))) return false;
    const isUnanswered =
      failureClass === "silent" || (failureClass === "transient" && call.diagnosis.status === undefined);
    if (isUnanswered && !operations[this.#job.operation].isRepeatable) return false;
    return !isOutOfTime(call.timeouts, this.#firstCallAt, this.#deps.clock.now());
  }

  /**
   * The answer so far is kept, or is plain text that was relayed unchanged and that another target
   * may go on with.
   */
  #canResume(call: TargetCall): boolean {
    if (this.#job.operation !== "answer") return false;
    const { resumed } = call.exchange;
    if (resumed !== undefined) return resumed.canResume;
    return call.candidate.model.resume !== false && call.relayedText !== undefined;
  }

  /**
   * How a failure in the middle of an answer counts for the next call. A target that refuses to
   * continue the text is asked to start again. Otherwise a target whose model does not say that
   * answers are resumed there, and that can't continue a text, is not called again: its next answer
   * would be another one.
   */
  #classToResume({ candidate, exchange, diagnosis }: TargetCall, failureClass: FailureClass): FailureClass {
    const { key, model, upstream } = candidate;
    const isRefused = exchange.mode === "continue" && failureClass === "unclear" && !this.#refusingPrefill.has(key);
    if (isRefused) this.#refusingPrefill.add(key);
    if (exchange.mode === "repeat" && !model.deterministic && isAnswerStatus(diagnosis.status ?? 0))
      this.#hasDiffered = true;
    if (isRefused) return "transient";
    return model.resume === true || continuesText(upstream, model) ? failureClass : "silent";
  }

  #leave(call: TargetCall, outcome: CallOutcome | undefined): void {
    call.isOver = true;
    this.#malformedEvents += call.diagnosis.malformedEvents ?? 0;
    this.#targets.ended(call, outcome);
    if (outcome !== undefined && outcome !== "answered") this.#affinity?.failed(call.candidate, call.permit.credential);
  }

  /** The call is complete, or nobody waits for it any more. */
  #endCall(call: TargetCall, outcome: "answered" | undefined): void {
    const { info, diagnosis, usage, finish, startedAt } = call;
    this.#leave(call, outcome);
    if (call.isReplayed) return;
    this.#deps.events.emit("upstreamCallEnded", {
      attempt: this.#info,
      call: info,
      durationMs: this.#deps.clock.now() - startedAt,
      diagnosis,
      isComplete: outcome === "answered",
      usage,
      finish,
    });
  }

  /**
   * The list keeps the first calls and the last one. Each call makes a new list, because events may
   * still refer to an earlier one.
   */
  #logCall(
    { candidate, diagnosis, startedAt }: Pick<TargetCall, "candidate" | "diagnosis" | "startedAt">,
    outcome: CallRecord[5],
  ): void {
    const { clock } = this.#deps;
    const durationMs = clock.now() - startedAt;
    const startedMs = clock.epoch() - this.#info.receivedAt - durationMs;
    this.#callLog = [
      ...(this.#callLog ?? []).slice(0, callRecordsMax - 1),
      [
        candidate.upstream.name,
        candidate.target.model,
        Math.max(0, Math.round(startedMs)),
        Math.max(0, Math.round(durationMs)),
        diagnosis.status ?? null,
        outcome,
      ],
    ];
  }

  /** With all calls that are over. */
  #sourceOf(call: TargetCall): AnswerSource {
    return this.#callLog === undefined ? call.source : { ...call.source, callLog: this.#callLog };
  }

  #sourceWithoutCall(): { source: AnswerSource } {
    const { upstream, target } = this.#passedOver as Candidate;
    const { name, dialect } = upstream;
    return { source: { upstream: name, target: target.model, dialect, calls: 0, callLog: this.#callLog ?? [] } };
  }

  /** The caller gets what was produced, and then the failure. */
  #fail(failure: Failure): void {
    const call = this.#call;
    const upstreamRequestId = call?.diagnosis.requestId;
    this.#failure = failure;
    if (call?.isSession) this.#reports.reportGrowth(call);
    this.#frames.fail({
      ...failure,
      ...(upstreamRequestId !== undefined && { upstreamRequestId }),
      ...(call !== undefined ? { source: this.#sourceOf(call) } : this.#passedOver && this.#sourceWithoutCall()),
      ...(failure.isPaid && { model: this.#model, usage: this.#usage }),
    });
    this.#end();
  }

  /**
   * An error in the gateway's own code fails the attempt immediately, so that its caller does not
   * wait. The frames of a complete answer stay.
   */
  #crash(error: unknown): void {
    this.#fault ??= error;
    this.#frames.discard();
    this.#fail(internalFailure);
  }

  #guarded(act: () => void): void {
    try {
      act();
    } catch (error) {
      this.#crash(error);
    }
  }

  /** The relay cancels the attempt: nothing more is sent. */
  abort(): void {
    this.#frames.discard();
    this.#end();
  }

  #end(): void {
    this.#isOver = true;
    this.#ended.abort();
    this.#call?.abort();
    if (this.#call?.isOver === false) this.#endCall(this.#call, undefined);
    this.#attachments.release();
  }

  /**
   * The relay's window opens or closes. While it is closed and bytes wait, the upstream is not
   * read, and no timeout but the total one counts.
   */
  flow(isOpen: boolean): void {
    this.#guarded(() => {
      this.#frames.setOpen(isOpen);
      if (isOpen) this.#readAgain();
      else this.#call?.flow(!this.#isBlocked);
    });
  }

  /**
   * A part of the caller's input in its session, which begins only after the upstream's first
   * message.
   */
  input(payload: Buffer, seq: number): void {
    this.#guarded(() =>
      this.#session?.input(payload, () => this.#run !== undefined && this.#deps.taken(this.#run, seq)),
    );
  }

  /**
   * The worker stops within this time: a session's caller is told so, and gets no answer to that.
   */
  retire(withinMs: number): void {
    const call = this.#call;
    if (this.#isOver || call?.isSession !== true || !this.#frames.hasHead) return;
    const bytes = announcementOf(this.#job.dialect, Math.ceil(withinMs / 1_000));
    this.#guarded(() => this.#frames.data(encodeMessage([{ kind: "text", bytes }]), call));
  }

  /** The worker stops now: a session, which no other worker can go on with, ends. */
  stop(): void {
    if (!this.#isOver && operations[this.#job.operation].isSession === true && this.#frames.hasHead)
      this.#guarded(() => this.#fail(stopping));
  }

  /**
   * Enforces the timeouts and reports progress; call it a few times a second. `now` is the clock's.
   */
  watch(now: number): void {
    const call = this.#call;
    // An upstream that is not read can't be late.
    if (this.#isOver || call === undefined || call.isOver || call.isReadingWhole || this.#isBlocked) return;
    this.#guarded(() => {
      this.#reports.reportGrowth(call);
      const step = call.lateEnd(now);
      if (step === undefined) this.#checkTimeouts(call, now);
      else this.#received(call, step);
    });
  }

  #checkTimeouts(call: TargetCall, now: number): void {
    const { candidate, streams } = call;
    const { operation, dialect } = this.#job;
    const { contentTimes } = this.#deps;
    const hasOther = this.#request?.retryState.hasOther(candidate) === true && operations[operation].isRepeatable;
    const quietMsMax = () =>
      quietMsMaxOf({ candidate, dialect, body: this.#request?.body ?? noBytes, streams }, contentTimes, hasOther);
    const overdue = overdueOf(call, this.#firstCallAt, hasOther, quietMsMax, now);
    if (overdue === undefined) return;
    const { says, isAdaptive } = overdue;
    // The abandoned content might have come, so the next call may take longer; a target that is
    // always silent gets no more than a few times the least.
    if (isAdaptive) contentTimes.learn(candidate.name, streams, quietMsMin[streams ? "streamed" : "whole"]);
    call.diagnosis.cause = says;
    this.#callFailed(call, { code: "upstream_timeout", message: `The upstream of this model ${says}.` });
  }

  /**
   * The attempt counts in this worker's metrics: the owner has the whole answer, or its caller
   * left. The ingress charges the caller.
   */
  settle(end: AttemptEnd): void {
    this.#outcome = end.outcome;
    this.#deps.events.emit("settled", this.#settledAs(end));
  }

  /** The ingress may be gone, and this worker may die before it settles the attempt. */
  witness(end: AttemptEnd): void {
    this.#deps.events.emit("witnessed", this.#settledAs(end));
  }

  #settledAs({ outcome, isOrphaned }: AttemptEnd): WorkerEvents["settled"] {
    return {
      attempt: this.#info,
      outcome,
      model: this.#model,
      source: this.#call && this.#sourceOf(this.#call),
      upstreamRequestId: this.#call?.diagnosis.requestId,
      bodyBytes: this.#request?.body.length ?? 0,
      usage: this.#usage ?? (outcome === "cancelled" ? this.#estimatedUsage : undefined),
      failure: this.#failure,
      isOrphaned,
    };
  }

  /** The relay forgets the attempt, so its slot is free. */
  forget(): void {
    this.#affinity?.over();
    this.#slot.release();
    this.#claim?.end();
    const failure = this.#failure;
    const diagnosis = this.#call?.diagnosis ?? {};
    this.#deps.events.emit("ended", {
      attempt: this.#info,
      outcome: this.#outcome === "done" && failure !== undefined ? "failed" : (this.#outcome ?? "dropped"),
      model: this.#model,
      upstream: this.#call?.info.upstream,
      usage: this.#usage,
      failure,
      fault: this.#fault,
      diagnosis: this.#malformedEvents > 0 ? { ...diagnosis, malformedEvents: this.#malformedEvents } : diagnosis,
    });
  }

  /** The model that answered last: the requested one, or a fallback. */
  get #model(): string {
    return this.#call?.model ?? this.#job.model;
  }

  /** The upstream's own count. */
  get #usage(): Usage | undefined {
    return this.#call?.usage;
  }

  /** An estimate for a body of so many bytes. */
  #inputTokensOf(bytes: number): number {
    return this.#job.inputTokens ?? bytes / bytesPerToken;
  }

  /**
   * An estimate of what was produced if the caller left before the upstream counted anything;
   * undefined for nothing.
   */
  get #estimatedUsage(): Usage | undefined {
    const outputTokens = this.#call?.produced?.outputTokens ?? 0;
    const inputTokens = Math.ceil(this.#inputTokensOf(this.#request?.body.length ?? 0));
    return outputTokens === 0 ? undefined : plainUsageOf(inputTokens, outputTokens);
  }
}

/**
 * The repair, or its fallback if the request has none of its fields; undefined if the upstream
 * would get the same request again.
 */
function effectiveRepair({ body, headers }: Exchange["request"], repair: Repair): Repair | undefined {
  if (repair.kind !== "omit") return repair;
  const { fallback, ...own } = repair;
  const changes = (field: string) =>
    field.startsWith(betaPath)
      ? Object.values(headers ?? {}).some((value) => value.includes(field.slice(betaPath.length)))
      : Buffer.isBuffer(body) && withoutFields(body, [field]) !== body;
  if (own.fields.some(changes)) return own;
  return fallback?.some(changes) ? { ...own, fields: fallback } : undefined;
}

const outputTokensMaxIn = (body: Exchange["request"]["body"]): number | undefined =>
  Buffer.isBuffer(body) ? tokensMaxIn(body) : undefined;

/** Vertex AI is Gemini's dialect with Google's own authentication. */
const asVertexReads = (request: Exchange["request"], { dialect, authentication }: CatalogueUpstream) =>
  dialect === "gemini" && authentication === "google" && Buffer.isBuffer(request.body)
    ? vertexRequestOf({ ...request, body: request.body })
    : request;

/** The request without its service tier. */
const standardTier: Repair = { kind: "omit", fields: ["service_tier", "serviceTier"], isLasting: false };

const isFlex = ({ body }: Exchange["request"]): boolean => Buffer.isBuffer(body) && isFlexIn(body);

/** An upstream gets the trace only if the catalogue says so, because it may belong to strangers. */
const withTrace = (
  request: Exchange["request"],
  { sendsTrace }: CatalogueUpstream,
  trace: CallInfo["trace"],
): Exchange["request"] =>
  trace === undefined || !sendsTrace ? request : { ...request, headers: { ...request.headers, ...headersOf(trace) } };
