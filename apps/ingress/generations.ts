/**
 * The path of a generation through an ingress:
 *
 *     admitted ─▶ owned by the relay ─▶ its job on a lane ─▶ … frames … ─▶ the caller's socket
 *
 * The relay's owner decides; this file does what it says: jobs, bodies, answers.
 */
import type { Redis } from "ioredis";
import type { Logger } from "pino";
import type { KeyRecord } from "#access/record.ts";
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import { decodeEnd, decodeFailure, decodeHead, type GenerationJob, jobBodyBytesMax } from "#relay/job.ts";
import type { LaneQueue } from "#relay/lane-queue.ts";
import { relayLimits } from "#relay/limits.ts";
import type { Mailbox } from "#relay/mailbox.ts";
import { Owner, type OwnerPort, type RelayFault } from "#relay/owner.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Framing } from "#wire/codec.ts";
import type { ConversationDialect, Operation } from "#wire/dialect.ts";
import type { Failure } from "#wire/errors.ts";
import type { Usage } from "#wire/usage.ts";
import { Answer, type AnswerResponse } from "./answer.ts";
import type { IngressConfig } from "./config.ts";
import type { IngressMetrics } from "./metrics.ts";
import type { BodyBudget } from "./requests.ts";

/** A body under its own key lives this long, and is renewed at half of it while its job waits. */
const bodyLifeMs = 120_000;

export interface GenerationRequest {
  id: string;
  caller: KeyRecord;
  dialect: ConversationDialect;
  model: CatalogueModel;
  /** How many may wait on the lane here, and for how long. */
  lane: { readonly waitingMax: number; readonly waitMs: number };
  operation: Operation;
  framing: Framing;
  /** Of the body. */
  contentType: string;
  /** What of the caller's own headers an upstream of its dialect reads. */
  callerHeaders: Record<string, string>;
  response: AnswerResponse;
  requestId: string;
  /** Go with the answer, good or bad. */
  headers: Record<string, string>;
}

/** One generation of this process. */
interface Generation extends GenerationRequest {
  number: number;
  answer: Answer;
  queue: LaneQueue;
  admittedAt: number;
  startedAt: number;
  state: "waiting" | "running" | "over";
  /** Undefined once it can't be needed again. */
  body: Buffer | undefined;
  bodyRenewedAt: number;
  contentAt: number;
  /** When a worker took it, and when its content began, both in milliseconds from its start; undefined until then. */
  waitedMs: number | undefined;
  firstTokenMs: number | undefined;
  usage: Usage | null;
}

export interface GenerationsOptions {
  config: IngressConfig;
  redis: Redis;
  /** A connection of its own for large bodies, so that they don't hold up jobs. */
  bodies: Redis;
  keyspace: Keyspace;
  queues: ReadonlyMap<string, LaneQueue>;
  budget: BodyBudget;
  metrics: IngressMetrics;
  log: Logger;
}

export type Begun = { kind: "begun" } | { kind: "refused"; failure: Failure };

const faults: Record<RelayFault, Failure> = {
  unavailable: { code: "unavailable", message: "The gateway can't take requests at the moment; try again in a moment.", retryAfterSeconds: 1 },
  worker_lost: { code: "worker_lost", message: "The process that ran this request was lost; send it again." },
  wait_expired: { code: "overloaded", message: "The request waited for as long as it may; try again later.", retryAfterSeconds: 5 },
  caller_too_slow: { code: "caller_too_slow", message: "The answer was not read for too long." },
};

const unreadable: Failure = { code: "internal", message: "The gateway failed to process this request." };

export class Generations {
  readonly #options: GenerationsOptions;
  readonly #live = new Set<Generation>();
  /** Over, but for what the caller has not read; since when. */
  readonly #unread = new Map<Generation, number>();
  /** By lane: how many wait for a runner. */
  readonly #waiting = new Map<string, number>();
  readonly #now = () => performance.now();
  #mailbox: Mailbox | undefined;
  #owner: Owner<Generation> | undefined;

  constructor(options: GenerationsOptions) {
    this.#options = options;
  }

  /** Call it once, before anything else, with the mailbox whose handlers are `heard`, `receive` and `tick`. */
  attach(mailbox: Mailbox): void {
    this.#mailbox = mailbox;
    this.#owner = new Owner<Generation>(mailbox.self, relayLimits, this.#portOf(mailbox), this.#now());
    this.tick();
  }

  heard(sender: string): void {
    this.#owner?.heard(sender, this.#now());
  }

  receive(sender: string, frame: Parameters<Owner<Generation>["receive"]>[1]): void {
    this.#owner?.receive(sender, frame, this.#now());
  }

