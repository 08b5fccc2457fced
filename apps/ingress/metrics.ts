/** What an ingress tells its operator in numbers (https://prometheus.io/docs/practices/naming/). */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300];

/** What is read when the metrics are scraped. */
export interface IngressReadings {
  /** Generations of this process by lane and state, and how long the oldest has waited. */
  lanes(): { lane: string; waiting: number; held: number; running: number; oldestWaitMs: number }[];
  /** Jobs on the lanes, of all processes; rejects when Redis is away. */
  depths(): Promise<{ lane: string; state: string; count: number }[]>;
  bodiesBytes(): number;
  /** What keys share; `lane` is "" for what is not of a lane. */
  capacities(): { limit: string; lane: string; used: number; max: number }[];
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
    labelNames: ["lane", "state"],
    registers,
    collect() {
      for (const { lane, waiting, running } of readings.lanes()) {
        this.set({ lane, state: "waiting" }, waiting);
        this.set({ lane, state: "running" }, running);
      }
    },
  });
  new Gauge({
    name: "sluice_held_generations",
    help: "Waiting generations of this ingress that it has not put on their lane yet, so that those of other keys can overtake.",
    labelNames: ["lane"],
    registers,
    collect() {
      for (const { lane, held } of readings.lanes()) this.set({ lane }, held);
    },
  });
  new Gauge({
    name: "sluice_oldest_wait_seconds",
    help: "How long the oldest generation of this ingress has waited for a worker; take the maximum over all.",
    labelNames: ["lane"],
    registers,
    collect() {
      for (const { lane, oldestWaitMs } of readings.lanes()) this.set({ lane }, oldestWaitMs / 1_000);
    },
  });
  new Gauge({
    name: "sluice_lane_jobs",
    help: "Jobs on a lane by state, counted over all processes.",
    labelNames: ["lane", "state"],
    registers,
    async collect() {
      const depths = await readings.depths().catch(() => []);
      for (const { lane, state, count } of depths) this.set({ lane, state }, count);
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
    help: "What is taken of each bound that all keys of this ingress share: bytes of bodies, of answers that callers have not taken, and of conversations, generations, those that wait by lane, WebSockets.",
    labelNames: ["limit", "lane"],
    registers,
    collect() {
      for (const { limit, lane, used } of readings.capacities()) this.set({ limit, lane }, used);
    },
  });
  new Gauge({
    name: "sluice_capacity_max",
    help: "The bounds that all keys of this ingress share.",
    labelNames: ["limit", "lane"],
    registers,
    collect() {
      for (const { limit, lane, max } of readings.capacities()) this.set({ limit, lane }, max);
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
      labelNames: ["lane"],
      buckets: seconds,
      registers,
    }),
    tokenGap: new Histogram({
      name: "sluice_gap_seconds",
      help: "Between two pieces of a streamed answer.",
      labelNames: ["lane"],
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
      labelNames: ["lane"],
      registers,
    }),
    restarts: new Counter({
      name: "sluice_restarts_total",
      help: "Attempts begun anew, unseen by the caller, because a worker or a job was lost.",
      labelNames: ["lane"],
      registers,
    }),
  };
}
