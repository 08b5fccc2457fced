/**
 * Writes a usage record for the end of each generation, and for each request that was refused
 * before it became one.
 */
import type { Subscriber } from "#events/event-stream.ts";
import type { GenerationEnded, IngressEvents, RequestEnded } from "#events/ingress-events.ts";
import { billedFields, emptyFields, nothingBilled } from "#ledger/record-fields.ts";
import type { UsageRecord } from "#ledger/usage-record.ts";
import type { Clock } from "#service/clock.ts";

export function usageSubscriber(write: (record: UsageRecord) => void, clock: Clock): Subscriber<IngressEvents> {
  return {
    ended: (event) => {
      const isEarly = event.isDeferred || (event.generation.batch !== undefined && isSentAgain(event.outcome));
      if (!isEarly) write(recordOf(event));
    },
    // The record of the end replaces it.
    witnessed: (event) => write({ ...recordOf(event), isOwner: false }),
    requestEnded: (event) => {
      if (isRefusedGeneration(event)) write(refusedRecordOf(event, clock.epoch()));
    },
  };
}

/**
 * A request by a known caller that the gateway answered with an error. Reads of lists and the like
 * are not generations.
 */
const isRefusedGeneration = ({
  outcome,
  status,
  method,
  transport,
  keyId,
  errorCode,
  batchLine,
}: RequestEnded): boolean =>
  outcome === "answered" &&
  status >= 400 &&
  keyId !== undefined &&
  errorCode !== undefined &&
  (batchLine === undefined || !isSentAgain(errorCode)) &&
  (method === "POST" || transport === "websocket");

/** A line of a batch that ends so gets its record later. */
const isSentAgain = (outcome: GenerationEnded["outcome"]): boolean =>
  outcome === "rate_limited" || outcome === "unavailable" || outcome === "overloaded";

function recordOf(event: GenerationEnded): UsageRecord {
  const { generation, outcome, source } = event;
  const billed = event.bill ? billedFields(event.bill, source?.cost) : nothingBilled;
  // Each member by itself: an object that begins with a spread is copied again for every third
  // member that it gets.
  return {
    generationId: generation.generationId,
    requestId: generation.requestId,
    attempt: event.attempt,
    isOwner: true,
    receivedAt: generation.receivedAt,
    account: generation.account ?? null,
    user: generation.user,
    // Labels that an ingress of an earlier version has stored with a run lack it.
    session: generation.session ?? null,
    tags: [...generation.tags],
    keyId: generation.keyId,
    group: generation.group,
    model: generation.model,
    modelAnswered: event.attempt === 0 ? null : event.modelAnswered,
    upstream: source?.upstream ?? null,
    target: source?.target ?? null,
    upstreamDialect: source?.dialect ?? null,
    calls: source?.calls ?? 0,
    callLog: source?.callLog?.map((each) => [...each]) ?? null,
    operation: generation.operation,
    dialect: generation.dialect,
    queue: generation.queue,
    isStreamed: generation.framing !== "whole",
    status: event.status,
    outcome: outcomeOf(event),
    queuedMs: msOf(event.queuedMs),
    dispatchedMs: msOf(event.dispatchedMs),
    boundMs: msOf(event.waitedMs),
    firstContentMs: msOf(event.firstTokenMs),
    durationMs: Math.round(event.durationMs),
    chunks: event.chunks,
    bytes: event.bytes,
    bodyBytes: generation.bodyBytes,
    upstreamRequestId: event.upstreamRequestId?.slice(0, 200) ?? null,
    errorCode: outcome === "complete" || outcome === "left" ? null : outcome,
    traceId: generation.trace?.traceId ?? null,
    batch: generation.batch ?? null,
    inputTokens: billed.inputTokens,
    cachedInputTokens: billed.cachedInputTokens,
    cacheWriteTokens: billed.cacheWriteTokens,
    outputTokens: billed.outputTokens,
    reasoningTokens: billed.reasoningTokens,
    audioInputTokens: billed.audioInputTokens,
    audioOutputTokens: billed.audioOutputTokens,
    images: billed.images,
    imageSize: billed.imageSize,
    imageQuality: billed.imageQuality,
    isEstimated: billed.isEstimated,
    unitPrices: billed.unitPrices,
    priceVersion: billed.priceVersion,
    serviceTier: billed.serviceTier,
    groupPpm: billed.groupPpm,
    cost: billed.cost,
    upstreamCost: billed.upstreamCost,
    otherUnits: billed.otherUnits,
    cacheSaving: billed.cacheSaving,
  };
}

function outcomeOf({ outcome, waitedMs }: GenerationEnded): UsageRecord["outcome"] {
  if (outcome === "complete" || outcome === "left") return outcome;
  return waitedMs === undefined ? "refused" : "failed";
}

function refusedRecordOf(event: RequestEnded, now: number): UsageRecord {
  const { keyId = "", group = "", account = null, status, errorCode = null, durationMs = 0, batchLine } = event;
  const requestId = batchLine?.generationId.replace("gen_", "req_") ?? event.requestId;
  return {
    ...emptyFields,
    ...nothingBilled,
    generationId: batchLine?.generationId ?? requestId,
    requestId,
    attempt: batchLine?.attempts ?? 0,
    isOwner: true,
    receivedAt: batchLine?.receivedAt ?? Math.round(now - durationMs),
    batch: batchLine?.batch ?? null,
    account,
    user: event.user,
    session: event.session,
    tags: [...event.tags],
    keyId,
    group,
    modelAnswered: null,
    ...(event.refusedCall ?? { model: null, operation: null, dialect: null, queue: null }),
    isStreamed: false,
    status,
    outcome: "refused",
    errorCode,
    durationMs: Math.round(durationMs),
    bodyBytes: 0,
    traceId: event.trace?.traceId ?? null,
  };
}

const msOf = (ms: number | undefined): number | null => (ms === undefined ? null : Math.round(ms));
