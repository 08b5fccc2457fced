/**
 * The path of a generation through an ingress, from top to bottom:
 *
 *     begin ─▶ admit ─▶ queue ─▶ dispatch ─▶ bind ─▶ deliver … ─▶ end
 *              rate     admission  job on      a worker  frames of
 *              limits   queue      its queue   runs it   the answer
 *                                     ▲          │
 *                                     └─ restart ┘  the worker or the job was lost
 *
 * It ends exactly once, from any of these states, in one of three ways:
 *
 *     complete   the whole answer arrived
 *     failed     the rate limits refused it, at once or at the end of its wait for them (429; 402 for a spent budget where the dialect has it) · it waited too long (503) · the worker reports an error ·
 *                the worker was lost after content that cannot be resumed, or for the third time · Redis is away (503) · its key was
 *                revoked (401) · an operator stopped it (503) · an error in the gateway's own code (500) · this process stops (503)
 *     left       its caller closed the connection
 *
 * A request that finds no capacity, or a queue that an operator drains, is refused before it
 * becomes a generation (503 with Retry-After). Once a head or a keep-alive was sent, the status is
 * 200, and a failure is an error event of the stream in the caller's dialect.
 *
 * Until it is dispatched, a generation is known to this process alone. From then on the relay's
 * owner (libs/relay/owner.ts) decides: it orders the frames, and declares a worker lost after 5 s
 * of silence. Then it restarts the generation, if content was not delivered or the answer can be
 * resumed, and lets it fail otherwise. It also removes the job of a generation that ends before a
 * worker took it. Its decisions come as values, and `#apply` lists all of them.
 */

import { type Failure, internalFailure } from "#dialects/errors.ts";
import type { EventSink } from "#events/event-stream.ts";
import type { GenerationOutcome, IngressEvents, RefusedCall } from "#events/ingress-events.ts";
import { operations } from "#operations/operations.ts";
import type { QueuePlace } from "#relay/admission-queue.ts";
import type { RelayBounds } from "#relay/bounds.ts";
import type { Frame } from "#relay/frame.ts";
import {
  type AnswerFailure,
  type AnswerHead,
  type AnswerProgress,
  decodeData,
  decodeEnd,
  decodeFailure,
  decodeHead,
  decodeProgress,
  upstreamRequestIdHeader,
} from "#relay/job.ts";
import {
  type AnswerKind,
  type AttemptJob,
  type JobState,
  Owner,
  type OwnerAction,
  type OwnerPort,
  type RelayFault,
} from "#relay/owner.ts";
import type { JobQueue, SlotBoard, Transport, TransportHandlers } from "#relay/ports.ts";
import type { CommandAnswer, GenerationCommand } from "#service/generation-commands.ts";
import { LiveMap } from "#service/live-map.ts";
import type { OperatorControls } from "#service/operator-controls.ts";
import type { Redis } from "#service/redis.ts";
import type { Admission } from "../admission/admission.ts";
import { estimatedUsageOf } from "../admission/estimate.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { RateLimiter, Reserved } from "../admission/rate-limits.ts";
import { redisTryEveryMs, silentWaitMsMax } from "../common/bounds.ts";
import type { Capacity } from "../common/capacity.ts";
import type { IngressConfig } from "../common/config.ts";
import {
  queueCleared,
  queueDraining,
  revokedKey,
  stoppedByOperator,
  unavailable,
  waitExpired,
  waitTooLong,
  workerLost,
} from "../common/failures.ts";
import { Refusal, type Result } from "../common/refusal.ts";
import type { ContentRecorder } from "../content/content-recorder.ts";
import type { SessionSource } from "../request/session.ts";
import { responseFor } from "../response/response-for.ts";
import { billOf } from "./bill.ts";
import { endedEventOf, Generation } from "./generation.ts";
import { GenerationJobs, type GenerationJobsOptions } from "./generation-jobs.ts";
import { claimSlots, type IngressQueue, IngressQueues, retryAfterSecondsOf } from "./ingress-queues.ts";
import { mirroredOf } from "./mirror.ts";
import { placeHeadersOf, placeTextOf } from "./queue-place.ts";
import { type QueueStatistics, runningOf, statisticsOf } from "./running.ts";

export interface GenerationLifecycleOptions extends GenerationJobsOptions {
  config: Pick<IngressConfig, "keepAliveMs" | "redisWaitMs">;
  bounds: RelayBounds;
  mailbox: Transport;
  slotBoard: SlotBoard;
  redis: Redis;
  /** The open queues; the catalogue may add some later. */
  jobQueues: ReadonlyMap<string, JobQueue>;
  /**
   * Generations that are not over or not read to their end, and requests that wait for another's
   * answer.
   */
  slots: Capacity;
  /** Bytes of request bodies, and of answers that another attempt may resume. */
  bodyBytes: Capacity;
  /** Bytes of answers that their callers have not taken. */
  answerBytes: Capacity;
  admission: Pick<Admission, "admit" | "modelFor">;
  limits: RateLimiter;
  content: ContentRecorder;
  isRevoked(keyId: string): boolean;
  /** Writes the usage records of the generations that are over. */
  flushUsage(): unknown;
  /** The decisions of operators about queues. */
  controls: Pick<OperatorControls, "of">;
  events: EventSink<IngressEvents>;
}

