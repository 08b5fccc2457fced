/**
 * The path of a generation through an ingress:
 *
 *     admitted ─▶ its turn at the queue's gate ─▶ owned by the relay ─▶ its job on a queue ─▶ … frames … ─▶ the caller's socket
 *
 * The relay's owner decides; this file does what it says: jobs, bodies, answers. What is held back at the gate is none of the owner's yet: it is
 * not on the queue and can't be lost there.
 */
import type { Redis } from "ioredis";
import type { Logger } from "pino";
import type { Failure } from "#dialects/errors.ts";
import { AdmissionQueue } from "#relay/admission-queue.ts";
import { relayBounds } from "#relay/bounds.ts";
import {
  type AnswerEnd,
  type AnswerProgress,
  decodeData,
  decodeEnd,
  decodeFailure,
  decodeHead,
  decodeProgress,
  upstreamRequestIdHeader,
} from "#relay/job.ts";
import type { JobQueue } from "#relay/job-queue.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { Mailbox } from "#relay/mailbox.ts";
import { type AnswerKind, type JobState, Owner, type OwnerPort, type RelayFault } from "#relay/owner.ts";
import { announce } from "#relay/queue-slots.ts";
import { Capacity } from "../admission/capacity.ts";
import type { LimitsHold, RateLimiter } from "../admission/rate-limits.ts";
import type { IngressConfig } from "../config.ts";
import { overloadOf, unavailable } from "../http/failures.ts";
import type { IngressMetrics } from "../metrics.ts";
import { type Generation, type GenerationOutcome, type GenerationRequest, logLineOf, takenBy } from "./generation.ts";
import { GenerationJobs, type GenerationJobsOptions } from "./generation-jobs.ts";
import { GenerationResponse } from "./generation-response.ts";

export interface GenerationsOptions extends GenerationJobsOptions {
  config: IngressConfig;
  /** Generations that are not over, or not read to their end, and requests that wait for another's answer. */
  slots: Capacity;
  /** Bytes of request bodies, and of what is remembered of answers. */
  bodyBytes: Capacity;
  /** Bytes of answers that their callers have not taken. */
  answerBytes: Capacity;
  redis: Redis;
  jobQueues: ReadonlyMap<string, JobQueue>;
  limits: RateLimiter;
  /** By the id of a key's record. */
  isRevoked(keyId: string): boolean;
  metrics: IngressMetrics;
  log: Logger;
}

export type Begun = { kind: "begun" } | { kind: "refused"; failure: Failure };

const faults: Record<Exclude<RelayFault, "wait_expired">, Failure> = {
  unavailable,
  worker_lost: { code: "worker_lost", message: "The process that ran this request was lost; send it again." },
};

/** Begins as the clients expect it of a key that is not valid. */
const revokedKey: Failure = {
  code: "invalid_key",
  message: "Incorrect API key provided: it was revoked while this request was running.",
};

/** A worker sent what none of ours sends. */
const unreadable: Failure = { code: "internal", message: "The gateway failed to process this request." };

export class Generations {
  readonly #options: GenerationsOptions;
  readonly #jobs: GenerationJobs;
  readonly #live = new LiveMap<number, Generation>();
  /** Over, but for what the caller has not read. */
  readonly #unread = new LiveMap<number, Generation>();
  /** By queue: those that wait for a runner. */
  readonly #waiting = new Map<string, Capacity>();
  /** What they hold are the generations' numbers. */
  readonly #admissionQueues = new Map<string, AdmissionQueue<number>>();
  #closing = false;
  /** When a job last could not be put on its queue, and when own heartbeats last showed that Redis serves. */
  #enqueueFailedAt = -1;
  #selfHeardAt = 0;
  readonly #now = () => performance.now();
  #mailbox: Mailbox | undefined;
  #owner: Owner<Generation> | undefined;

  constructor(options: GenerationsOptions) {
    this.#options = options;
    this.#jobs = new GenerationJobs(options);
  }

  /** Call it once, before anything else, with the mailbox whose handlers are `heard`, `receive` and `tick`. */
  attach(mailbox: Mailbox): void {
    this.#mailbox = mailbox;
    this.#owner = new Owner<Generation>(mailbox.self, relayBounds, this.#portOf(mailbox), this.#now());
    this.tick();
  }

