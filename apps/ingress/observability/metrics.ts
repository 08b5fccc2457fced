/**
 * The ingress's metrics (https://prometheus.io/docs/practices/naming/): counters and histograms of
 * events, gauges of the state.
 */

import { Counter, Gauge, type Registry } from "prom-client";
import { limitNames, limitScopes } from "#access/limits.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { type ErrorCode, statuses } from "#dialects/errors.ts";
import { unitNames } from "#dialects/usage.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { unpricedUnitsOf } from "#ledger/prices.ts";
import { combinationsOf, HotCounter, hotMetricsOf } from "#service/hot-metrics.ts";
import type { Backends } from "../backends.ts";
import type { DetachedGenerations } from "../background/detached.ts";
import type { Capacity } from "../common/capacity.ts";
import { sharedLimits } from "../common/failures.ts";
import type { GenerationLifecycle } from "../generation/lifecycle.ts";
import type { BoundedStore } from "../stored/bounded-store.ts";

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

/** What the gauges show the state of. */
export interface GaugeSources {
  backends: Pick<Backends, "catalogue" | "keys" | "queues" | "controls">;
  generations: Pick<GenerationLifecycle, "statistics" | "waiting">;
  /** The limits that keys share, by name. */
  capacities: Record<string, Capacity> & { bodies: Capacity };
  detached: Pick<DetachedGenerations, "size">;
  store: Pick<BoundedStore, "bytes">;
}

/**
 * Registers the gauges of the ingress's state. Await the returned function before each scrape: it
 * reads the state. What Redis does not tell while it is away is not shown.
 */
export function registerIngressGauges(
  registry: Registry,
  { backends, generations, capacities, detached, store }: GaugeSources,
): () => Promise<void> {
  const gauges = gaugesOf(registry);
  const showCapacity = (limit: string, queue: string, { used, max }: Capacity) => {
    gauges.capacityUsed.set({ limit, queue }, used);
    gauges.capacityMax.set({ limit, queue }, max);
  };
  return async () => {
    for (const { queue, workers, waiting, admissionQueueSize, running, oldestWaitMs } of generations.statistics()) {
      gauges.mismatch.set({ queue }, Number(workers === "other"));
      gauges.generations.set({ queue, state: "waiting" }, waiting);
      gauges.generations.set({ queue, state: "running" }, running);
      gauges.queued.set({ queue }, admissionQueueSize);
      gauges.oldestWait.set({ queue }, oldestWaitMs / 1_000);
    }
    gauges.waitMax.reset();
    for (const [queue, { waitMs }] of backends.catalogue.current().queues)
      gauges.waitMax.set({ queue }, waitMs / 1_000);
    for (const [limit, capacity] of Object.entries(capacities)) showCapacity(limit, "", capacity);
    for (const [queue, capacity] of generations.waiting) showCapacity("waiting", queue, capacity);
    gauges.bodiesBytes.set(capacities.bodies.used);
    gauges.keys.set(backends.keys.count());
    gauges.detached.set(detached.size);
    gauges.controls.reset();
    for (const { kind, name, state } of backends.controls.all()) gauges.controls.set({ kind, name, state }, 1);
    const storedBytes = await store.bytes().catch(() => undefined);
    if (storedBytes !== undefined) gauges.storedBytes.set(storedBytes);
    const depths = await backends.queues.depths().catch(() => []);
    gauges.jobs.reset();
    for (const { queue, state, count } of depths) gauges.jobs.set({ queue, state }, count);
  };
}

function gaugesOf(registry: Registry) {
  const gauge = <Label extends string>(name: string, help: string, ...labelNames: Label[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  return {
    generations: gauge("sluice_generations", "Generations of this ingress that are not over.", "queue", "state"),
    queued: gauge(
      "sluice_queued_generations",
      "Waiting generations of this ingress that it has not put on their queue yet, so that those of other keys can overtake.",
      "queue",
    ),
    oldestWait: gauge(
      "sluice_oldest_wait_seconds",
      "How long the oldest generation of this ingress has waited for a worker; take the maximum over all.",
      "queue",
    ),
    waitMax: gauge(
      "sluice_queue_wait_max_seconds",
      "How long a request may wait for a worker: waitMs of the queue in the catalogue.",
      "queue",
    ),
    mismatch: gauge(
      "sluice_queue_protocol_mismatch",
      "1 while the only workers of a queue are of another protocol and cannot run this ingress's jobs.",
      "queue",
    ),
    jobs: gauge("sluice_queue_jobs", "Jobs on a queue by state, counted over all processes.", "queue", "state"),
    bodiesBytes: gauge("sluice_bodies_bytes", "Bytes of request bodies in memory."),
    capacityUsed: gauge(
      "sluice_capacity_used",
      "How much is used of each limit that all keys of this ingress share: bytes of bodies, of answers that callers have not taken, and of conversations, generations, waiting generations by queue, WebSockets.",
      "limit",
      "queue",
    ),
    capacityMax: gauge("sluice_capacity_max", "The limits that all keys of this ingress share.", "limit", "queue"),
    detached: gauge(
      "sluice_detached_generations",
      "Background responses and resumable streams that run at this ingress.",
    ),
    storedBytes: gauge(
      "sluice_stored_bytes",
      "Bytes of responses, conversations and logs that Redis stores for all callers, bounded by STORED_BYTES_MAX. Every ingress reports the same number.",
    ),
    controls: gauge(
      "sluice_operator_control",
      "1 for each queue that an operator has paused or drains, and each target that an operator keeps open. Every ingress reports the same.",
      "kind",
      "name",
      "state",
    ),
    keys: gauge("sluice_keys", "Keys known to this ingress, revoked ones included."),
  };
}
