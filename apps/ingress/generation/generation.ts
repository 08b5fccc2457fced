/** The state of a generation in its ingress, from its admission to the end of its answer. */

import { allowsModel } from "#access/record.ts";
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import { upstreamCostOf } from "#catalogue/upstream-cost.ts";
import type { Usage } from "#dialects/usage.ts";
import type { GenerationEnded, GenerationFacts, GenerationOutcome, Source } from "#events/ingress-events.ts";
import type { Bill } from "#ledger/bill.ts";
import type { AnswerProgress, AnswerSource } from "#relay/job.ts";
import type { Queued } from "#relay/ports.ts";
import type { Clock } from "#service/clock.ts";
import type { Admitted, GenerationRequest } from "../admission/generation-request.ts";
import type { LimitsReservation } from "../admission/rate-limits.ts";
import type { Capacity, Claim } from "../common/capacity.ts";
import { cutTagsHeader } from "../common/labels.ts";
import { type AnswerListener, GenerationResponse } from "../response/generation-response.ts";
import type { AnswerResponse } from "../response/response.ts";
import { noBytes } from "../server/request-bodies.ts";
import type { GenerationSlots, IngressQueue } from "./ingress-queues.ts";

/**
 * Milliseconds from its start to the admission queue, to its first job, and to its last worker; and
 * since when it waits for Redis, on the ingress's clock.
 */
interface StateTimes {
  readonly queuedMs?: number;
  readonly dispatchedMs?: number;
  readonly waitedMs?: number;
  readonly redisAwaySince?: number;
}

/**
 * admitting: its caller's rate limits are asked. limited: it waits for them, until then at most.
 * queued: in the admission queue. dispatched: its
 * job is on the queue, or on the way there. running: a worker has it. over: it has ended; its
 * caller may still be reading.
 */
export type GenerationState = StateTimes &
  (
    | { readonly kind: "admitting" }
    | { readonly kind: "limited"; readonly until: number }
    | { readonly kind: "queued"; readonly queuedMs: number }
    | { readonly kind: "dispatched"; readonly dispatchedMs: number }
    | { readonly kind: "running"; readonly dispatchedMs: number; readonly waitedMs: number }
    | { readonly kind: "over" }
  );

export interface GenerationSource {
  request: GenerationRequest;
  admitted: Admitted;
  /** Its number at the relay's owner. */
  number: number;
  ingressQueue: IngressQueue;
  slots: GenerationSlots;
  response: AnswerResponse;
  /** Called as the caller's socket takes the answer. */
  listener: AnswerListener;
}

const queueUpdatesHeader = "x-sluice-queue-updates";

/** Takes over the request's claim on the memory for bodies. */
export class Generation {
  readonly request: GenerationRequest;
  readonly admitted: Admitted;
  readonly facts: GenerationFacts;
  readonly number: number;
  readonly response: AnswerResponse;
  readonly answer: GenerationResponse;
  readonly ingressQueue: IngressQueue;
  readonly slots: GenerationSlots;
  readonly bodyClaim: Claim;
  readonly bodyBytes: number;
  /** Its caller asked for comments about its place in the queue, and its format can have them. */
  readonly tellsPlace: boolean;
  /** The first expected wait for its turn that its caller was told, and when. */
  expectation: { readonly ms: number; readonly at: number } | undefined;
  /** On the ingress's clock. */
  readonly startedAt: number;
  /** Since when it waits for its queue, or its worker. */
  waitsSince: number;
  state: GenerationState = { kind: "admitting" };
  /** The current attempt, counted from 1; 0 until it is dispatched. */
  attempt = 0;
  /** Ends the wait after its caller's bound, or its queue's. */
  waitTimer: NodeJS.Timeout | undefined;
  /** Its job, once it is dispatched and until a worker has it. */
  job: Queued | undefined;
  bodyRenewedAt: number;
  /** When content last arrived; undefined before the first. */
  contentAt: number | undefined;
  /** From its start to its first content. */
  firstTokenMs: number | undefined;
  /** Parts and bytes of content that arrived from the worker. */
  chunks = 0;
  answerBytes = 0;
  /** The usage that its upstream reported at the end. */
  usage: Usage | null = null;
  /**
   * An answer that was paid and could not be passed on, with its upstream's count if it is known.
   */
  paidAnswer: { readonly model: string; readonly usage: Usage | undefined } | undefined;
  /** Once it is over; undefined for nothing. */
  bill: Bill | undefined;
  isUsageRecorded = false;
  /** It is recorded as lost with its worker, in case this process dies before its end. */
  isWitnessed = false;
  /** It waits for its vendor's batch: nothing is billed or recorded yet. */
  isDeferred = false;
  /** Where the answer, or the last failure, came from; undefined while no upstream was called. */
  source: AnswerSource | undefined;
  /**
   * The output of its upstream so far; undefined until the upstream begins to answer, and where it
   * does not stream.
   */
  progress: AnswerProgress | undefined;
  /** The upstream's own id of the request, if it gave one. */
  upstreamRequestId: string | undefined;
  /** The model that answered: the requested one, or a fallback. */
  modelAnswered: string;
  /**
   * The other models that may answer: fallbacks that its key may use, and that its reservation
   * covers.
   */
  fallbacks: readonly CatalogueModel[];
  /** Its reservation in the caller's limits; undefined if it has none. */
  reservation: LimitsReservation | undefined;
  /** How often its caller's limits were asked. */
  admissions = 0;