  heard(sender: string): void {
    if (sender === this.#mailbox?.self) this.#selfHeardAt = this.#now();
    this.#owner?.heard(sender, this.#now());
  }

  receive(sender: string, frame: Parameters<Owner<Generation>["receive"]>[1]): void {
    this.#owner?.receive(sender, frame, this.#now());
  }

  /** Call it every heartbeat, and when the mailbox is subscribed anew. */
  tick(): void {
    const now = this.#now();
    const lost = this.#owner?.isLost(now) === true;
    for (const generation of this.#live.values()) {
      if (this.#options.isRevoked(generation.caller.id)) {
        this.#giveUp(generation, revokedKey);
        continue;
      }
      if (!generation.admissionQueue.holds(generation.number)) continue;
      if (lost) this.#fail(generation, faults.unavailable);
      else if (now - generation.startedAt >= generation.queue.waitMs) this.#expire(generation);
    }
    this.#owner?.tick(now);
    for (const [queue, admissionQueue] of this.#admissionQueues) {
      this.#shareSlots(queue, admissionQueue);
      admissionQueue.pump(now);
    }
    for (const generation of this.#live.values()) {
      if (!generation.isAsking) generation.answer.keepAlive(now, this.#options.config.keepAliveMs);
      if (generation.state === "waiting" && !generation.admissionQueue.holds(generation.number))
        this.#jobs.renewBody(generation, now);
    }
  }

  /** Generations that are not over, or not read to their end. */
  get size(): number {
    return this.#live.size + this.#unread.size;
  }

  /** Can a generation be begun, with hope of an answer? */
  get isReady(): boolean {
    return (
      this.#options.redis.status === "ready" &&
      this.#mailbox?.isConnected === true &&
      this.#selfHeardAt > this.#enqueueFailedAt &&
      this.#owner?.isLinked(this.#now()) === true
    );
  }

  /**
   * Takes over the response: it is answered in any case, unless this refuses, and whether its caller has left already or leaves later. What the body holds
   * is taken over as well, and given back here.
   */
  begin(request: GenerationRequest, body: Buffer): Begun {
    const jobQueue = this.#options.jobQueues.get(request.model.queue);
    const owner = this.#owner;
    if (!this.isReady || owner === undefined || jobQueue === undefined)
      return { kind: "refused", failure: faults.unavailable };
    const now = this.#now();
    const { queue, weight, caller, held } = request;
    const { slots, bodyBytes, answerBytes, metrics } = this.#options;
    const waiting = this.#waitingOn(jobQueue.name);
    waiting.max = queue.waitingMax;
    const [slot, waitingSlot] = [slots.claim(caller.id), waiting.claim(caller.id)];
    for (const [limit, claim] of [
      ["generations", slot],
      ["waiting", waitingSlot],
    ] as const) {
      const shortage = claim.hold(1);
      if (shortage === undefined) continue;
      slot.end();
      return { kind: "refused", failure: overloadOf(metrics, limit, shortage, this.#retryAfterSeconds(jobQueue.name)) };
    }
    held.hold(body.length);
    const number = owner.takeNumber();
    const generation: Generation = {
      ...request,
      held: held.move(),
      slot,
      waitingSlot,
      number,
      jobQueue,
      queued: undefined,
      admissionQueue: this.#admissionQueueOf(jobQueue.name),
      expiry: undefined,
      admittedAt: Date.now(),
      startedAt: now,
      state: "waiting",
      body,
      bodyBytes: body.length,
      bodyRenewedAt: now,
      contentAt: 0,
      waitedMs: undefined,
      firstTokenMs: undefined,
      usage: null,
      progress: undefined,
      upstreamRequestId: undefined,
      answeredBy: request.model.id,
      isAsking: true,
      hold: undefined,
      isSettled: false,
      answer: new GenerationResponse(
        {
          ...request,
          model: request.model.id,
          resumed: request.model.resume,
          deliveredClaim: bodyBytes.claim(caller.id),
          heldBack: answerBytes.claim(caller.id),
          listener: {
            committed: () => this.#jobs.releaseBody(generation),
            taken: (seq) => owner.taken(number, seq),
          },
        },
        now,
      ),
    };
    this.#live.set(number, generation);
    if (request.response.closed) {
      this.#closed(generation);
      return { kind: "begun" };
    }
    request.response.once("close", () => this.#closed(generation));
    this.#expireInTime(generation);
    this.#limited(generation, () => {
      generation.admissionQueue.admit(number, { group: caller.group, weight, key: caller.id }, this.#now());
    });
    return { kind: "begun" };
  }

  /** Goes on with what the caller's limits admit, at once where there are none. */
  #limited(generation: Generation, goOn: () => void): void {
    const asked = this.#options.limits.admit(generation);
    if (asked === undefined) {
      generation.isAsking = false;
      goOn();
      return;
    }
    const answered = (failure: Failure | undefined, hold?: LimitsHold) => {
      generation.isAsking = false;
      if (generation.state === "over") hold?.settle({ kind: "nothing" });
      else if (failure !== undefined) this.#fail(generation, failure);
      else {
        generation.hold = hold;
        goOn();
      }
    };
    asked.then(
      (answer) => {
        generation.answer.addHeaders(answer.headers);
        if (answer.kind === "refused") answered(answer.failure);
        else answered(undefined, answer.hold);
      },
      () => answered(faults.unavailable),
    );
  }

  /** Ends all that is left, each with an error in its caller's dialect. */
  failAll(failure: Failure): void {
    this.#closing = true;
    for (const generation of this.#live.values()) {
      generation.answer.fail(failure);
      this.#owner?.leave(generation.number);
      this.#over(generation, failure.code);
    }
  }

  /**
   * By queue: how many wait and run here, how many of those that wait are held back, how long the oldest has waited, and how many places the workers have
   * that no other ingress takes (undefined where that is not known).
   */
  statistics(): {
    queue: string;
    slots: number | undefined;
    waiting: number;
    held: number;
    running: number;
    oldestWaitMs: number;
  }[] {
    const now = this.#now();
    const queues = new Map(
      [...this.#options.jobQueues.keys()].map((queue) => {
        const { heldSize: held, slots } = this.#admissionQueueOf(queue);
        return [queue, { queue, slots, waiting: 0, held, running: 0, oldestWaitMs: 0 }];
      }),
    );
    for (const { state, jobQueue, startedAt } of this.#live.values()) {
      const queue = queues.get(jobQueue.name);
      if (queue === undefined || state === "over") continue;
      queue[state]++;
      if (state === "waiting") queue.oldestWaitMs = Math.max(queue.oldestWaitMs, now - startedAt);
    }
    return [...queues.values()];
  }

  /** While Redis does not say how many places a queue has, its keys do not share them. */
  #shareSlots(queue: string, admissionQueue: AdmissionQueue<number>): void {
    const { redis, keyspace } = this.#options;
    const name = this.#mailbox?.self;
    if (name === undefined || redis.status !== "ready") {
      admissionQueue.setSlots(undefined);
      return;
    }
    announce(redis, keyspace.queueSlots(queue), name, { slots: 0, running: admissionQueue.runningSize }).then(
      ({ slots, running }) => admissionQueue.setSlots(slots === 0 ? undefined : slots - running),
      () => admissionQueue.setSlots(undefined),
    );
  }

  /** Those that wait for a runner, by queue. */
  get waiting(): ReadonlyMap<string, Capacity> {
    return this.#waiting;
  }

  #waitingOn(queue: string): Capacity {
    let waiting = this.#waiting.get(queue);
    if (waiting === undefined) {
      waiting = new Capacity(0);
      this.#waiting.set(queue, waiting);
    }
    return waiting;
  }

