/**
 * Exports the spans of attempts in this worker:
 *
 *     attempt chat (consumer)           from the job to the last byte, with an event for each retry, failover and resume
 *     └─ chat gpt-5 (client)            each call of an upstream, with its outcome and an event for its first content
 */
import type { Catalogue, CatalogueUpstream } from "#catalogue/catalogue.ts";
import type { Finish } from "#dialects/neutral/neutral.ts";
import type { Usage } from "#dialects/usage.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { AttemptInfo, CallDiagnosis, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { Clock } from "#service/clock.ts";
import { LiveMap } from "#service/live-map.ts";
import { spanEventsMax } from "#tracing/bounds.ts";
import { operationNameOf } from "#tracing/operation-name.ts";
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
  finish: Finish | undefined;
}

export function traceSubscriber(
  exportSpan: ExportSpan,
  clock: Clock,
  catalogue: () => Catalogue,
): Subscriber<WorkerEvents> {
  const running = new LiveMap<string, Running>();
  const exportCall = (event: EndedCall) => {
    const { attempt, call, durationMs, error } = event;
    const state = running.get(keyOf(attempt));
    if (state === undefined || call.trace === undefined) return;
    const endedAt = clock.epoch();
    const startedAt = endedAt - durationMs;
    const { firstContentAt } = state;
    state.firstContentAt = undefined;
    const model = call.targetModel;
    const operation = operationNameOf(attempt.operation, attempt.dialect);
    const attributes: SpanAttributes = {
      "gen_ai.operation.name": operation,
      "gen_ai.request.model": model,
      "gen_ai.request.stream": attempt.isStreamed,
      "sluice.upstream": call.upstream,
    };
    const upstream = catalogue().upstreams.get(call.upstream);
    if (upstream !== undefined) {
      attributes["gen_ai.provider.name"] = providerOf(upstream);
      attributes["server.address"] = hostOf(upstream);
    }
    if (firstContentAt !== undefined)
      attributes["gen_ai.response.time_to_first_chunk"] = Math.max(0, firstContentAt - startedAt) / 1_000;
    addUsage(attributes, event.usage);
    if (event.finish !== undefined) attributes["gen_ai.response.finish_reasons"] = [finishReasons[event.finish]];
    addOutcome(attributes, event);
    exportSpan({
      context: call.trace,
      name: `${operation} ${model}`,
      kind: "client",
      startedAt,
      endedAt,
      attributes,
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
          attributes: { "sluice.upstream": call.upstream, "error.type": state.lastFailure },
        });
      state.lastTarget = call.target;
    },
    firstContent({ attempt }) {
      const state = running.get(keyOf(attempt));
      if (state !== undefined) state.firstContentAt = clock.epoch();
    },
    upstreamCallFailed({ failure, ...event }) {
      exportCall({ ...event, outcome: "failed", error: failure.code, usage: undefined, finish: undefined });
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
      const attributes: SpanAttributes = {
        "messaging.destination.name": attempt.queue,
        "sluice.attempt": attempt.attempt,
        "sluice.outcome": outcome,
      };
      if (failure !== undefined) attributes["error.type"] = failure.code;
      exportSpan({
        context: attempt.trace,
        name: `attempt ${attempt.queue}`,
        kind: "consumer",
        startedAt: state.startedAt,
        endedAt: clock.epoch(),
        attributes,
        events: state.events,
        error: failure?.code,
      });
    },
  };
}

/** A worker may have two attempts of one generation, if it was taken for lost. */
const keyOf = ({ generation, attempt }: AttemptInfo): string => `${generation}-${attempt}`;

/** In the words of the conventions: https://github.com/open-telemetry/semantic-conventions-genai */
const finishReasons: Record<Finish, string> = {
  stop: "stop",
  "stop-sequence": "stop",
  length: "length",
  "context-full": "length",
  calls: "tool_call",
  "content-filter": "content_filter",
  paused: "length",
};

/**
 * The names are those of the conventions for generative AI, which are in development. None of them
 * is for content. Counts of zero are left out.
 */
function addUsage(attributes: SpanAttributes, usage: Usage | undefined): void {
  if (usage === undefined) return;
  attributes["gen_ai.usage.input_tokens"] = usage.inputTokens;
  attributes["gen_ai.usage.output_tokens"] = usage.outputTokens;
  if (usage.cachedInputTokens > 0) attributes["gen_ai.usage.cache_read.input_tokens"] = usage.cachedInputTokens;
  if (usage.cacheWriteTokens > 0) attributes["gen_ai.usage.cache_creation.input_tokens"] = usage.cacheWriteTokens;
  if (usage.reasoningTokens > 0) attributes["gen_ai.usage.reasoning.output_tokens"] = usage.reasoningTokens;
}

function addOutcome(attributes: SpanAttributes, { call, diagnosis, outcome, error }: EndedCall): void {
  const { status, cause, requestId } = diagnosis;
  attributes["sluice.outcome"] = outcome;
  if (status !== undefined) attributes["http.response.status_code"] = status;
  if (error !== undefined) attributes["error.type"] = error;
  if (cause !== undefined) attributes["sluice.cause"] = cause;
  if (requestId !== undefined) attributes["sluice.upstream_request_id"] = requestId;
  if (call.credential !== undefined) attributes["sluice.credential"] = call.credential;
}

/**
 * By the immutable upstream of a catalogue, because reading an address takes longer than the rest
 * of a span.
 */
const hosts = new WeakMap<CatalogueUpstream, string>();
function hostOf(upstream: CatalogueUpstream): string {
  const host = hosts.get(upstream) ?? new URL(upstream.baseUrl).hostname;
  hosts.set(upstream, host);
  return host;
}

/**
 * The convention's name of the API: of a cloud by its authentication, or else of the vendor whose
 * dialect the upstream speaks.
 */
function providerOf({ authentication, dialect }: CatalogueUpstream): string {
  if (authentication === "aws") return "aws.bedrock";
  if (authentication === "google") return "gcp.vertex_ai";
  if (authentication === "api-key") return "azure.ai.openai";
  if (dialect === "gemini") return "gcp.gemini";
  return dialect === "anthropic-messages" ? "anthropic" : "openai";
}
