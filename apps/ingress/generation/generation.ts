/** What an ingress knows of one generation, from its admission to the end of its answer. */
import type { KeyRecord } from "#access/record.ts";
import type { CatalogueModel } from "#catalogue/catalogue.ts";
import type { Framing } from "#dialects/codec.ts";
import type { ConversationDialect, Operation } from "#dialects/dialect.ts";
import type { Failure } from "#dialects/errors.ts";
import { plainUsageOf, type Usage } from "#dialects/usage.ts";
import type { AdmissionQueue } from "#relay/admission-queue.ts";
import type { AnswerProgress } from "#relay/job.ts";
import type { JobQueue, Queued } from "#relay/job-queue.ts";
import type { Claim } from "../admission/capacity.ts";
import type { Demand } from "../admission/demand.ts";
import { type LimitsHold, type Taken, tokensOf } from "../admission/rate-limits.ts";
import type { AnswerResponse, GenerationResponse } from "./generation-response.ts";

export interface GenerationRequest extends Demand {
  id: string;
  caller: KeyRecord;
  dialect: ConversationDialect;
  model: CatalogueModel;
  /** How many may wait on the queue here, and for how long. */
  queue: { readonly waitingMax: number; readonly waitMs: number };
  /** How long the caller lets it wait until a worker begins it, in milliseconds from its admission. */
  maxWaitMs?: number | undefined;
  /** Of the caller's group. */
  weight: number;
  operation: Operation;
  framing: Framing;
  /** Of the body. */
  contentType: string;
  /** What its body holds of the bytes that there are for bodies. */
  held: Claim;
  /** What of the caller's own headers an upstream of its dialect reads. */
  callerHeaders: Record<string, string>;
  response: AnswerResponse;
  /** Called when it is over, after all that is written to the response: "complete", "left", or the code of its failure. */
  over?: ((outcome: string) => void) | undefined;
  requestId: string;
  /** Go with the answer, good or bad. */
  headers: Record<string, string>;
}

export interface Generation extends GenerationRequest {
  number: number;
  answer: GenerationResponse;
  jobQueue: JobQueue;
  /** Its way to a worker, as far as it came. */
  queued: Queued | undefined;
  admissionQueue: AdmissionQueue<number>;
  /** Its slot among all generations, and among those that wait on its queue. */
  slot: Claim;
  waitingSlot: Claim;
  /** Ends the wait for which its caller has set a time. */
  expiry: NodeJS.Timeout | undefined;
  admittedAt: number;
  startedAt: number;
  state: "waiting" | "running" | "over";
  /** Undefined once it can't be needed again. */
  body: Buffer | undefined;
  bodyBytes: number;
  bodyRenewedAt: number;
  contentAt: number;
  /** When a worker took it, and when its content began, both in milliseconds from its start; undefined until then. */
  waitedMs: number | undefined;
  firstTokenMs: number | undefined;
  /** What its caller is billed, once it is over; before, what its upstream told at its end. */
  usage: Usage | null;
  /** What its upstream has produced so far; undefined until it begins to answer, and where it does not stream. */
  progress: AnswerProgress | undefined;
  /** The upstream's own id of the request, if it named one. */
  upstreamRequestId: string | undefined;
  /** The model that answered: the one that was asked for, or a fallback. */
  answeredBy: string;
  /** Its caller's limits were not asked yet, or have not answered. */
  isAsking: boolean;
  /** What it holds of its caller's limits; undefined where there are none. */
  hold: LimitsHold | undefined;
  isSettled: boolean;
}

export type GenerationOutcome = "complete" | "left" | Failure["code"];

/**
 * What its caller owes for it. What fails is not charged. A caller who leaves, or whose key is revoked, owes what was produced, whether or not all of it was
 * sent: nothing before an upstream begins a stream, what was reserved where nobody can tell.
 */
export function takenBy(generation: Generation, outcome: GenerationOutcome): Taken {
  const { state, usage, answeredBy, progress } = generation;
  if (outcome === "complete" && usage !== null) return { kind: "used", usage, model: answeredBy };
  if (outcome !== "complete" && outcome !== "left" && outcome !== "invalid_key") return { kind: "nothing" };
  if (progress !== undefined && !thinksUnseen(generation, progress)) return producedBy(generation, progress);
  const hasBegun =
    outcome === "complete" || progress !== undefined || (state === "running" && !isStreamedAnswer(generation));
  if (!hasBegun) return { kind: "nothing" };
  const { inputTokens, outputTokens } = tokensOf(generation);
  return {
    kind: "used",
    usage: { ...plainUsageOf(inputTokens, outputTokens), isEstimated: true },
    model: generation.model.id,
  };
}

function producedBy(generation: Generation, { model, outputTokens, reasoningTokens, reported }: AnswerProgress): Taken {
  const input = reported ?? plainUsageOf(tokensOf(generation).inputTokens);
  return { kind: "used", usage: { ...input, outputTokens, reasoningTokens, isEstimated: true }, model };
}

/** Some upstreams show nothing of what a model thinks before its answer, and count it only at the end. */
const thinksUnseen = ({ model }: Generation, { outputTokens }: AnswerProgress): boolean =>
  outputTokens === 0 && model.capabilities.includes("reasoning");

const isStreamedAnswer = ({ operation, framing }: Generation): boolean => operation === "answer" && framing !== "whole";

/** The line that its end leaves in the log: nothing of what was said. */
export function logLineOf(generation: Generation, outcome: GenerationOutcome, now: number): object {
  const { model, answeredBy, caller, waitedMs, firstTokenMs } = generation;
  return {
    requestId: generation.requestId,
    generation: generation.id,
    keyId: caller.id,
    group: caller.group,
    model: model.id,
    ...(answeredBy !== model.id && { answeredBy }),
    queue: generation.jobQueue.name,
    dialect: generation.dialect,
    operation: generation.operation,
    stream: generation.framing !== "whole",
    outcome,
    status: generation.answer.status,
    upstreamRequestId: generation.upstreamRequestId,
    waitedMs: rounded(waitedMs),
    firstTokenMs: rounded(firstTokenMs),
    durationMs: rounded(now - generation.startedAt),
    ...generation.usage,
  };
}

const rounded = (ms: number | undefined) => (ms === undefined ? undefined : Math.round(ms));