  #admissionQueueOf(queue: string): AdmissionQueue<number> {
    let admissionQueue = this.#admissionQueues.get(queue);
    if (admissionQueue === undefined) {
      admissionQueue = new AdmissionQueue<number>({
        isOpen: () => !this.#closing && this.isReady,
        release: (number) => {
          const generation = this.#live.get(number);
          if (generation !== undefined)
            this.#owner?.start(generation, number, generation.queue.waitMs, this.#now(), generation.startedAt);
        },
      });
      this.#admissionQueues.set(queue, admissionQueue);
    }
    return admissionQueue;
  }

  #retryAfterSeconds(queue: string): number {
    return this.#admissionQueueOf(queue).retryAfterSeconds(this.#waitingOn(queue).used, this.#now());
  }

  #portOf(mailbox: Mailbox): OwnerPort<Generation> {
    const { metrics } = this.#options;
    return {
      send: mailbox.send,
      heartbeat: mailbox.heartbeat,
      enqueue: (generation, _number, attempt) => {
        const enqueuedAt = this.#now();
        this.#jobs.enqueue(generation, attempt, mailbox.self, (isRefused) =>
          this.#enqueueFailed(generation, attempt, enqueuedAt, isRefused),
        );
      },
      dequeue: (generation) => this.#jobs.dequeue(generation),
      probe: (jobs) => void this.#probe(jobs),
      bound: (generation, freeSlots) => {
        generation.jobQueue.setFreeSlots(freeSlots);
        generation.queued = undefined;
        this.#runs(generation);
      },
      mayRestart: ({ answer }) => answer.mayRestart,
      restart: (generation) => {
        metrics.restarts.inc({ queue: generation.jobQueue.name });
        generation.answer.restart();
        if (!generation.answer.hasBegun) generation.progress = undefined;
        generation.admissionQueue.again(generation.number);
        if (generation.state === "running") {
          generation.state = "waiting";
          generation.waitingSlot.force(1);
          if (!generation.answer.hasBegun) this.#expireInTime(generation);
        }
      },
      deliver: (generation, kind, payload, seq) => {
        try {
          this.#deliver(generation, kind, payload, seq);
        } catch (error) {
          this.#crashed(generation, error);
        }
      },
      fail: (generation, fault) =>
        this.#fail(generation, fault === "wait_expired" ? this.#waitExpired(generation) : faults[fault]),
    };
  }

  #deliver(generation: Generation, kind: AnswerKind, payload: Buffer, seq: number): void {
    const now = this.#now();
    switch (kind) {
      case "head": {
        const head = decodeHead(payload);
        if (head === undefined) this.#giveUp(generation, unreadable);
        else {
          generation.upstreamRequestId = head.headers[upstreamRequestIdHeader];
          generation.answer.head(head, seq);
        }
        return;
      }
      case "data": {
        const { outputTokens, bytes } = decodeData(payload);
        this.#produced(generation, generation.progress, outputTokens);
        this.#measure(generation, now);
        generation.answer.data(bytes, seq, now);
        return;
      }
      case "usage": {
        const progress = decodeProgress(payload);
        this.#produced(generation, progress, progress?.outputTokens);
        generation.answer.passed(seq);
        return;
      }
      case "end":
        this.#ended(generation, decodeEnd(payload));
        this.#settle(generation, "complete");
        generation.answer.end();
        this.#over(generation, "complete");
        return;
      case "fail": {
        const failure = decodeFailure(payload) ?? unreadable;
        generation.upstreamRequestId = failure.upstreamRequestId ?? generation.upstreamRequestId;
        this.#fail(generation, failure);
        return;
      }
      default:
        kind satisfies never;
    }
  }

  /** A fault of ours while an answer is delivered ends that answer alone, and at once. */
  #crashed(generation: Generation, error: unknown): void {
    this.#options.log.error(
      { err: error, requestId: generation.requestId },
      "request failed by a fault of the gateway",
    );
    try {
      this.#giveUp(generation, unreadable);
    } catch {
      generation.response.destroy();
    }
  }

  async #probe(jobs: { client: Generation; number: number; attempt: number }[]): Promise<void> {
    const owner = this.#owner as Owner<Generation>;
    try {
      const states = await this.#jobs.statesOf(jobs.map(({ client }) => client));
      for (const [index, { client, number, attempt }] of jobs.entries()) {
        const state = states[index] as JobState;
        if (state !== "waiting") client.admissionQueue.gone(client.number, this.#now());
        owner.probed(number, attempt, state, this.#now());
      }
    } catch {
      owner.probeFailed();
    }
  }

  #measure(generation: Generation, now: number): void {
    const { firstToken, tokenGap } = this.#options.metrics;
    const queue = generation.jobQueue.name;
    if (generation.contentAt === 0) {
      generation.firstTokenMs = now - generation.startedAt;
      firstToken.observe({ queue }, generation.firstTokenMs / 1_000);
    } else tokenGap.observe({ queue }, (now - generation.contentAt) / 1_000);
    generation.contentAt = now;
  }

  #giveUp(generation: Generation, failure: Failure): void {
    this.#owner?.leave(generation.number);
    this.#fail(generation, failure);
  }

  #fail(generation: Generation, failure: Failure): void {
    this.#options.metrics.errors.inc({ code: failure.code });
    this.#settle(generation, failure.code);
    generation.answer.fail(failure);
    this.#over(generation, failure.code);
  }

  /**
   * A write that Redis refused, or did not take while it passed this process' own heartbeats on, fails alone. Otherwise Redis may be away: what came to be held back since then
   * fails with it, so that no caller waits for more than one time limit to learn that nothing can be enqueued.
   */
  #enqueueFailed({ admissionQueue, number }: Generation, attempt: number, since: number, isRefused: boolean): void {
    const isAlone = isRefused || this.#selfHeardAt > since;
    if (!isAlone) this.#enqueueFailedAt = this.#now();
    this.#owner?.enqueueFailed(number, attempt);
    if (isAlone) return;
    for (const generation of this.#live.values())
      if (
        generation.admissionQueue === admissionQueue &&
        admissionQueue.holds(generation.number) &&
        generation.startedAt >= since
      )
        this.#fail(generation, faults.unavailable);
  }

  #waitExpired({ jobQueue }: Generation): Failure {
    const message = "The request waited for as long as it may; try again later.";
    return { code: "overloaded", message, retryAfterSeconds: this.#retryAfterSeconds(jobQueue.name) };
  }

  /** What its caller lets it wait counts from its beginning, whichever workers were lost since; an answer that has begun may wait to be gone on with. */
  #expireInTime(generation: Generation): void {
    const { maxWaitMs, startedAt } = generation;
    if (maxWaitMs === undefined) return;
    generation.expiry = setTimeout(() => this.#expire(generation), Math.max(0, startedAt + maxWaitMs - this.#now()));
  }

  #expire(generation: Generation): void {
    if (generation.state === "waiting") this.#giveUp(generation, this.#waitExpired(generation));
  }

  /** An attempt that goes on from another's answer may know less of it than that did. */
  #produced(generation: Generation, progress: AnswerProgress | undefined, outputTokens = 0): void {
    const before = generation.answer.hasBegun ? (generation.progress?.outputTokens ?? 0) : 0;
    generation.progress = progress;
    if (progress !== undefined) progress.outputTokens = Math.max(before, outputTokens);
  }

  #ended(generation: Generation, { usage, model }: AnswerEnd): void {
    generation.usage = usage;
    if (model !== undefined) generation.answeredBy = model;
  }

  /** The response is closed: finished, or left by its caller. */
  #closed(generation: Generation): void {
    this.#unread.delete(generation.number);
    if (generation.state === "over") {
      generation.slot.end();
      return;
    }
    this.#options.metrics.cancellations.inc({ queue: generation.jobQueue.name });
    this.#owner?.leave(generation.number);
    this.#over(generation, "left");
  }

  #runs(generation: Generation): void {
    if (generation.state !== "waiting") return;
    const now = this.#now();
    this.#waitIsOver(generation);
    generation.state = "running";
    generation.waitedMs = now - generation.startedAt;
    generation.admissionQueue.taken(generation.number, now);
  }

  #waitIsOver(generation: Generation): void {
    clearTimeout(generation.expiry);
    generation.waitingSlot.hold(0);
  }

  /** Before its caller has the end of its answer, so that the next request finds what this one gives back. */
  #settle(generation: Generation, outcome: GenerationOutcome): void {
    if (generation.isSettled) return;
    generation.isSettled = true;
    const taken = takenBy(generation, outcome);
    if (taken.kind === "used") {
      generation.usage = taken.usage;
      generation.answeredBy = taken.model;
    }
    generation.hold?.settle(taken);
  }

  #over(generation: Generation, outcome: GenerationOutcome): void {
    const { state, waitedMs } = generation;
    if (state === "over") return;
    const now = this.#now();
    if (state === "waiting") this.#waitIsOver(generation);
    this.#live.delete(generation.number);
    this.#settle(generation, outcome);
    generation.state = "over";
    generation.admissionQueue.over(
      generation.number,
      waitedMs === undefined ? undefined : now - generation.startedAt - waitedMs,
      now,
    );
    generation.over?.(outcome);
    if (generation.response.closed) generation.slot.end();
    else this.#unread.set(generation.number, generation);
    this.#jobs.releaseBody(generation);
    generation.answer.forget();
    this.#options.log.info(logLineOf(generation, outcome, now), "generation");
  }
}