export class GenerationLifecycle implements TransportHandlers {
  readonly #options: GenerationLifecycleOptions;
  readonly #jobs: GenerationJobs;
  readonly #queues: IngressQueues;
  readonly #owner: Owner<Generation>;
  /** The generations that are not over, by number. */
  readonly #live = new LiveMap<number, Generation>();
  /** The number of generations that are not over, or not read to their end. */
  #openCount = 0;
  #isStopping = false;
  /** When the link to Redis was last seen to work. */
  #linkedAt = Number.NEGATIVE_INFINITY;
  /** Whether it has been ready. */
  #hasServed = false;
  /** The next step of generations that wait for Redis. */
  readonly #awaitingRedis = new Map<Generation, () => void>();

  constructor(options: GenerationLifecycleOptions) {
    const { self } = options.mailbox;
    this.#options = options;
    this.#jobs = new GenerationJobs(options);
    this.#queues = new IngressQueues(options);
    this.#owner = new Owner<Generation>(self, options.bounds, this.#ownerPort(), this.#now());
  }

  /**
   * Starts a generation. It then owns the response and the body's claim on memory, and always ends
   * the response. A refused request keeps both, and its caller answers it: its model or a header is
   * not valid, this process stops or is not connected, an operator drains this queue, or this
   * process or this queue has no capacity for the key. `source` names the session of a request to
   * a model with several targets or credentials.
   */
  begin(request: GenerationRequest, source?: SessionSource): Refusal | undefined {
    let hasBegun = false;
    try {
      const refusal = this.#begin(request, source);
      hasBegun = refusal === undefined;
      if (!hasBegun) request.http.refusedCall = this.#refusedCallOf(request);
      return refusal;
    } finally {
      if (!hasBegun) request.layers.recording?.claim.end();
    }
  }

