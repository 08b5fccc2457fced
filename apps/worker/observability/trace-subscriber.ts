/**
 * Exports the spans of attempts in this worker:
 *
 *     attempt chat (consumer)           from the job to the last byte, with an event for each retry, failover and resume
 *     └─ chat gpt-5 (client)            each call of an upstream, with its outcome and an event for its first content
 */
import type { Catalogue, CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Usage } from "#dialects/usage.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { AttemptInfo, CallDiagnosis, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import { LiveMap } from "#relay/live-map.ts";
import type { Clock } from "#service/clock.ts";
import { spanEventsMax } from "#tracing/bounds.ts";
import { names, operationNameOf, ownNames, usageAttributesOf } from "#tracing/names.ts";
import type { ExportSpan, SpanAttributes, SpanEvent } from "#tracing/span.ts";

interface Running {
  /** Epoch milliseconds, as the following. */
  startedAt: number;
  firstContentAt: number | undefined;
  events: SpanEvent[];
  lastTarget: string | undefined;
  lastFailure: string | undefined;
}

interface EndedCall {
  attempt: AttemptInfo;
  call: CallInfo;
  durationMs: number;
  diagnosis: CallDiagnosis;
  outcome: string;
  error: string | undefined;
  usage: Usage | undefined;
}

export function traceSubscriber(
  exportSpan: ExportSpan,
  clock: Clock,
  catalogue: () => Catalogue,
): Subscriber<WorkerEvents> {
  const running = new LiveMap<string, Running>();
  const places = new WeakMap<CatalogueUpstream, SpanAttributes>();
  const placeOf = (name: string): SpanAttributes => {
    const upstream = catalogue().upstreams.get(name);
    if (upstream === undefined) return {};
    const known = places.get(upstream) ?? attributesOf(upstream);
    places.set(upstream, known);
    return known;
  };
  const exportCall = ({ attempt, call, durationMs, diagnosis, outcome, error, usage }: EndedCall) => {
    const state = running.get(keyOf(attempt));
    if (state === undefined || call.trace === undefined) return;
    const endedAt = clock.epoch();
    const startedAt = endedAt - durationMs;
    const { firstContentAt } = state;
    state.firstContentAt = undefined;
    const model = call.target.slice(call.upstream.length + 1);
    const operation = operationNameOf(attempt.operation, attempt.dialect);
    exportSpan({
      context: call.trace,
      name: `${operation} ${model}`,
      kind: "client",
      startedAt,
      endedAt,
      attributes: {
        [names.operation]: operation,
        ...placeOf(call.upstream),
        [names.requestModel]: model,
        [names.requestStream]: attempt.isStreamed || undefined,
        [names.responseFinishReasons]: diagnosis.finish && [diagnosis.finish],
        [names.responseTimeToFirstChunk]:
          firstContentAt === undefined ? undefined : Math.max(0, firstContentAt - startedAt) / 1_000,
        ...usageAttributesOf(usage),
        [names.status]: diagnosis.status,
        [names.errorType]: error,
        [ownNames.model]: call.model,
        [ownNames.upstream]: call.upstream,
        [ownNames.credential]: call.credential,
        [ownNames.call]: call.number,
        [ownNames.outcome]: outcome,
        [ownNames.cause]: diagnosis.cause,
        [ownNames.upstreamRequest]: diagnosis.requestId,
      },
      events: firstContentAt === undefined ? [] : [{ name: "first content", at: firstContentAt }],
      error,
    });
  };
  return {
    taken({ attempt }) {
      if (attempt.trace?.isSampled !== true) return;
      const startedAt = clock.epoch();
      running.set(keyOf(attempt), {
        startedAt,
        firstContentAt: undefined,
        events: [],
        lastTarget: undefined,
        lastFailure: undefined,
      });
    },
    upstreamCallStarted({ attempt, call }) {
      const state = running.get(keyOf(attempt));
      if (state === undefined) return;
      if (state.lastFailure !== undefined && state.events.length < spanEventsMax)
        state.events.push({
          name: call.resumes ? "resume" : call.target === state.lastTarget ? "retry" : "failover",
          at: clock.epoch(),
          attributes: { [ownNames.upstream]: call.upstream, [names.errorType]: state.lastFailure },
        });
      state.lastTarget = call.target;
    },
    firstContent({ attempt }) {
      const state = running.get(keyOf(attempt));
      if (state !== undefined) state.firstContentAt = clock.epoch();
    },
    upstreamCallFailed({ failure, ...event }) {
      exportCall({ ...event, outcome: "failed", error: failure.code, usage: undefined });
      const state = running.get(keyOf(event.attempt));
      if (state !== undefined) state.lastFailure = failure.code;
    },
    upstreamCallEnded({ isComplete, ...event }) {
      exportCall({ ...event, outcome: isComplete ? "complete" : "left", error: undefined });
    },
    ended({ attempt, outcome, failure }) {
      const key = keyOf(attempt);
      const state = running.get(key);
      running.delete(key);
      if (state === undefined || attempt.trace === undefined) return;
      exportSpan({
        context: attempt.trace,
        name: `attempt ${attempt.queue}`,
        kind: "consumer",
        startedAt: state.startedAt,
        endedAt: clock.epoch(),
        attributes: {
          [names.messagingSystem]: "bullmq",
          [names.messagingQueue]: attempt.queue,
          [names.errorType]: failure?.code,
          [ownNames.generation]: attempt.generation,
          [ownNames.attempt]: attempt.attempt,
          [ownNames.outcome]: outcome,
        },
        events: state.events,
        error: failure?.code,
      });
    },
  };
}

/** A worker may have two attempts of one generation, if it was taken for lost. */
const keyOf = ({ generation, attempt }: AttemptInfo): string => `${generation}-${attempt}`;

/** What does not change between calls of an upstream. */
function attributesOf(upstream: CatalogueUpstream): SpanAttributes {
  const { hostname, port, protocol } = new URL(upstream.baseUrl);
  return {
    [names.provider]: providerOf(upstream),
    [names.serverAddress]: hostname,
    [names.serverPort]: Number(port) || (protocol === "https:" ? 443 : 80),
  };
}

/** The convention's name of the API: of a cloud by its authentication, or else of the vendor whose dialect the upstream speaks. */
function providerOf({ authentication, dialect }: CatalogueUpstream): string {
  if (authentication === "aws") return "aws.bedrock";
  if (authentication === "google") return "gcp.vertex_ai";
  if (authentication === "api-key") return "azure.ai.openai";
  if (dialect === "gemini") return "gcp.gemini";
  return dialect === "anthropic-messages" ? "anthropic" : "openai";
}
