/** What a worker tells its operator in numbers (https://prometheus.io/docs/practices/naming/). */

import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";
import type { JobWorker } from "#relay/ports.ts";
import type { AttachmentBudget } from "./attachment-budget.ts";
import type { CircuitBreakers } from "./circuit-breakers.ts";
import type { Credentials } from "./credentials.ts";

const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

/** `queues` are read when the metrics are scraped. */
export function createWorkerMetrics(queues: () => readonly JobWorker[]) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  new Gauge({
    name: "sluice_worker_generations",
    help: "Generations held by this worker.",
    labelNames: ["queue"],
    registers,
    collect() {
      for (const { name, held } of queues()) this.set({ queue: name }, held);
    },
  });
  new Gauge({
    name: "sluice_worker_capacity",
    help: "Generations that this worker holds at most.",
    labelNames: ["queue"],
    registers,
    collect() {
      for (const { name, capacity } of queues()) this.set({ queue: name }, capacity);
    },
  });
  return {
    registry,
    /** Each is read when the metrics are scraped. */
    watch(
      circuitBreakers: Pick<CircuitBreakers, "states">,
      credentials: Pick<Credentials, "cooling">,
      attachments: Pick<AttachmentBudget, "heldBytes" | "waiting">,
    ) {
      new Gauge({
        name: "sluice_worker_attachment_bytes",
        help: "Bytes of fetched images and documents that this worker holds or has reserved.",
        registers,
        collect() {
          this.set(attachments.heldBytes);
        },
      });
      new Gauge({
        name: "sluice_worker_attachments_waiting",
        help: "Requests that wait until this worker may fetch their images and documents.",
        registers,
        collect() {
          this.set(attachments.waiting);
        },
      });
      new Gauge({
        name: "sluice_circuit_breaker_open",
        help: "Circuit breakers of targets that are open (1) or half-open (0.5), as this worker knows them; those that are closed are not shown.",
        labelNames: ["target"],
        registers,
        collect() {
          this.reset();
          for (const { target, state } of circuitBreakers.states(performance.now()))
            if (state !== "closed") this.set({ target }, state === "open" ? 1 : 0.5);
        },
      });
      new Gauge({
        name: "sluice_credentials_cooling",
        help: "Credentials that cool down because an upstream refused them or limits their rate: the target and the name of the variable.",
        labelNames: ["credential"],
        registers,
        collect() {
          this.reset();
          for (const credential of credentials.cooling(performance.now())) this.set({ credential }, 1);
        },
      });
    },
    queueWait: new Histogram({
      name: "sluice_queue_wait_seconds",
      help: "From the admission of a request until a worker took it.",
      labelNames: ["queue"],
      buckets: seconds,
      registers,
    }),
    firstToken: new Histogram({
      name: "sluice_upstream_first_token_seconds",
      help: "From the call of an upstream to its first content.",
      labelNames: ["upstream"],
      buckets: seconds,
      registers,
    }),
    tokenGap: new Histogram({
      name: "sluice_upstream_gap_seconds",
      help: "Between two pieces of an upstream's streamed answer.",
      labelNames: ["upstream"],
      buckets: seconds,
      registers,
    }),
    upstreamCalls: new Counter({
      name: "sluice_upstream_calls_total",
      help: "Calls of upstreams; `again` are those after another call of the same generation had failed.",
      labelNames: ["upstream", "again"],
      registers,
    }),
    tokens: new Counter({
      name: "sluice_tokens_total",
      help: "Tokens of settled generations. Cached tokens are part of the input, reasoning tokens of the output.",
      labelNames: ["model", "kind"],
      registers,
    }),
    generations: new Counter({
      name: "sluice_worker_generations_total",
      help: "Attempts of this worker by how they ended: done, failed, cancelled, or dropped (handed back, or lost with the link).",
      labelNames: ["queue", "outcome"],
      registers,
    }),
    malformedEvents: new Counter({
      name: "sluice_upstream_malformed_events_total",
      help: "Events of upstreams' streams that could not be read. One that may have carried content fails its answer.",
      labelNames: ["upstream"],
      registers,
    }),
    upstreamErrors: new Counter({
      name: "sluice_upstream_errors_total",
      help: "Calls of upstreams that failed, by the code that the caller got and the status that the upstream gave, if it gave one.",
      labelNames: ["upstream", "code", "status"],
      registers,
    }),
  };
}
