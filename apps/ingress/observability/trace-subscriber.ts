/**
 * Exports the spans of requests in this ingress:
 *
 *     chat sim-text (server)            from the receipt to the end, with events for first content and for a lost worker
 *     ├─ queue chat                     from the admission queue until a worker is bound, with an event when its job goes to the queue
 *     └─ attempt chat                   by the worker: apps/worker/observability/trace-subscriber.ts
 *
 * A lost worker leads to another span of the queue and another attempt. The tokens are in the spans
 * of calls alone, because tools add up the tokens of all spans.
 */
import type { Subscriber } from "#events/event-stream.ts";
import type { GenerationEnded, GenerationFacts, IngressEvents, RequestEnded } from "#events/ingress-events.ts";
import type { Clock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { spanEventsMax } from "#tracing/bounds.ts";
import { operationNameOf } from "#tracing/operation-name.ts";
import type { ExportSpan, SpanAttributes, SpanEvent } from "#tracing/span.ts";
import { childOf, type TraceContext } from "#tracing/trace-context.ts";

/** A generation that waits or has waited. Times are milliseconds of `clock.now()`. */
interface Queued {
  /** Undefined once a worker is bound. */
  since: number | undefined;
  dispatchedAt: number | undefined;
  /** When workers or jobs were lost; the first ones. */
  restartedAt: number[] | undefined;
}

export function traceSubscriber(exportSpan: ExportSpan, clock: Clock): Subscriber<IngressEvents> {
  const queued = new LiveMap<string, Queued>();
  const endWait = (generation: GenerationFacts, state: Queued, outcome: "bound" | "left") => {
    const { trace, queue } = generation;
    const { since, dispatchedAt } = state;
    if (trace === undefined || since === undefined) return;
    state.since = undefined;
    const now = clock.now();
    const endedAt = clock.epoch();
    exportSpan({
      context: childOf(trace),
      name: `queue ${queue}`,
      kind: "internal",
      startedAt: endedAt - (now - since),
      endedAt,
      attributes: { "messaging.destination.name": queue, "sluice.outcome": outcome },
      events: dispatchedAt === undefined ? [] : [{ name: "enqueued", at: endedAt - (now - dispatchedAt) }],
      error: undefined,
    });
  };
  return {
    queued({ generation: { generationId, trace } }) {
      if (trace?.isSampled !== true) return;
      queued.set(generationId, { since: clock.now(), dispatchedAt: undefined, restartedAt: undefined });
    },
    dispatched({ generation }) {
      const state = queued.get(generation.generationId);
      if (state !== undefined) state.dispatchedAt = clock.now();
    },
    bound({ generation }) {
      const state = queued.get(generation.generationId);
      if (state !== undefined) endWait(generation, state, "bound");
    },
    restarted({ generation }) {
      const state = queued.get(generation.generationId);
      if (state === undefined) return;
      endWait(generation, state, "left");
      state.since = clock.now();
      state.dispatchedAt = undefined;
      state.restartedAt ??= [];
      if (state.restartedAt.length < spanEventsMax) state.restartedAt.push(state.since);
    },
    ended(event) {
      const { generation } = event;
      const { trace, generationId } = generation;
      if (trace?.isSampled !== true) return;
      const state = queued.get(generationId);
      queued.delete(generationId);
      if (state !== undefined) endWait(generation, state, "left");
      const beganAt = clock.now() - event.durationMs;
      exportGeneration(exportSpan, trace, event, state?.restartedAt?.map((at) => at - beganAt) ?? []);
    },
    requestEnded: (event) => exportRefusal(exportSpan, event, clock.epoch()),
  };
}

/** `lossesMs`: when workers were lost, from the receipt. */
function exportGeneration(
  exportSpan: ExportSpan,
  trace: TraceContext,
  event: GenerationEnded,
  lossesMs: readonly number[],
): void {
  const { generation, outcome, status, modelAnswered, firstTokenMs } = event;
  const { operation, dialect, model, receivedAt, account } = generation;
  const error = outcome === "complete" || outcome === "left" ? undefined : outcome;
  const attributes: SpanAttributes = {
    "http.response.status_code": status,
    "sluice.request_id": generation.requestId,
    "sluice.key_id": generation.keyId,
    "sluice.group": generation.group,
    "sluice.model": model,
    "sluice.dialect": dialect,
    "sluice.outcome": error === undefined ? outcome : "failed",
  };
  if (account !== undefined) attributes["sluice.account"] = account;
  if (modelAnswered !== model) attributes["sluice.model_answered"] = modelAnswered;
  if (error !== undefined) attributes["error.type"] = error;
  const events: SpanEvent[] = lossesMs.map((ms) => ({ name: "worker lost", at: receivedAt + ms }));
  if (firstTokenMs !== undefined) events.push({ name: "first content", at: receivedAt + firstTokenMs });
  exportSpan({
    context: trace,
    name: `${operationNameOf(operation, dialect)} ${model}`,
    kind: "server",
    startedAt: receivedAt,
    endedAt: receivedAt + event.durationMs,
    attributes,
    events,
    error: isFault(status) ? error : undefined,
  });
}

/** A request that did not become a generation. */
function exportRefusal(exportSpan: ExportSpan, event: RequestEnded, now: number): void {
  const { trace, path, method, errorCode, status, keyId, group, account, durationMs = 0 } = event;
  if (trace?.isSampled !== true || errorCode === undefined) return;
  const attributes: SpanAttributes = {
    "http.response.status_code": status,
    "error.type": errorCode,
    "sluice.request_id": event.requestId,
    "sluice.outcome": "refused",
  };
  if (keyId !== undefined) attributes["sluice.key_id"] = keyId;
  if (group !== undefined) attributes["sluice.group"] = group;
  if (account !== undefined) attributes["sluice.account"] = account;
  exportSpan({
    context: trace,
    name: method === undefined ? path : `${method} ${path}`,
    kind: "server",
    startedAt: now - durationMs,
    endedAt: now,
    attributes,
    events: [],
    error: isFault(status) ? errorCode : undefined,
  });
}

/**
 * A server's span does not count the caller's own mistakes as errors. A failure after the first
 * content has the status 200.
 */
const isFault = (status: number): boolean => status < 400 || status >= 500;