  /** Call it every pulse, and when the mailbox is subscribed anew. */
  tick(): void {
    const now = this.#now();
    this.#owner?.tick(now);
    for (const [{ response }, since] of this.#unread) if (now - since > relayLimits.stallMs) response.destroy();
    for (const generation of this.#live) {
      generation.answer.keepAlive(now, this.#options.config.keepAliveMs);
      if (
        generation.state === "waiting" &&
        generation.body !== undefined &&
        liesApart(generation, generation.body) &&
        now - generation.bodyRenewedAt > bodyLifeMs / 2
      ) {
        generation.bodyRenewedAt = now;
        this.#options.bodies.pexpire(this.#bodyKey(generation), bodyLifeMs).catch(() => undefined);
      }
    }
  }

  /** Generations that are not over, or not read to their end. */
  get size(): number {
    return this.#live.size + this.#unread.size;
  }

  /** Can a generation be begun, with hope of an answer? */
  get isReady(): boolean {
    return this.#options.redis.status === "ready" && this.#mailbox?.isConnected === true && this.#owner?.isLinked(this.#now()) === true;
  }

  /** Takes over the response: it is answered in any case, unless this refuses. The bytes count in the budget until they are given back here. */
  begin(request: GenerationRequest, body: Buffer): Begun {
    const queue = this.#options.queues.get(request.model.lane);
    const owner = this.#owner;
    if (!this.isReady || owner === undefined || queue === undefined) return { kind: "refused", failure: faults.unavailable };
    if (this.size >= this.#options.config.generationsMax || this.#waitingOn(queue.name) >= request.lane.waitingMax)
      return { kind: "refused", failure: { code: "overloaded", message: "Too many requests are waiting; try again in a moment.", retryAfterSeconds: 2 } };
    const now = this.#now();
    const number = owner.takeNumber();
    const generation: Generation = {
      ...request,
      number,
      queue,
      admittedAt: Date.now(),
      startedAt: now,
      state: "waiting",
      body,
      bodyRenewedAt: now,
      contentAt: 0,
      waitedMs: undefined,
      firstTokenMs: undefined,
      usage: null,
      answer: new Answer(
        {
          ...request,
          model: request.model.id,
          listener: {
            committed: () => {
              owner.committed(number);
              this.#releaseBody(generation);
            },
            taken: (seq) => owner.taken(number, seq, this.#now()),
          },
        },
        now,
      ),
    };
    this.#live.add(generation);
    request.response.once("close", () => this.#closed(generation));
    this.#waiting.set(queue.name, this.#waitingOn(queue.name) + 1);
    owner.start(generation, number, request.lane.waitMs, now);
    return { kind: "begun" };
  }

  /** Ends all that is left, each with an error in its caller's dialect. */
  failAll(failure: Failure): void {
    for (const generation of this.#live) {
      generation.answer.fail(failure);
      this.#owner?.leave(generation.number);
      this.#over(generation, failure.code);
    }
  }

  /** By lane: how many wait and run here, and how long the oldest has waited. */
  statistics(): { lane: string; waiting: number; running: number; oldestWaitMs: number }[] {
    const now = this.#now();
    const lanes = new Map([...this.#options.queues.keys()].map((lane) => [lane, { lane, waiting: 0, running: 0, oldestWaitMs: 0 }]));
    for (const { state, queue, startedAt } of this.#live) {
      const lane = lanes.get(queue.name);
      if (lane === undefined || state === "over") continue;
      lane[state]++;
      if (state === "waiting") lane.oldestWaitMs = Math.max(lane.oldestWaitMs, now - startedAt);
    }
    return [...lanes.values()];
  }

  #waitingOn(lane: string): number {
    return this.#waiting.get(lane) ?? 0;
  }

  #portOf(mailbox: Mailbox): OwnerPort<Generation> {
    const { metrics } = this.#options;
    return {
      send: mailbox.send,
      pulse: mailbox.pulse,
      enqueue: (generation, number, attempt) => {
        const job = this.#jobOf(generation, number, attempt, mailbox.self);
        const failed = () => this.#owner?.enqueueFailed(number, attempt);
        if (job.body !== null || generation.body === undefined) generation.queue.add(job, failed);
        else {
          generation.bodyRenewedAt = this.#now();
          this.#options.bodies.set(this.#bodyKey(generation), generation.body, "PX", bodyLifeMs).then(() => {
            if (generation.state !== "over") generation.queue.add(job, failed);
            else this.#options.bodies.unlink(this.#bodyKey(generation)).catch(() => undefined);
          }, failed);
        }
      },
      dequeue: (generation, _number, attempt) => void generation.queue.remove(generation.id, attempt),
      probe: (jobs) => void this.#probe(jobs),
      bound: (generation) => this.#runs(generation),
      restart: (generation) => {
        metrics.restarts.inc({ lane: generation.queue.name });
        generation.answer.restart();
        if (generation.state === "running") {
          generation.state = "waiting";
          this.#waiting.set(generation.queue.name, this.#waitingOn(generation.queue.name) + 1);
        }
      },
      deliver: (generation, kind, payload, seq) => {
        const now = this.#now();
        switch (kind) {
          case "head": {
            const head = decodeHead(payload);
            if (head === undefined) this.#giveUp(generation);
            else generation.answer.head(head, seq);
            return;
          }
          case "data":
            this.#measure(generation, now);
            generation.answer.data(payload, seq, now);
            return;
          case "end":
            generation.usage = decodeEnd(payload).usage;
            generation.answer.end();
            this.#over(generation, "complete");
            return;
          case "fail":
            this.#fail(generation, decodeFailure(payload) ?? unreadable);
            return;
          default:
            kind satisfies never;
        }
      },
      fail: (generation, fault) => this.#fail(generation, faults[fault]),
    };
  }

  #jobOf(generation: Generation, number: number, attempt: number, owner: string): GenerationJob {
    const body = generation.body;
    return {
      generation: generation.id,
      owner,
      number,
      attempt,
      dialect: generation.dialect,
      operation: generation.operation,
      framing: generation.framing,
      contentType: generation.contentType,
      headers: generation.callerHeaders,
      model: generation.model.id,
      group: generation.caller.group,
      keyId: generation.caller.id,
      admittedAt: generation.admittedAt,
      body: body === undefined || liesApart(generation, body) ? null : body.toString("utf8"),
    };
  }

  async #probe(jobs: { client: Generation; number: number; attempt: number }[]): Promise<void> {
    const owner = this.#owner as Owner<Generation>;
    for (const queue of this.#options.queues.values()) {
      const asked = jobs.filter(({ client }) => client.queue === queue);
      if (asked.length === 0) continue;
      try {
        const states = await queue.statesOf(asked.map(({ client, attempt }) => ({ generation: client.id, attempt })));
        for (const [index, state] of states.entries()) {
          const { number, attempt } = asked[index] as { number: number; attempt: number };
          owner.probed(number, attempt, state, this.#now());
        }
      } catch {
        owner.probeFailed();
      }
    }
  }

  #measure(generation: Generation, now: number): void {
    const { firstToken, tokenGap } = this.#options.metrics;
    const lane = generation.queue.name;
    if (generation.contentAt === 0) {
      generation.firstTokenMs = now - generation.startedAt;
      firstToken.observe({ lane }, generation.firstTokenMs / 1_000);
    } else tokenGap.observe({ lane }, (now - generation.contentAt) / 1_000);
    generation.contentAt = now;
  }

  /** A worker sent what none of ours sends. */
  #giveUp(generation: Generation): void {
    this.#owner?.leave(generation.number);
    this.#fail(generation, unreadable);
  }