  constructor(
    { request, admitted, number, ingressQueue, slots, response, listener }: GenerationSource,
    { clock, bodyBytes, answerBytes }: { clock: Clock; bodyBytes: Capacity; answerBytes: Capacity },
  ) {
    const { http, requestId, endpoint, framing, bytes = noBytes } = request;
    const { model, headers, catalogue } = admitted;
    const { caller, bodyClaim } = http;
    this.request = request;
    this.admitted = admitted;
    this.number = number;
    this.ingressQueue = ingressQueue;
    this.slots = slots;
    this.response = response;
    this.startedAt = clock.now();
    this.waitsSince = this.startedAt;
    this.bodyRenewedAt = this.startedAt;
    this.bodyBytes = bytes.length;
    this.tellsPlace =
      http.headers[queueUpdatesHeader] === "true" &&
      framing === "sse" &&
      endpoint.dialect !== "gemini" &&
      request.layers.translation === undefined;
    this.facts = factsOf(request, admitted, clock.epoch());
    bodyClaim.hold(bytes.length);
    this.bodyClaim = bodyClaim.move();
    this.modelAnswered = model.id;
    this.fallbacks = model.fallbacks.flatMap((id) =>
      allowsModel(caller, id) ? (catalogue.modelFor(caller.group, id) ?? []) : [],
    );
    this.answer = new GenerationResponse(
      {
        response,
        dialect: endpoint.dialect,
        framing,
        model: model.id,
        requestId,
        headers: request.labels.hasCutTags === true ? { ...headers, ...cutTagsHeader } : headers,
        resumed: model.resume === true,
        deliveredClaim: bodyBytes.claim(caller.id),
        bufferClaim: answerBytes.claim(caller.id),
        listener,
      },
      this.startedAt,
    );
  }

  /** Its limits let it wait for its turn. Meanwhile it does not count as waiting for its queue. */
  awaitLimits(until: number): void {
    if (this.isOver) return;
    this.state = { kind: "limited", until };
    this.slots.waiting.hold(0);
  }

  get isOver(): boolean {
    return this.state.kind === "over";
  }

  /** True while it waits for a worker. */
  get isWaiting(): boolean {
    return this.state.kind !== "running" && this.state.kind !== "over";
  }
}

/** How many attempts its record counts before its own: more than any earlier run had. */
export const attemptsBefore = ({ request }: Pick<Generation, "request">): number => request.earlier?.attempts ?? 0;

function factsOf(request: GenerationRequest, admitted: Admitted, now: number): GenerationFacts {
  const { http, endpoint, earlier, framing } = request;
  const { id: keyId, group, account } = http.caller;
  const { dialect, operation } = endpoint;
  const { user, session, tags } = request.labels;
  return {
    user,
    session,
    tags,
    keyId,
    group,
    account,
    dialect,
    operation,
    framing,
    trace: admitted.trace,
    generationId: earlier?.generationId ?? admitted.id,
    requestId: earlier?.generationId.replace("gen_", "req_") ?? request.requestId,
    model: admitted.model.id,
    queue: admitted.model.queue,
    bodyBytes: request.bytes?.length ?? 0,
    receivedAt: request.receivedAt ?? now,
    batch: request.batch,
  };
}

/** With what the operator pays, if the catalogue knows it and something is billed. */
function sourceOf({ source, bill, admitted, modelAnswered, facts }: Generation): Source | undefined {
  if (source === undefined || bill === undefined) return source;
  const model = admitted.catalogue.modelWith(modelAnswered);
  const cost = upstreamCostOf(model, source, bill.usage, facts.receivedAt);
  return cost === undefined ? source : { ...source, cost };
}

export function endedEventOf(generation: Generation, outcome: GenerationOutcome, now: number): GenerationEnded {
  const { facts, answer, modelAnswered, upstreamRequestId, firstTokenMs, bill, chunks, answerBytes } = generation;
  const { queuedMs, dispatchedMs, waitedMs } = generation.state;
  return {
    generation: facts,
    outcome,
    status: answer.status,
    modelAnswered,
    upstreamRequestId,
    bill,
    queuedMs,
    dispatchedMs,
    waitedMs,
    firstTokenMs,
    chunks,
    bytes: answerBytes,
    durationMs: now - generation.startedAt,
    source: sourceOf(generation),
    isDeferred: generation.isDeferred,
    attempt: attemptsBefore(generation) + generation.attempt,
  };
}
