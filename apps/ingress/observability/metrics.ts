/**
 * The ingress's metrics (https://prometheus.io/docs/practices/naming/): counters and histograms of
 * events, gauges of the state.
 */

import { Counter, Gauge, Histogram, type Registry } from "prom-client";
import { statuses } from "#dialects/errors.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { IngressEvents } from "#events/ingress-events.ts";
import { unpricedUnitsOf } from "#ledger/prices.ts";
import type { OperatorControl } from "#service/operator-controls.ts";

const buckets = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** Counts events of requests and generations. */
export function metricsSubscriber(registry: Registry): Subscriber<IngressEvents> {
  const counters = countersOf(registry);
  const histograms = histogramsOf(registry);
  // Prometheus does not see the first increase of a series that begins with it.
  for (const code of Object.keys(statuses)) counters.errors.inc({ code }, 0);
  return {
    requestEnded({ path, status, durationMs }) {
      counters.requests.inc({ path, status });
      if (durationMs !== undefined) histograms.requestSeconds.observe({ path }, durationMs / 1_000);
    },
    requestRefused: ({ code }) => counters.errors.inc({ code }),
    limitReached: ({ limit, scope }) => counters.limitRefusals.inc({ limit, scope }),
    firstContent: ({ generation: { queue }, firstTokenMs }) =>
      histograms.firstTokenSeconds.observe({ queue }, firstTokenMs / 1_000),
    chunk({ generation: { queue }, gapMs }) {
      if (gapMs !== undefined) histograms.gapSeconds.observe({ queue }, gapMs / 1_000);
    },
    sessionMessage: ({ direction, dialect }) => counters.sessionMessages.inc({ direction, dialect }),
    restarted: ({ generation: { queue } }) => counters.restarts.inc({ queue }),
    ended({ generation: { queue }, outcome, bill, source }) {
      if (bill?.usage.isCapped) counters.cappedUsage.inc({ upstream: source?.upstream ?? "", model: bill.model });
      if (bill?.unitPrices.units !== undefined)
        for (const kind of unpricedUnitsOf(bill.unitPrices))
          counters.unpricedUnits.inc({ kind }, bill.usage.units?.[kind]);
      if (outcome === "left") counters.cancellations.inc({ queue });
      else if (outcome !== "complete") counters.errors.inc({ code: outcome });
    },
  };
}

function countersOf(registry: Registry) {
  const registers = [registry];
  return {
    requests: new Counter({
      name: "sluice_requests_total",
      help: "Answered requests.",
      labelNames: ["path", "status"],
      registers,
    }),
    errors: new Counter({
      name: "sluice_errors_total",
      help: "Requests that failed, by code.",
      labelNames: ["code"],
      registers,
    }),
    limitRefusals: new Counter({
      name: "sluice_limit_refusals_total",
      help: "Requests refused, and connections of answers broken (answers), by a limit and its scope: a key's, a group's or an account's limit. Of the limits that all keys share (bodies, answers, generations, waiting, websockets), the scope is key where a key is above its share, and ingress where the ingress has too little left.",
      labelNames: ["limit", "scope"],
      registers,
    }),
    cancellations: new Counter({
      name: "sluice_cancellations_total",
      help: "Generations whose callers left.",
      labelNames: ["queue"],
      registers,
    }),
    sessionMessages: new Counter({
      name: "sluice_session_messages_total",
      help: "Messages of sessions, from callers (up) and to them (down).",
      labelNames: ["direction", "dialect"],
      registers,
    }),
    cappedUsage: new Counter({
      name: "sluice_capped_usage_total",
      help: "Answers whose upstream reported more than their model and request allow, such as more tokens than the window of the model. The most that they allow is charged.",
      labelNames: ["upstream", "model"],
      registers,
    }),
    unpricedUnits: new Counter({
      name: "sluice_unpriced_units_total",
      help: "Units that upstreams report and the catalogue has no price for, such as searches. They are billed as nothing, and their records say so.",
      labelNames: ["kind"],
      registers,
    }),
    restarts: new Counter({
      name: "sluice_restarts_total",
      help: "Attempts restarted, unseen by the caller, because a worker or a job was lost.",
      labelNames: ["queue"],
      registers,
    }),
  };
}

function histogramsOf(registry: Registry) {
  const registers = [registry];
  return {
    requestSeconds: new Histogram({
      name: "sluice_request_seconds",
      help: "From a request's head to the end of its answer.",
      labelNames: ["path"],
      buckets,
      registers,
    }),
    firstTokenSeconds: new Histogram({
      name: "sluice_first_token_seconds",
      help: "From the admission of a generation to its first content.",
      labelNames: ["queue"],
      buckets,
      registers,
    }),
    gapSeconds: new Histogram({
      name: "sluice_gap_seconds",
      help: "Between two chunks of a streamed answer.",
      labelNames: ["queue"],
      buckets,
      registers,
    }),
  };
}