  #refusedCallOf({ http, model, queue, endpoint }: GenerationRequest): RefusedCall | undefined {
    const ofCatalogue = this.#options.admission.modelFor(http, model);
    if (ofCatalogue instanceof Refusal) return undefined;
    const { operation, dialect } = endpoint;
    return { model: ofCatalogue.id, queue: queue ?? ofCatalogue.queue, operation, dialect };
  }

  #begin(request: GenerationRequest, source: SessionSource | undefined): Refusal | undefined {
    const { clock, controls, admission, content } = this.#options;
    const admitted = admission.admit(request, source);
    if (admitted instanceof Refusal) return admitted;
    const { model } = admitted;
    const queue = this.#queues.of(model.queue);
    if (this.#isStopping || !this.isReady || queue === undefined) return new Refusal(unavailable);
    const control = controls.of("queue", model.queue, clock.epoch());
    if (control?.state === "draining" && (request.earlier === undefined || request.batch !== undefined))
      return new Refusal(queueDraining(control, clock.epoch()));
    queue.waiting.max = admitted.queue.waitingMax;
    const slots = claimSlots(request.http.caller, queue, this.#options);
    if (slots instanceof Refusal) return slots;
    const response = responseFor({ ...request.layers, content: content.layerOf(request, admitted) });
    const number = this.#owner.takeNumber();
    const listener = {
      committed: () => this.#committed(number),
      taken: (seq: number) => this.#owner.taken(number, seq),
    };
    const generation = new Generation(
      { request, admitted, number, ingressQueue: queue, slots, response, listener },
      this.#options,
    );
    this.#live.set(number, generation);
    this.#openCount++;
    this.#emit("received", generation);
    if (response.closed) this.#responseClosed(generation);
    else {
      response.once("close", () => this.#responseClosed(generation));
      this.#startWaitTimer(generation);
      this.#admit(generation);
    }
    return undefined;
  }

  /** An error in one action ends its generation, and no other one. */
  #applyAll(actions: readonly OwnerAction<Generation>[]): void {
    for (const action of actions)
      try {
        this.#apply(action);
      } catch (error) {
        if (action.kind === "probe") throw error;
        this.#crashed(action.client, error);
      }
  }

  /** Everything that the relay's owner decides. Parts of answers go to `#deliver`. */
  #apply(action: OwnerAction<Generation>): void {
    switch (action.kind) {
      case "enqueue":
        this.#enqueue(action.client, action.attempt);
        break;
      case "bind":
        this.#bind(action.client, action.freeSlots);
        break;
      case "flow":
        action.client.request.input?.flow(action.isOpen);
        break;
      case "restart":
        this.#restart(action.client);
        this.#enqueue(action.client, action.attempt);
        break;
      case "dequeue":
        this.#jobs.dequeue(action.client);
        break;
      case "probe":
        void this.#probe(action.jobs);
        break;
      case "fail":
        this.#fail(action.client, this.#failureOf(action.fault, action.client));
        break;
      default:
        action satisfies never;
    }
  }

  /** A caller without rate limits goes on at once, in the same turn of the event loop. */
  #admit(generation: Generation): void {
    if (!this.#isLinked() || generation.ingressQueue.awaySince !== undefined) {
      this.#awaitRedis(generation, () => this.#admit(generation));
      return;
    }
    generation.admissions++;
    const { isMirrored, vendorBatch } = generation.request;
    const isAnswered = vendorBatch?.answeredBy !== undefined;
    if (isAnswered) generation.reservation = this.#options.limits.chargeOnly(generation);
    const decision = isMirrored === true || isAnswered ? undefined : this.#options.limits.admit(generation);
    if (decision === undefined) this.#queue(generation);
    else this.#awaitLimits(generation, decision).catch((error: unknown) => this.#crashed(generation, error));
  }

  /**
   * Rejected decisions mean that Redis did not answer in time (1.5 s). A reservation that it may
   * have made is a lease, which expires within 6 s; the limits are asked again with another. A
   * refusal reserves nothing.
   */
  async #awaitLimits(generation: Generation, decision: Promise<Result<Reserved>>): Promise<void> {
    const answer = await decision.catch(() => undefined);
    if (answer !== undefined) generation.answer.addHeaders(answer.headers);
    if (answer === undefined) this.#awaitRedis(generation, () => this.#admit(generation));
    else if (answer instanceof Refusal) this.#fail(generation, answer.failure);
    // The caller left, or the wait expired, meanwhile.
    else if (generation.isOver) answer.reservation.cancel();
    else {
      if (generation.state.kind === "limited") {
        generation.slots.waiting.force(1);
        generation.waitsSince = this.#now();
      }
      generation.reservation = answer.reservation;
      generation.fallbacks = answer.fallbacks;
      this.#queue(generation);
    }
  }

  /**
   * Enters the admission queue, which dispatches it at once or when its turn comes: by priority,
   * fair between groups (by weight) and keys by their tokens, and only as many at a time as keep
   * the workers busy for about 50 ms (libs/relay/admission-queue.ts). Requests of one key and
   * priority go in order of arrival. Ingresses tell each other the slots and tokens of keys.
   */
  #queue(generation: Generation): void {
    const { number, ingressQueue, startedAt, admitted } = generation;
    const now = this.#now();
    if (this.#isHopeless(generation, now)) {
      generation.reservation?.cancel();
      generation.reservation = undefined;
      this.#fail(generation, waitTooLong(retryAfterSecondsOf(ingressQueue, now)));
      return;
    }
    this.#emit("admitted", generation);
    const isAnswered = generation.request.vendorBatch?.answeredBy !== undefined;
    if (admitted.model.mirror !== undefined && !isAnswered) setImmediate(() => this.#mirror(generation));
    generation.state = { kind: "queued", queuedMs: now - startedAt };
    this.#boundWait(generation, now);
    this.#emit("queued", generation);
    if (ingressQueue.admission.slots === undefined && ingressQueue.heartbeatsAgo > 0)
      void this.#shareSlots(ingressQueue);
    ingressQueue.admission.admit(number, admitted.share, now, estimatedUsageOf(generation));
    this.#dispatchNext(ingressQueue);
  }

  /**
   * Whether it would probably wait longer than its caller or the queue's operator allows. One that
   * another ingress began waits in any case.
   */
  #isHopeless({ admitted, ingressQueue, startedAt, request }: Generation, now: number): boolean {
    const { maxWaitMs, queue, share } = admitted;
    if ((maxWaitMs === undefined && queue.maxWaitMs === undefined) || request.earlier !== undefined) return false;
    const leftMs = maxWaitMs === undefined ? Number.POSITIVE_INFINITY : startedAt + maxWaitMs - now;
    return ingressQueue.admission.waitMsOf(share, now) > Math.min(leftMs, queue.maxWaitMs ?? leftMs);
  }

  /** Begins a copy, if the draw says so and there is capacity. Its caller notices nothing of it. */
  #mirror({ request, admitted }: Generation): void {
    const copy = mirroredOf(request, admitted.model, Math.random, this.#options.bodyBytes);
    if (copy === undefined) return;
    try {
      if (this.begin(copy) !== undefined) copy.http.bodyClaim.end();
    } catch {
      copy.http.bodyClaim.end();
    }
  }

  /** Dispatches those whose turn has come: the relay's owner takes over and enqueues them. */
  #dispatchNext(ingressQueue: IngressQueue): void {
    const { admission } = ingressQueue;
    const now = this.#now();
    while (admission.waitingSize > 0 && ingressQueue.awaySince === undefined && !this.#isStopping && this.#isLinked()) {
      const number = admission.next(now);
      if (number === undefined) return;
      const generation = this.#live.get(number);
      if (generation === undefined) continue;
      const { startedAt, waitsSince: since, expectation } = generation;
      if (expectation !== undefined)
        this.#options.events.emit("waitMet", {
          generation: generation.facts,
          expectedMs: expectation.ms,
          waitedMs: now - expectation.at,
        });
      generation.state = { ...generation.state, kind: "dispatched", dispatchedMs: now - startedAt };
      this.#applyAll(this.#owner.start(generation, number, { waitMs: generation.admitted.queue.waitMs, now, since }));
    }
  }

  #enqueue(generation: Generation, attempt: number): void {
    const { mailbox, events } = this.#options;
    const since = this.#now();
    generation.attempt = attempt;
    events.emit("dispatched", { generation: generation.facts, attempt });
    this.#jobs.enqueue(generation, attempt, mailbox.self, (isRefused) => {
      // The first attempt fails with 503; a later one is found missing and enqueued again.
      if (isRefused) this.#applyAll(this.#owner.enqueueFailed(generation.number, attempt));
      else this.#enqueueLater(generation, attempt, since);
    });
  }

  /**
   * Redis did not take the job, or did not answer in time: another attempt is enqueued once Redis
   * is back. If the job was added after all, the worker that takes it drops it.
   */
  #enqueueLater(generation: Generation, attempt: number, since: number): void {
    const { ingressQueue, number } = generation;
    if (ingressQueue.awaySince === undefined) {
      ingressQueue.awaySince = since;
      this.#awaitQueue(ingressQueue);
    }
    if (generation.state.kind === "dispatched" && generation.attempt === attempt)
      this.#awaitRedis(generation, () => this.#applyAll(this.#owner.enqueueAgain(number, attempt, this.#now())));
  }

  /** Tries several times a second whether commands to the queue's keys work again. */
  #awaitQueue(queue: IngressQueue): void {
    setTimeout(async () => {
      await this.#shareSlots(queue);
      if (queue.awaySince !== undefined) this.#awaitQueue(queue);
    }, redisTryEveryMs).unref();
  }

  async #shareSlots(queue: IngressQueue): Promise<void> {
    const change = await this.#queues.share(queue);
    if (change === "away") this.#awaitQueue(queue);
    if (change !== "back") return;
    this.#redisIsBack();
    this.#dispatchNext(queue);
  }

  /**
   * Keeps the generation until Redis is back, and then goes on with `then`; for `redisWaitMs` at
   * most.
   */
  #awaitRedis(generation: Generation, then: () => void): void {
    if (generation.isOver) return;
    generation.state = { redisAwaySince: this.#now(), ...generation.state };
    this.#awaitingRedis.set(generation, then);
    if (this.#options.config.redisWaitMs === 0) this.#abandon(generation, unavailable);
  }

  /** Lets those go on whose queues are available. One for which Redis is still away waits again. */
  #redisIsBack(): void {
    if (!this.#isLinked()) return;
    for (const [generation, then] of [...this.#awaitingRedis])
      if (generation.ingressQueue.awaySince === undefined) {
        this.#awaitingRedis.delete(generation);
        then();
      }
  }

  /**
   * A worker took the attempt, and calls no upstream before this. It reports how many further slots
   * it has free.
   */
  #bind(generation: Generation, freeSlots: number): void {
    const { facts, ingressQueue, number, attempt, startedAt, state, request } = generation;
    ingressQueue.jobs.setFreeSlots(freeSlots);
    if (generation.job !== undefined) ingressQueue.jobs.taken(generation.job);
    generation.job = undefined;
    if (state.kind !== "dispatched") return;
    const now = this.#now();
    const waitedMs = now - startedAt;
    const { queuedMs, dispatchedMs } = state;
    this.#stopWaiting(generation);
    this.#awaitingRedis.delete(generation);
    generation.state = { kind: "running", ...(queuedMs !== undefined && { queuedMs }), dispatchedMs, waitedMs };
    ingressQueue.admission.taken(number, now, freeSlots > 0);
    request.onBound?.();
    this.#options.events.emit("bound", { generation: facts, attempt, waitedMs });
    this.#dispatchNext(ingressQueue);
  }

  /**
   * The worker or the job was lost: the owner enqueues another attempt, which starts from the
   * beginning or resumes the delivered part.
   */
  #restart(generation: Generation): void {
    const { answer, ingressQueue, number } = generation;
    this.#emit("restarted", generation);
    answer.restart();
    if (!answer.hasBegun) generation.progress = undefined;
    ingressQueue.admission.again(number);
    // If only the job was lost, the generation never stopped waiting.
    if (generation.state.kind !== "running") return;
    generation.state = { ...generation.state, kind: "dispatched" };
    // It counts as waiting again, even above the bound.
    generation.slots.waiting.force(1);
    if (!answer.hasBegun) this.#startWaitTimer(generation);
  }

  /** One frame of the answer, in order. */
  #deliver(generation: Generation, kind: AnswerKind, payload: Buffer, seq: number): void {
    const { answer } = generation;
    switch (kind) {
      case "head": {
        const head = decodeHead(payload);
        if (head === undefined) this.#abandon(generation, internalFailure);
        else {
          this.#answering(generation, head);
          answer.head(head, seq);
          generation.request.input?.open((input) => this.#applyAll(this.#owner.input(generation.number, input)));
        }
        return;
      }
      case "data": {
        const { outputTokens, bytes } = decodeData(payload);
        const now = this.#now();
        updateProgress(generation, generation.progress, outputTokens);
        this.#contentArrived(generation, bytes.length, now);
        answer.data(bytes, seq, now);
        return;
      }
      case "usage": {
        const progress = decodeProgress(payload);
        generation.source = progress?.source ?? generation.source;
        updateProgress(generation, progress, progress?.outputTokens);
        answer.passed(seq);
        this.#charge(generation);
        return;
      }
      case "end": {
        const { usage, model, source, isDeferred } = decodeEnd(payload);
        generation.usage = usage;
        generation.isDeferred = isDeferred === true;
        generation.source = source;
        if (model !== undefined) generation.modelAnswered = model;
        this.#end(generation, "complete", () => answer.end());
        return;
      }
      case "fail": {
        const answer: AnswerFailure = decodeFailure(payload) ?? internalFailure;
        const { source = generation.source, model, usage, ...failure } = answer;
        if (failure.isPaid) generation.paidAnswer = { model: model ?? generation.admitted.model.id, usage };
        generation.upstreamRequestId = failure.upstreamRequestId ?? generation.upstreamRequestId;
        generation.source = source;
        this.#fail(generation, failure);
        return;
      }
      default:
        kind satisfies never;
    }
  }

  /**
   * A session is billed while it runs, and ends when its caller's limits on tokens or money are
   * reached.
   */
  #charge(generation: Generation): void {
    const { request, reservation } = generation;
    if (operations[request.endpoint.operation].isSession !== true || reservation === undefined) return;
    const bill = billOf(generation, undefined, generation.facts.receivedAt);
    if (bill === undefined) return;
    reservation
      .charge(bill)
      .then((refusal) => {
        if (refusal !== undefined && !generation.isOver) this.#abandon(generation, refusal);
      })
      .catch((error: unknown) => this.#crashed(generation, error));
  }

  #answering(generation: Generation, { status, headers }: AnswerHead): void {
    const upstreamRequestId = headers[upstreamRequestIdHeader];
    generation.upstreamRequestId = upstreamRequestId;
    this.#options.events.emit("answering", { generation: generation.facts, status, upstreamRequestId });
  }

  #contentArrived(generation: Generation, bytes: number, now: number): void {
    const { events } = this.#options;
    const { facts, contentAt, startedAt } = generation;
    generation.contentAt = now;
    generation.chunks++;
    generation.answerBytes += bytes;
    if (contentAt === undefined) {
      const firstTokenMs = now - startedAt;
      generation.firstTokenMs = firstTokenMs;
      events.emit("firstContent", { generation: facts, firstTokenMs });
    }
    if (events.has("chunk"))
      events.emit("chunk", {
        generation: facts,
        bytes,
        gapMs: contentAt === undefined ? undefined : now - contentAt,
      });
  }

  /** An error in the gateway's own code ends this generation alone. */
  #crashed(generation: Generation, error: unknown): void {
    this.#options.events.emit("fault", { error, requestId: generation.request.requestId });
    try {
      if (generation.isOver) generation.response.destroy();
      else this.#abandon(generation, internalFailure);
    } catch {
      generation.response.destroy();
    }
  }

  /**
   * The response is closed: the caller read it to its end, or disconnected. The slot is held until
   * the generation is over and its response closed.
   */
  #responseClosed(generation: Generation): void {
    if (generation.isOver) this.#freeSlot(generation);
    else {
      const { answer, request, number } = generation;
      this.#applyAll(this.#owner.leave(number));
      // Either side may end a session that has begun.
      this.#end(
        generation,
        operations[request.endpoint.operation].isSession === true && answer.hasBegun ? "complete" : "left",
      );
    }
  }

  #expireWait(generation: Generation): void {
    if (generation.state.kind === "limited") this.#options.limits.leave(generation);
    else if (generation.isWaiting) this.#abandon(generation, this.#waitExpired(generation));
  }

  /** Fails the generation on this side's decision; a worker that has it is stopped. */
  #abandon(generation: Generation, failure: Failure): void {
    this.#applyAll(this.#owner.leave(generation.number));
    this.#fail(generation, failure);
  }

  #fail(generation: Generation, failure: Failure): void {
    this.#end(generation, failure.code, () => generation.answer.fail(failure));
  }

  /**
   * The usage is recorded before the caller has the end: near a limit its next request finds the
   * released reservation. Nothing in this turn of the event loop finds the generation any more.
   */
  #end(generation: Generation, outcome: GenerationOutcome, respond?: () => void): void {
    if (generation.isOver) return;
    this.#recordUsage(generation, outcome);
    if (generation.isWaiting) this.#stopWaiting(generation);
    const isLimited = generation.state.kind === "limited";
    generation.state = { ...generation.state, kind: "over" };
    if (isLimited) this.#options.limits.leave(generation);
    this.#forget(generation);
    if (generation.reservation === undefined) this.#respond(generation, outcome, respond);
    else
      queueMicrotask(() => {
        try {
          this.#respond(generation, outcome, respond);
        } catch (error) {
          this.#crashed(generation, error);
        }
      });
  }

  #respond(generation: Generation, outcome: GenerationOutcome, respond: (() => void) | undefined): void {
    try {
      respond?.();
    } finally {
      this.#release(generation, outcome);
    }
  }

  #forget(generation: Generation): void {
    const { ingressQueue, number, startedAt, state } = generation;
    const { waitedMs } = state;
    const now = this.#now();
    this.#live.delete(number);
    this.#awaitingRedis.delete(generation);
    const ranMs = waitedMs === undefined ? undefined : now - startedAt - waitedMs;
    ingressQueue.admission.over(number, ranMs, now, generation.bill?.usage);
  }

  /** Releases everything except the slot, which the open response holds. */
  #release(generation: Generation, outcome: GenerationOutcome): void {
    const { answer, ingressQueue } = generation;
    generation.request.onEnd?.(outcome);
    if (generation.response.closed) this.#freeSlot(generation);
    this.#jobs.releaseBody(generation);
    answer.forget();
    this.#options.events.emit("ended", endedEventOf(generation, outcome, this.#now()));
    this.#dispatchNext(ingressQueue);
  }

  /**
   * After the drain (see `Ingress.drain`): ends all generations that are left with this failure, in
   * their callers' dialects, and dispatches no more.
   */
  stop(failure: Failure): void {
    this.#isStopping = true;
    for (const generation of this.#live.values()) this.#abandon(generation, failure);
  }

  /** Obeys an operator. Generations that are over are left alone. */
  obey(command: GenerationCommand): CommandAnswer {
    const now = this.#now();
    switch (command.kind) {
      case "list":
        return runningOf(this.#live.values(), command.filter, command.limit, {
          workerOf: (number) => this.#owner.workerOf(number),
          placeOf: (generation) => this.#placeOf(generation, now),
        });
      case "stop":
        return this.#endMatching(
          stoppedByOperator(command.reason),
          ({ facts }) => facts.generationId === command.generation,
        );
      case "clear":
        return this.#endMatching(
          queueCleared(command.reason),
          (generation) => generation.facts.queue === command.queue && generation.isWaiting,
        );
    }
  }

  #endMatching(failure: Failure, matches: (generation: Generation) => boolean): CommandAnswer {
    const ended = [...this.#live.values()].filter(matches);
    for (const generation of ended) this.#abandon(generation, failure);
    return { count: ended.length };
  }

  /** Call it with every heartbeat. */
  tick(): void {
    const now = this.#now();
    this.#endHopeless(now);
    this.#applyAll(this.#owner.tick(now));
    for (const queue of this.#queues.all) {
      if (this.#queues.isShareDue(queue)) void this.#shareSlots(queue);
      this.#dispatchNext(queue);
    }
    for (const generation of this.#live.values()) {
      if (isKeptAlive(generation)) this.#keepAlive(generation, now);
      if (generation.state.kind === "dispatched") this.#jobs.renewBody(generation, now);
    }
  }

  /** Tells the caller of a waiting generation its place, in the head if it begins now. */
  #keepAlive(generation: Generation, now: number): void {
    const { answer, state, tellsPlace } = generation;
    const { keepAliveMs } = this.#options.config;
    const hasPlace = state.kind === "queued" || state.kind === "limited";
    const isDue = hasPlace && answer.isSilent(now, tellsPlace ? 0 : keepAliveMs);
    const place = isDue ? this.#placeOf(generation, now) : undefined;
    if (place !== undefined) answer.addHeaders(placeHeadersOf(place));
    if (place?.seconds !== undefined && state.kind === "queued")
      generation.expectation ??= { ms: (place.seconds.from + place.seconds.to) * 500, at: now };
    if (place !== undefined && tellsPlace) answer.comment(placeTextOf(place), now);
    else answer.keepAlive(now, keepAliveMs);
  }

  /**
   * Ends generations of revoked keys in any state, those that have waited for Redis too long, and
   * queued ones that cannot be dispatched in time. The owner ends dispatched ones whose time is up.
   */
  #endHopeless(now: number): void {
    const { config, isRevoked } = this.#options;
    const isLost = this.#owner.isLost(now);
    for (const generation of this.#live.values()) {
      if (isRevoked(generation.request.http.caller.id)) this.#abandon(generation, revokedKey);
      else if (now - (awaySinceOf(generation) ?? now) > config.redisWaitMs) this.#abandon(generation, unavailable);
      else if (generation.state.kind !== "queued") continue;
      else if (isLost) this.#fail(generation, unavailable);
      else if (now - generation.waitsSince >= generation.admitted.queue.waitMs) this.#expireWait(generation);
    }
  }

  heard(sender: string): void {
    this.#owner.heard(sender, this.#now());
    if (sender === this.#options.mailbox.self) this.#redisIsBack();
  }

  receive(sender: string, frame: Frame): void {
    this.#applyAll(this.#owner.receive(sender, frame, this.#now()));
  }

  resubscribed(): void {
    this.tick();
  }

  /**
   * The worker seems to be gone, so it is no witness of its generations any more
   * (`usage-backup.ts`), and this process may die before it gives up those that cannot start again.
   */
  unreachable(worker: string): void {
    for (const generation of this.#owner.boundTo(worker)) {
      if (generation.isWitnessed || generation.answer.mayRestart) continue;
      generation.isWitnessed = true;
      this.#options.events.emit("witnessed", endedEventOf(generation, workerLost.code, this.#now()));
    }
    this.#options.flushUsage();
  }

  /**
   * True if a new generation can expect an answer: Redis is there, or has been away for less than a
   * new request waits.
   */
  get isReady(): boolean {
    return this.#isLinked() || this.#now() - this.#linkedAt < this.#options.config.redisWaitMs;
  }

  /**
   * Whether this process hears its own heartbeats. Whether Redis has the keys of a queue, only a
   * command to them tells.
   */
  #isLinked(): boolean {
    const now = this.#now();
    const isLinked = this.#options.mailbox.isConnected && this.#owner.isLinked(now);
    if (isLinked) this.#linkedAt = now;
    return isLinked;
  }

  /**
   * Why new callers should go to another ingress; undefined if this one can serve them. A queue
   * whose workers all have another protocol keeps an ingress from becoming ready; one that serves
   * goes on as long as it can serve any queue.
   */
  get notReady(): string | undefined {
    if (!this.isReady) return "no link to Redis";
    const queues = this.#queues.all;
    const other = queues.find(({ workers }) => workers === "other");
    if (other !== undefined && (!this.#hasServed || queues.every(({ workers }) => workers !== "some")))
      return `the workers of the queue ${other.jobs.name} have another protocol`;
    if (!this.#hasServed && this.isStarting) return "starting";
    this.#hasServed = true;
    return undefined;
  }

  /** Whether it has not heard from Redis, or about the workers of a queue, since its start. */
  get isStarting(): boolean {
    return !this.isReady || this.#queues.all.some(({ workers }) => workers === "unknown");
  }

  /** Generations that are not over, or not read to their end. */
  get size(): number {
    return this.#openCount;
  }

  /** The bounds on waiting generations, by queue. */
  get waiting(): [queue: string, Capacity][] {
    return this.#queues.waiting;
  }

  #placeOf(generation: Generation, now: number): QueuePlace | undefined {
    const { state, ingressQueue, number } = generation;
    if (state.kind === "limited") return this.#options.limits.placeOf(generation);
    return ingressQueue.admission.placeOf(number, now);
  }

  statistics(): QueueStatistics[] {
    return statisticsOf(this.#queues.all, this.#live.values(), this.#now());
  }

  /** The calls of the owner that cannot wait for `#apply`. */
  #ownerPort(): OwnerPort<Generation> {
    const { mailbox } = this.#options;
    return {
      send: (to, frame, urgency) => mailbox.send(to, frame, urgency),
      heartbeat: (to) => mailbox.heartbeat(to),
      // Nothing was delivered yet; or the model has `resume`, and what was delivered ends with a
      // whole event and is still kept.
      mayRestart: ({ answer }) => answer.mayRestart,
      deliver: (generation, kind, payload, seq) => {
        try {
          this.#deliver(generation, kind, payload, seq);
        } catch (error) {
          this.#crashed(generation, error);
        }
      },
    };
  }

  /** Asks the queues for the states of these jobs and reports them to the owner. Never rejects. */
  async #probe(jobs: readonly AttemptJob<Generation>[]): Promise<void> {
    try {
      const states = await this.#jobs.statesOf(jobs.map(({ client }) => client));
      const now = this.#now();
      for (const [index, { client, number, attempt }] of jobs.entries()) {
        const state = states[index] as JobState;
        if (state !== "waiting") client.ingressQueue.admission.gone(number);
        this.#applyAll(this.#owner.probed(number, attempt, state, now));
      }
      for (const queue of this.#queues.all) this.#dispatchNext(queue);
    } catch {
      this.#owner.probeFailed();
    }
  }

  #failureOf(fault: RelayFault, generation: Generation): Failure {
    const failures = { unavailable, worker_lost: workerLost, wait_expired: this.#waitExpired(generation) };
    return failures[fault];
  }

  /** The answer can no longer be restarted or resumed, so its body is not needed. */
  #committed(number: number): void {
    const generation = this.#live.get(number);
    if (generation !== undefined) this.#jobs.releaseBody(generation);
  }

  /**
   * `x-sluice-max-wait` counts from the beginning, over all attempts, until a worker takes one. An
   * answer that has begun may wait to be resumed.
   */
  #startWaitTimer(generation: Generation): void {
    const { startedAt, admitted } = generation;
    const { maxWaitMs } = admitted;
    if (maxWaitMs !== undefined) this.#expireWaitAfter(generation, startedAt + maxWaitMs - this.#now());
  }

  /**
   * The operator's bound counts from the queue on: what was expected to be in time, and is not,
   * ends as well. One that another ingress began waits in any case.
   */
  #boundWait(generation: Generation, now: number): void {
    const { startedAt, admitted, request } = generation;
    const { maxWaitMs: ofQueue } = admitted.queue;
    if (ofQueue === undefined || request.earlier !== undefined) return;
    const { maxWaitMs: ofCaller = Number.POSITIVE_INFINITY } = admitted;
    this.#expireWaitAfter(generation, Math.min(ofQueue, startedAt + ofCaller - now));
  }

  #expireWaitAfter(generation: Generation, waitMs: number): void {
    clearTimeout(generation.waitTimer);
    generation.waitTimer = setTimeout(() => this.#expireWait(generation), Math.max(0, waitMs));
  }

  #stopWaiting(generation: Generation): void {
    clearTimeout(generation.waitTimer);
    generation.slots.waiting.hold(0);
  }

  #waitExpired({ ingressQueue, facts }: Generation): Failure {
    const { clock, controls } = this.#options;
    const control = controls.of("queue", facts.queue, clock.epoch());
    const reason = control?.state === "paused" ? control.reason : undefined;
    return waitExpired(retryAfterSecondsOf(ingressQueue, this.#now()), reason);
  }

  /**
   * Runs once. The id of a reservation ensures that it is settled once, even if Redis must be asked
   * again.
   */
  #recordUsage(generation: Generation, outcome: GenerationOutcome): void {
    if (generation.isUsageRecorded) return;
    generation.isUsageRecorded = true;
    const bill = billOf(generation, outcome, generation.facts.receivedAt);
    generation.bill = bill;
    if (bill !== undefined) generation.modelAnswered = bill.model;
    // Redis went away before a worker had it: its request does not count.
    if (outcome === unavailable.code && generation.state.waitedMs === undefined) generation.reservation?.cancel();
    else generation.reservation?.settle(bill);
  }

  /** May be called twice for a response that closes while it ends. */
  #freeSlot({ slots }: Generation): void {
    if (slots.all.amount === 0) return;
    slots.all.end();
    this.#openCount--;
  }

  #emit(kind: "received" | "admitted" | "queued" | "restarted", { facts }: Generation): void {
    this.#options.events.emit(kind, { generation: facts });
  }

  #now(): number {
    return this.#options.clock.now();
  }
}

