/** The state of a generation in its ingress, from its admission to the end of its answer. */

import type { CatalogueModel } from "#catalogue/catalogue.ts";
import { upstreamCostOf } from "#catalogue/upstream-cost.ts";
import type { Usage } from "#dialects/usage.ts";
import type { GenerationEnded, GenerationFacts, GenerationOutcome, Source } from "#events/ingress-events.ts";
import type { Bill } from "#ledger/bill.ts";
import type { AnswerProgress, AnswerSource } from "#relay/job.ts";
import type { Queued } from "#relay/ports.ts";
import type { GenerationRequest } from "../admission/generation-request.ts";
import type { LimitsReservation } from "../admission/rate-limits.ts";
import { attemptsPerRun } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import type { GenerationResponse } from "../response/generation-response.ts";
import type { IngressQueue } from "./ingress-queues.ts";

/**
 * admitting: its caller's rate limits are asked. queued: in the admission queue. dispatched: its
 * job is on the queue, or on the way there. running: a worker has it. over: it has ended; its
 * caller may still be reading.
 */
type GenerationState = "admitting" | "queued" | "dispatched" | "running" | "over";

export interface Generation extends GenerationRequest {
  readonly facts: GenerationFacts;
  readonly number: number;
  readonly answer: GenerationResponse;
  readonly ingressQueue: IngressQueue;
  state: GenerationState;
  /** The current attempt, counted from 1; 0 until it is dispatched. */
  attempt: number;
  /** Its slot among all generations, and among those that wait on its queue. */
  readonly slot: Claim;
  readonly waitingSlot: Claim;
  /** Ends the wait after `maxWaitMs`. */
  waitTimer: NodeJS.Timeout | undefined;
  /** Its job, once it is dispatched and until a worker has it. */
  queued: Queued | undefined;
  /** On the ingress's clock. */
  readonly startedAt: number;
  /** Undefined once no further attempt can need it. */
  body: Buffer | undefined;
  readonly bodyBytes: number;
  bodyRenewedAt: number;
  /** When content last arrived; undefined before the first. */
  contentAt: number | undefined;
  /** From its start to its first worker, and to its first content; undefined until then. */
  waitedMs: number | undefined;
  firstTokenMs: number | undefined;
  /** From its start to the admission queue, and to its first job; undefined until then. */
  queuedMs: number | undefined;
  dispatchedMs: number | undefined;
  /** What arrived from the worker. */
  chunks: number;
  answerBytes: number;
  /** The usage that its upstream reported at the end. */
  usage: Usage | null;
  /**
   * An answer that was paid and could not be passed on, with its upstream's count if it is known.
   */
  paidAnswer: { readonly model: string; readonly usage: Usage | undefined } | undefined;
  /** Once it is over; undefined for nothing. */
  bill: Bill | undefined;
  /** Where the answer, or the last failure, came from; undefined while no upstream was called. */
  source: AnswerSource | undefined;
  /**
   * What its upstream has produced so far; undefined until the upstream begins to answer, and where
   * it does not stream.
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
  isUsageRecorded: boolean;
  /**
   * Since when it waits for Redis to come back, on the ingress's clock; undefined while it does
   * not.
   */
  redisAwaySince: number | undefined;
  /** How often its caller's limits were asked. */
  admissions: number;
}

/** How many attempts its record counts before its own: more than any earlier run had. */
export const attemptsBefore = ({ earlier }: Pick<GenerationRequest, "earlier">): number =>
  (earlier?.times ?? 0) * attemptsPerRun;

/** True while it waits for a worker. */
export const isWaiting = ({ state }: Pick<Generation, "state">): boolean =>
  state === "admitting" || state === "queued" || state === "dispatched";

export const factsOf = (request: GenerationRequest, bodyBytes: number, receivedAt: number): GenerationFacts => ({
  generationId: request.earlier?.generationId ?? request.id,
  requestId: request.earlier?.generationId.replace("gen_", "req_") ?? request.requestId,
  keyId: request.caller.id,
  group: request.caller.group,
  account: request.caller.account,
  ...request.labels,
  model: request.model.id,
  queue: request.model.queue,
  dialect: request.dialect,
  operation: request.operation,
  framing: request.framing,
  bodyBytes,
  receivedAt: request.receivedAt ?? receivedAt,
  trace: request.trace,
});

/** With what the operator pays, if the catalogue knows it and something is billed. */
function sourceOf({ source, bill, catalogue, modelAnswered, facts }: Generation): Source | undefined {
  if (source === undefined || bill === undefined) return source;
  const model = catalogue.models.find(({ id }) => id === modelAnswered);
  const cost = upstreamCostOf(model, source, bill.usage, facts.receivedAt);
  return cost === undefined ? source : { ...source, cost };
}

export const endedEventOf = (generation: Generation, outcome: GenerationOutcome, now: number): GenerationEnded => ({
  generation: generation.facts,
  outcome,
  status: generation.answer.status,
  modelAnswered: generation.modelAnswered,
  upstreamRequestId: generation.upstreamRequestId,
  waitedMs: generation.waitedMs,
  firstTokenMs: generation.firstTokenMs,
  durationMs: now - generation.startedAt,
  bill: generation.bill,
  source: sourceOf(generation),
  attempt: attemptsBefore(generation) + generation.attempt,
  queuedMs: generation.queuedMs,
  dispatchedMs: generation.dispatchedMs,
  chunks: generation.chunks,
  bytes: generation.answerBytes,
});
