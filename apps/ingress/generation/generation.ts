/** The state of a generation in its ingress, from its admission to the end of its answer. */
import type { KeyRecord } from "#access/record.ts";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import { upstreamCostOf } from "#catalogue/upstream-cost.ts";
import type { Framing, StorageFields } from "#dialects/codec.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { Usage } from "#dialects/usage.ts";
import type { GenerationEnded, GenerationFacts, GenerationOutcome, Source } from "#events/ingress-events.ts";
import type { Bill } from "#ledger/bill.ts";
import type { Demand } from "#operations/demand.ts";
import type { OperationName } from "#operations/operations.ts";
import type { AnswerProgress, AnswerSource } from "#relay/job.ts";
import type { Queued } from "#relay/ports.ts";
import type { TraceContext } from "#tracing/trace-context.ts";
import type { LimitsReservation } from "../admission/rate-limits.ts";
import { attemptsPerRun } from "../common/bounds.ts";
import type { Claim } from "../common/capacity.ts";
import type { Labels } from "../common/labels.ts";
import type { AnswerResponse, GenerationResponse } from "../response/generation-response.ts";
import type { IngressQueue } from "./ingress-queues.ts";

/** The messages that the caller of a session sends. */
export interface SessionInput {
  /** The upstream accepted the session: from now on `send` takes bytes of messages, at most `payloadBytesMax` at a time. */
  open(send: (payload: Buffer) => void): void;
  /** The window of what the upstream has not taken is full (`isOpen` is false), or has capacity again. */
  flow(isOpen: boolean): void;
}

/** A generation that an ingress takes over: it is recorded as a later attempt of the one that a lost ingress began. */
export interface EarlierRun {
  generationId: string;
  /** Epoch milliseconds. */
  receivedAt: number;
  /** How often it was taken over. */
  times: number;
  /** Absent for one that an ingress of an earlier version began. */
  labels?: Labels | undefined;
  /** The version of the catalogue that was in force at its admission. */
  priceVersion?: string | undefined;
}

export interface GenerationRequest extends Demand {
  id: string;
  caller: KeyRecord;
  dialect: ConversationDialect;
  /** In force at its admission: its prices apply. */
  catalogue: Pick<Catalogue, "models" | "groups" | "version" | "modelFor">;
  model: CatalogueModel;
  /** How many generations may wait on its queue in this ingress, and how long. */
  queue: { readonly waitingMax: number; readonly waitMs: number };
  /** The caller's limit on the wait for a worker, in milliseconds from its admission. */
  maxWaitMs?: number | undefined;
  /** Of the caller's group. */
  weight: number;
  operation: OperationName;
  framing: Framing;
  /** Of the body. */
  contentType: string;
  /** Its body's claim on the memory for bodies. */
  held: Claim;
  /** The caller's headers that an upstream of its dialect reads. */
  callerHeaders: Record<string, string>;
  response: AnswerResponse;
  /** Where the caller's messages come from, in a session. */
  input?: SessionInput | undefined;
  /** What the answer says of its storage. */
  storage?: StorageFields | undefined;
  /** Set where another ingress began it before: a queue that an operator drains still takes it. */
  earlier?: EarlierRun | undefined;
  /** When the request was received, in epoch milliseconds; at its admission by default. */
  receivedAt?: number | undefined;
  /** Called when a worker has taken it; again if it is restarted. */
  onBound?: (() => void) | undefined;
  /** Called when it is over, after everything was written to the response. */
  onEnd?: ((outcome: GenerationOutcome) => void) | undefined;
  labels: Labels;
  /** Undefined while tracing is off. */
  trace: TraceContext | undefined;
  requestId: string;
  /** Sent with the answer and with an error alike. */
  headers: Record<string, string>;
}

/**
 * admitting: its caller's rate limits are asked. queued: in the admission queue. dispatched: its job is on the queue, or on the way there.
 * running: a worker has it. over: it has ended; its caller may still be reading.
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
  /** An answer that was paid and could not be passed on, with its upstream's count if it is known. */
  paidAnswer: { readonly model: string; readonly usage: Usage | undefined } | undefined;
  /** Once it is over; undefined for nothing. */
  bill: Bill | undefined;
  /** Where the answer, or the last failure, came from; undefined while no upstream was called. */
  source: AnswerSource | undefined;
  /** What its upstream has produced so far; undefined until the upstream begins to answer, and where it does not stream. */
  progress: AnswerProgress | undefined;
  /** The upstream's own id of the request, if it gave one. */
  upstreamRequestId: string | undefined;
  /** The model that answered: the requested one, or a fallback. */
  modelAnswered: string;
  /** The other models that may answer: fallbacks that its key may use, and that its reservation covers. */
  fallbacks: readonly CatalogueModel[];
  /** Its reservation in the caller's limits; undefined if it has none. */
  reservation: LimitsReservation | undefined;
  isUsageRecorded: boolean;
  /** Since when it waits for Redis to come back, on the ingress's clock; undefined while it does not. */
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
