/**
 * The ingress's metrics (https://prometheus.io/docs/practices/naming/): counters and histograms of
 * events.
 */
import { Counter, type Registry } from "prom-client";
import { limitNames, limitScopes } from "#access/limits.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { type ErrorCode, statuses } from "#dialects/errors.ts";
import { unitNames } from "#dialects/usage.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { unpricedUnitsOf } from "#ledger/prices.ts";
import { combinationsOf, HotCounter, hotMetricsOf } from "#service/hot-metrics.ts";
import { sharedLimits } from "../common/failures.ts";

const ratioBuckets = [0.1, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 5, 10];

/** The values of labels, known before anything is counted. */
export interface IngressLabels {
  queues(): string[];
  modelLabelOf(model: string): string;
}

/** The dialects that have sessions. */
const realtimeDialects = ["openai-chat", "gemini"] satisfies ConversationDialect[];
const codes = Object.keys(statuses) as ErrorCode[];
/** The statuses with which most requests end. */
const answerStatuses = [200, 400, 401, 404, 429, 499, 500, 502, 503, 504];

/** Counts events of requests and generations. */
export function metricsSubscriber(
  registry: Registry,
  { queues, modelLabelOf }: IngressLabels,
): Subscriber<IngressEvents> {
  const paths = new Set<string>();
  const counters = countersOf(registry, { queues, paths: () => [...paths] });
  const histograms = histogramsOf(registry, queues);
  return {
    pathServed: ({ path }) => paths.add(path),
    requestEnded({ path, status, durationMs }) {
      counters.requests.inc({ path, status });
      if (durationMs !== undefined) histograms.requestSeconds.add({ path }, durationMs / 1_000);
    },
    requestRefused: ({ code }) => counters.errors.inc({ code }),
    limitReached: ({ limit, scope }) => counters.limitRefusals.inc({ limit, scope }),
    firstContent: ({ generation: { queue }, firstTokenMs }) =>
      histograms.firstTokenSeconds.add({ queue }, firstTokenMs / 1_000),
    waitMet: ({ generation: { queue }, expectedMs, waitedMs }) =>
      histograms.waitRatio.add({ queue }, waitedMs / Math.max(1, expectedMs)),
    chunk({ generation: { queue }, gapMs }) {
      if (gapMs !== undefined) histograms.gapSeconds.add({ queue }, gapMs / 1_000);
    },
    sessionMessage: ({ direction, dialect }) => counters.sessionMessages.inc({ direction, dialect }),
    restarted: ({ generation: { queue } }) => counters.restarts.inc({ queue }),
    ended({ generation: { queue }, outcome, bill, source }) {
      if (bill?.usage.isCapped)
        counters.cappedUsage.inc({ upstream: source?.upstream ?? "", model: modelLabelOf(bill.model) });
      if (bill?.unitPrices.units !== undefined)
        for (const kind of unpricedUnitsOf(bill.unitPrices))
          counters.unpricedUnits.inc({ kind }, bill.usage.units?.[kind]);
      counters.ended.inc({ queue, outcome });
      if (outcome !== "left" && outcome !== "complete") counters.errors.inc({ code: outcome });
    },
  };
}

function countersOf(registry: Registry, { queues, paths }: Pick<IngressLabels, "queues"> & { paths(): string[] }) {
  const { counter } = hotMetricsOf(registry);
  return {
    requests: counter("sluice_requests_total", "Answered requests.", { path: paths, status: answerStatuses }),
    errors: counter("sluice_errors_total", "Requests that failed, by code.", { code: codes }),
    limitRefusals: new HotCounter({
      name: "sluice_limit_refusals_total",
      help: "Requests refused, and connections of answers broken (answers), by a limit and its scope: that of a key, a group, an account, a tag or a model. Of the limits that all keys share (bodies, answers, generations, waiting, websockets), the scope is key where a key is above its share, and ingress where the ingress has too little left.",
      labelNames: ["limit", "scope"],
      registers: [registry],
      initial: () => [
        ...combinationsOf({ limit: sharedLimits, scope: ["key", "ingress"] }),
        ...combinationsOf({ limit: limitNames, scope: limitScopes }),
      ],
    }),
    ended: counter(
      "sluice_ended_generations_total",
      "Generations that ended: complete, left by their callers, or failed with a code.",
      { queue: queues, outcome: ["complete", "left", ...codes] },
    ),
    sessionMessages: counter(
      "sluice_session_messages_total",
      "Messages of sessions, from callers (up) and to them (down).",
      { direction: ["up", "down"], dialect: realtimeDialects },
    ),
    // A catalogue has too many pairs of an upstream and a model to begin with each at zero.
    cappedUsage: new Counter({
      name: "sluice_capped_usage_total",
      help: "Answers whose upstream reported more than their model and request allow, such as more tokens than the window of the model. The most that they allow is charged.",
      labelNames: ["upstream", "model"],
      registers: [registry],
    }),
    unpricedUnits: counter(
      "sluice_unpriced_units_total",
      "Units that upstreams report and the catalogue has no price for, such as searches. They are billed as nothing, and their records say so.",
      { kind: unitNames },
    ),
    restarts: counter(
      "sluice_restarts_total",
      "Attempts restarted, unseen by the caller, because a worker or a job was lost.",
      { queue: queues },
    ),
  };
}

function histogramsOf(registry: Registry, queues: IngressLabels["queues"]) {
  const { histogram } = hotMetricsOf(registry);
  return {
    requestSeconds: histogram("sluice_request_seconds", "From a request's head to the end of its answer.", {
      path: [],
    }),
    firstTokenSeconds: histogram(
      "sluice_first_token_seconds",
      "From the admission of a generation to its first content.",
      { queue: queues },
    ),
    waitRatio: histogram(
      "sluice_queue_wait_ratio",
      "Of requests whose callers were told an expected wait: the real wait for their turn as a multiple of the middle of the first one. 1 is exact.",
      { queue: queues },
      ratioBuckets,
    ),
    gapSeconds: histogram("sluice_gap_seconds", "Between two chunks of a streamed answer.", { queue: queues }),
  };
}