  #fail(generation: Generation, failure: Failure): void {
    this.#options.metrics.errors.inc({ code: failure.code });
    generation.answer.fail(failure);
    this.#over(generation, failure.code);
  }

  /** The response is closed: finished, or left by its caller. */
  #closed(generation: Generation): void {
    this.#unread.delete(generation);
    if (generation.state === "over") return;
    this.#options.metrics.cancellations.inc({ lane: generation.queue.name });
    this.#owner?.leave(generation.number);
    this.#over(generation, "left");
  }

  #runs(generation: Generation): void {
    if (generation.state !== "waiting") return;
    generation.state = "running";
    generation.waitedMs = this.#now() - generation.startedAt;
    this.#waiting.set(generation.queue.name, this.#waitingOn(generation.queue.name) - 1);
  }

  #over(generation: Generation, outcome: "complete" | "left" | Failure["code"]): void {
    const { state, waitedMs, firstTokenMs } = generation;
    if (state === "over") return;
    this.#runs(generation);
    generation.state = "over";
    this.#live.delete(generation);
    if (!generation.response.closed) this.#unread.set(generation, this.#now());
    this.#releaseBody(generation);
    this.#options.log.info(
      {
        requestId: generation.requestId,
        generation: generation.id,
        keyId: generation.caller.id,
        group: generation.caller.group,
        model: generation.model.id,
        lane: generation.queue.name,
        dialect: generation.dialect,
        operation: generation.operation,
        stream: generation.framing !== "whole",
        outcome,
        status: generation.answer.status,
        waitedMs: rounded(waitedMs),
        firstTokenMs: rounded(firstTokenMs),
        durationMs: rounded(this.#now() - generation.startedAt),
        ...generation.usage,
      },
      "generation",
    );
  }

  /** Nothing can be run anew: the body is forgotten, here and in Redis. */
  #releaseBody(generation: Generation): void {
    const { body } = generation;
    if (body === undefined) return;
    generation.body = undefined;
    this.#options.budget.giveBack(body.length);
    if (liesApart(generation, body)) this.#options.bodies.unlink(this.#bodyKey(generation)).catch(() => undefined);
  }

  #bodyKey(generation: Generation): string {
    return this.#options.keyspace.body(generation.id);
  }
}

const rounded = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms));
/** Large bodies, and those that are no text, don't ride in jobs. */
const liesApart = ({ contentType }: GenerationRequest, body: Buffer): boolean => body.length > jobBodyBytesMax || contentType !== "application/json";
