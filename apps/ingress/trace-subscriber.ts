/**
 * Exports the spans of requests in this ingress:
 *
 *     chat sim-text (server)            from the receipt to the end, with events for first content and for a lost worker
 *     ├─ admission queue chat           in this ingress
 *     ├─ queue chat                     each attempt, from its dispatch until a worker is bound
 *     └─ attempt …                      by the worker: apps/worker/observability/trace-subscriber.ts
 *
 * The tokens are in the spans of the calls alone, because tools add up the tokens of all spans.
 */
import type { Subscriber } from "#events/event-stream.ts";
import type { GenerationEnded, GenerationFacts, IngressEvents, RequestEnded } from "#events/ingress-events.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { Clock } from "#service/clock.ts";
import { spanEventsMax } from "#tracing/bounds.ts";
import { names, operationNameOf, ownNames } from "#tracing/names.ts";
import type { ExportSpan, SpanEvent } from "#tracing/span.ts";
import { childOf } from "#tracing/trace-context.ts";

/** What is known of a dispatched generation. In milliseconds of `clock.now()`. */
interface Dispatched {
  attempt: number;
  /** Undefined once a worker is bound. */
  since: number | undefined;
  /** When workers or jobs were lost; the first ones. */
  restartedAt: number[] | undefined;
}

export function traceSubscriber(exportSpan: ExportSpan, clock: Clock): Subscriber<IngressEvents> {
  const dispatched = new LiveMap<string, Dispatched>();
  const endWait = (generation: GenerationFacts, state: Dispatched, boundAt?: number) => {
    const { trace, queue } = generation;
    if (trace === undefined || state.since === undefined) return;
    const endedAt = boundAt ?? clock.epoch();
    exportSpan({
      context: childOf(trace),
      name: `queue ${queue}`,
      kind: "internal",
      startedAt: endedAt - (clock.now() - state.since),
      endedAt,
      attributes: {
        [names.messagingSystem]: "bullmq",
        [names.messagingQueue]: queue,
        [ownNames.attempt]: state.attempt,
        [ownNames.outcome]: boundAt === undefined ? "left" : "bound",
      },
    });
    state.since = undefined;
  };
  return {
    dispatched({ generation: { generationId, trace }, attempt }) {
      if (trace?.isSampled !== true) return;
      const state = dispatched.get(generationId);
      if (state === undefined) dispatched.set(generationId, { attempt, since: clock.now(), restartedAt: undefined });
      else Object.assign(state, { attempt, since: clock.now() });
    },
    bound({ generation, waitedMs }) {
      const state = dispatched.get(generation.generationId);
      if (state !== undefined) endWait(generation, state, generation.receivedAt + waitedMs);
    },
    restarted({ generation }) {
      const state = dispatched.get(generation.generationId);
      if (state === undefined) return;
      endWait(generation, state);
      state.restartedAt ??= [];
      if (state.restartedAt.length < spanEventsMax) state.restartedAt.push(clock.now());
    },
    ended(event) {
      const { generation } = event;
      if (generation.trace?.isSampled !== true) return;
      const state = dispatched.get(generation.generationId);
      dispatched.delete(generation.generationId);
      if (state !== undefined) endWait(generation, state);
      exportAdmission(exportSpan, event);
      const now = clock.now();
      const endedAt = generation.receivedAt + event.durationMs;
      const losses = state?.restartedAt ?? [];
      exportGeneration(
        exportSpan,
        event,
        losses.map((at) => ({ name: "worker lost", at: endedAt - (now - at) })),
      );
    },
    requestEnded: (event) => exportRefusal(exportSpan, event, clock.epoch()),
  };
}

function exportAdmission(exportSpan: ExportSpan, { generation, queuedMs, dispatchedMs, durationMs }: GenerationEnded) {
  const { trace, queue, receivedAt } = generation;
  if (trace === undefined || queuedMs === undefined) return;
  exportSpan({
    context: childOf(trace),
    name: `admission queue ${queue}`,
    kind: "internal",
    startedAt: receivedAt + queuedMs,
    endedAt: receivedAt + (dispatchedMs ?? durationMs),
    attributes: {
      [ownNames.queue]: queue,
      [ownNames.group]: generation.group,
      [ownNames.outcome]: dispatchedMs === undefined ? "left" : "dispatched",
    },
  });
}

function exportGeneration(exportSpan: ExportSpan, event: GenerationEnded, losses: SpanEvent[]): void {
  const { generation, outcome, source, firstTokenMs } = event;
  const { trace, operation, dialect, model, receivedAt } = generation;
  if (trace === undefined) return;
  const error = outcome === "complete" || outcome === "left" ? undefined : outcome;
  exportSpan({
    context: trace,
    name: `${operationNameOf(operation, dialect)} ${model}`,
    kind: "server",
    startedAt: receivedAt,
    endedAt: receivedAt + event.durationMs,
    attributes: {
      [names.status]: event.status,
      [names.errorType]: error,
      [ownNames.request]: generation.requestId,
      [ownNames.key]: generation.keyId,
      [ownNames.group]: generation.group,
      [ownNames.account]: generation.account,
      [ownNames.queue]: generation.queue,
      [ownNames.operation]: operation,
      [ownNames.dialect]: dialect,
      [ownNames.model]: model,
      [ownNames.modelAnswered]: event.modelAnswered,
      [ownNames.upstream]: source?.upstream,
      [ownNames.calls]: source?.calls,
      [ownNames.attempt]: event.attempt,
      [ownNames.outcome]: error === undefined ? outcome : "failed",
    },
    events: [
      ...losses,
      ...(firstTokenMs === undefined ? [] : [{ name: "first content", at: receivedAt + firstTokenMs }]),
    ],
    error: isFault(event.status) ? error : undefined,
  });
}

/** A request that did not become a generation. */
function exportRefusal(exportSpan: ExportSpan, event: RequestEnded, now: number): void {
  const { trace, path, method, errorCode, status, durationMs = 0 } = event;
  if (trace?.isSampled !== true) return;
  exportSpan({
    context: trace,
    name: method === undefined ? path : `${method} ${path}`,
    kind: "server",
    startedAt: now - durationMs,
    endedAt: now,
    attributes: {
      [names.status]: status,
      [names.errorType]: errorCode,
      [ownNames.request]: event.requestId,
      [ownNames.key]: event.keyId,
      [ownNames.group]: event.group,
      [ownNames.account]: event.account,
      [ownNames.outcome]: "refused",
    },
    error: isFault(status) ? errorCode : undefined,
  });
}

/** A server's span does not count the caller's own mistakes as errors. A failure after the first content has the status 200. */
const isFault = (status: number): boolean => status < 400 || status >= 500;
