/** What an ingress tells its operator in numbers (https://prometheus.io/docs/practices/naming/). */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What is read when the metrics are scraped. */
export interface IngressReadings {
  /** Generations of this process by queue and state, and how long the oldest has waited. */
  queues(): { queue: string; waiting: number; held: number; running: number; oldestWaitMs: number }[];
  /** Jobs on the queues, of all processes; rejects when Redis is away. */
  depths(): Promise<{ queue: string; state: string; count: number }[]>;
  bodiesBytes(): number;
  /** What keys share; `queue` is "" for what is not of a queue. */
  capacities(): { limit: string; queue: string; used: number; max: number }[];
  keys(): number;
}

export type IngressMetrics = ReturnType<typeof createIngressMetrics>;

export function createIngressMetrics(readings: IngressReadings) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const registers = [registry];
  new Gauge({
    name: "sluice_generations",
    help: "Generations of this ingress that are not over.",
    labelNames: ["queue", "state"],
    registers,
    collect() {
      for (const { queue, waiting, running } of readings.queues()) {
        this.set({ queue, state: "waiting" }, waiting);
        this.set({ queue, state: "running" }, running);
      }
    },
  });
  new Gauge({
    name: "sluice_queued_generations",
    help: "Waiting generations of this ingress that it has not put on their queue yet, so that those of other keys can overtake.",
    labelNames: ["queue"],
    registers,
    collect() {
      for (const { queue, held } of readings.queues()) this.set({ queue }, held);
    },
  });
  new Gauge({
    name: "sluice_oldest_wait_seconds",
    help: "How long the oldest generation of this ingress has waited for a worker; take the maximum over all.",
    labelNames: ["queue"],
    registers,
    collect() {
      for (const { queue, oldestWaitMs } of readings.queues()) this.set({ queue }, oldestWaitMs / 1_000);
    },
  });
  new Gauge({
    name: "sluice_queue_jobs",
    help: "Jobs on a queue by state, counted over all processes.",
    labelNames: ["queue", "state"],
    registers,
    async collect() {
      const depths = await readings.depths().catch(() => []);
      for (const { queue, state, count } of depths) this.set({ queue, state }, count);
    },
  });
  new Gauge({
    name: "sluice_bodies_bytes",
    help: "Bytes of request bodies held.",
    registers,
    collect() {
      this.set(readings.bodiesBytes());
    },
  });
  new Gauge({
    name: "sluice_capacity_used",
    help: "What is taken of each bound that all keys of this ingress share: bytes of bodies, of answers that callers have not taken, and of conversations, generations, those that wait by queue, WebSockets.",
    labelNames: ["limit", "queue"],
    registers,
    collect() {
      for (const { limit, queue, used } of readings.capacities()) this.set({ limit, queue }, used);
    },
  });
  new Gauge({
    name: "sluice_capacity_max",
    help: "The bounds that all keys of this ingress share.",
    labelNames: ["limit", "queue"],
    registers,
    collect() {
      for (const { limit, queue, max } of readings.capacities()) this.set({ limit, queue }, max);
    },
  });
  new Gauge({
    name: "sluice_keys",
    help: "Keys known to this ingress, revoked ones included.",
    registers,
    collect() {
      this.set(readings.keys());
    },
  });
  return {
    registry,
    requests: new Counter({
      name: "sluice_requests_total",
      help: "Answered requests.",
      labelNames: ["path", "status"],
      registers,
    }),
    duration: new Histogram({
      name: "sluice_request_seconds",
      help: "From a request's head to the end of its answer.",
      labelNames: ["path"],
      buckets: seconds,
      registers,
    }),
    firstToken: new Histogram({
      name: "sluice_first_token_seconds",
      help: "From the admission of a generation to its first content.",
      labelNames: ["queue"],
      buckets: seconds,
      registers,
    }),
    tokenGap: new Histogram({
      name: "sluice_gap_seconds",
      help: "Between two pieces of a streamed answer.",
      labelNames: ["queue"],
      buckets: seconds,
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
      help: "Requests refused, and connections of answers broken (answers), by a limit, by what it is a limit of and whose it is: a key's, a group's or an account's. Of what all keys share (bodies, answers, generations, waiting, websockets), the scope is key where a key is above its share, and ingress where the ingress has too little left.",
      labelNames: ["limit", "scope"],
      registers,
    }),
    cancellations: new Counter({
      name: "sluice_cancellations_total",
      help: "Generations whose callers left.",
      labelNames: ["queue"],
      registers,
    }),
    restarts: new Counter({
      name: "sluice_restarts_total",
      help: "Attempts begun anew, unseen by the caller, because a worker or a job was lost.",
      labelNames: ["queue"],
      registers,
    }),
  };
}
