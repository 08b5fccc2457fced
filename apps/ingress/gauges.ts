/** The metrics of the ingress's state; those of events are in observability/metrics.ts. */
import { Gauge, type Registry } from "prom-client";
import type { Backends } from "./backends.ts";
import type { DetachedGenerations } from "./background/detached.ts";
import type { Capacity } from "./common/capacity.ts";
import type { GenerationLifecycle } from "./generation/lifecycle.ts";
import type { BoundedStore } from "./stored/bounded-store.ts";

/** The parts whose state the gauges show. */
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