/**
 * A generation that waits for its limits only for a while is silent, so that its refusal still has
 * the status 429.
 */
function isKeptAlive({ state, startedAt, tellsPlace }: Generation): boolean {
  if (state.kind === "limited") return tellsPlace || state.until - startedAt > silentWaitMsMax;
  return state.kind !== "admitting";
}

/**
 * Since when it waits for Redis; undefined while it does not. One that was queued before Redis went
 * away may wait longer.
 */
function awaySinceOf({ state, startedAt, ingressQueue }: Generation): number | undefined {
  const { awaySince } = ingressQueue;
  if (state.kind !== "queued") return state.redisAwaySince;
  return awaySince !== undefined && startedAt >= awaySince ? startedAt : undefined;
}

/**
 * An attempt that resumes another's answer may know fewer tokens than that one did. The tokens
 * of a session may be fewer than was estimated.
 */
function updateProgress(generation: Generation, progress: AnswerProgress | undefined, outputTokens = 0): void {
  const mayResume = generation.answer.hasBegun && operations[generation.request.endpoint.operation].isSession !== true;
  const before = mayResume ? (generation.progress?.outputTokens ?? 0) : 0;
  generation.progress = progress;
  if (progress !== undefined) progress.outputTokens = Math.max(before, outputTokens);
}