/** The state read at a scrape. */
export interface IngressReadings {
  /** Generations of this process by queue and state, and how long the oldest has waited. */
  queues(): { queue: string; waiting: number; admissionQueueSize: number; running: number; oldestWaitMs: number }[];
  /**
   * Jobs on the queues, of all processes; rejects when Redis is away, and no number is shown then.
   */
  depths(): Promise<{ queue: string; state: string; count: number }[]>;
  /** The limits that keys share; `queue` is "" for a limit that does not belong to a queue. */
  capacities(): { limit: string; queue: string; used: number; max: number }[];
  bodiesBytes(): number;
  /** Generations of this process that go on without their callers. */
  detached(): number;
  /** Bytes that Redis stores for all callers; rejects when Redis is away. */
  storedBytes(): Promise<number>;
  keys(): number;
  /** The decisions of operators about queues and targets. */
  controls(): Pick<OperatorControl, "kind" | "name" | "state">[];
}

/**
 * Registers the gauges of the ingress's state. Await the returned function before each scrape: it
 * reads the state.
 */
export function registerIngressGauges(registry: Registry, readings: IngressReadings): () => Promise<void> {
  const gauges = gaugesOf(registry);
  return async () => {
    for (const { queue, waiting, admissionQueueSize, running, oldestWaitMs } of readings.queues()) {
      gauges.generations.set({ queue, state: "waiting" }, waiting);
      gauges.generations.set({ queue, state: "running" }, running);
      gauges.queued.set({ queue }, admissionQueueSize);
      gauges.oldestWait.set({ queue }, oldestWaitMs / 1_000);
    }
    for (const { limit, queue, used, max } of readings.capacities()) {
      gauges.capacityUsed.set({ limit, queue }, used);
      gauges.capacityMax.set({ limit, queue }, max);
    }
    gauges.bodiesBytes.set(readings.bodiesBytes());
    gauges.keys.set(readings.keys());
    gauges.detached.set(readings.detached());
    gauges.controls.reset();
    for (const { kind, name, state } of readings.controls()) gauges.controls.set({ kind, name, state }, 1);
    const storedBytes = await readings.storedBytes().catch(() => undefined);
    if (storedBytes !== undefined) gauges.storedBytes.set(storedBytes);
    const depths = await readings.depths().catch(() => []);
    gauges.jobs.reset();
    for (const { queue, state, count } of depths) gauges.jobs.set({ queue, state }, count);
  };
}

function gaugesOf(registry: Registry) {
  const registers = [registry];
  return {
    generations: new Gauge({
      name: "sluice_generations",
      help: "Generations of this ingress that are not over.",
      labelNames: ["queue", "state"],
      registers,
    }),
    queued: new Gauge({
      name: "sluice_queued_generations",
      help: "Waiting generations of this ingress that it has not put on their queue yet, so that those of other keys can overtake.",
      labelNames: ["queue"],
      registers,
    }),
    oldestWait: new Gauge({
      name: "sluice_oldest_wait_seconds",
      help: "How long the oldest generation of this ingress has waited for a worker; take the maximum over all.",
      labelNames: ["queue"],
      registers,
    }),
    jobs: new Gauge({
      name: "sluice_queue_jobs",
      help: "Jobs on a queue by state, counted over all processes.",
      labelNames: ["queue", "state"],
      registers,
    }),
    bodiesBytes: new Gauge({ name: "sluice_bodies_bytes", help: "Bytes of request bodies in memory.", registers }),
    capacityUsed: new Gauge({
      name: "sluice_capacity_used",
      help: "How much is used of each limit that all keys of this ingress share: bytes of bodies, of answers that callers have not taken, and of conversations, generations, waiting generations by queue, WebSockets.",
      labelNames: ["limit", "queue"],
      registers,
    }),
    capacityMax: new Gauge({
      name: "sluice_capacity_max",
      help: "The limits that all keys of this ingress share.",
      labelNames: ["limit", "queue"],
      registers,
    }),
    detached: new Gauge({
      name: "sluice_detached_generations",
      help: "Background responses and resumable streams that run at this ingress.",
      registers,
    }),
    storedBytes: new Gauge({
      name: "sluice_stored_bytes",
      help: "Bytes of responses, conversations and logs that Redis stores for all callers, bounded by STORED_BYTES_MAX. Every ingress reports the same number.",
      registers,
    }),
    controls: new Gauge({
      name: "sluice_operator_control",
      help: "1 for each queue that an operator has paused or drains, and each target that an operator keeps open. Every ingress reports the same.",
      labelNames: ["kind", "name", "state"],
      registers,
    }),
    keys: new Gauge({
      name: "sluice_keys",
      help: "Keys known to this ingress, revoked ones included.",
      registers,
    }),
  };
}
