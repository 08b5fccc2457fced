/**
 * The worker's metrics (https://prometheus.io/docs/practices/naming/): counters that follow its
 * events, and gauges that are read at a scrape.
 */
import { Counter, Gauge, type Registry } from "prom-client";
import type { ErrorCode } from "#dialects/errors.ts";
import { repairKinds } from "#dialects/repairs/repairs.ts";
import type { Usage } from "#dialects/usage.ts";
import type { Subscriber } from "#events/event-stream.ts";
import type { CallDiagnosis, CallInfo, WorkerEvents } from "#events/worker-events.ts";
import type { Clock } from "#service/clock.ts";
import { combinationsOf, hotMetricsOf } from "#service/hot-metrics.ts";
import type { AnswerMemory } from "../answer/answer-memory.ts";
import type { AttachmentBudget } from "../attachments/attachment-budget.ts";
import type { Intake } from "../intake.ts";
import type { WorkerQueues } from "../queues.ts";
import type { CircuitBreakers } from "../routing/circuit-breakers.ts";
import type { Credentials } from "../routing/credentials.ts";
import type { Slots } from "../routing/slots.ts";
import type { VendorLimits } from "../routing/vendor-limits.ts";

/** The values of labels, known before anything is counted. */
export interface AttemptLabels {
  queues(): string[];
  upstreams(): string[];
  /** The models of the catalogue, as `labelOf` names them. */
  models(): string[];
  labelOf(model: string): string;
}

/** The usual failures of upstreams, by code and status. */
const upstreamFailures: readonly [code: ErrorCode, status: number | "none"][] = [
  ["invalid_request", 400],
  ["upstream_failed", 401],
  ["upstream_failed", 403],
  ["upstream_failed", 404],
  ["rate_limited", 429],
  ["upstream_failed", 500],
  ["upstream_failed", 502],
  ["upstream_failed", 503],
  ["overloaded", 503],
  ["overloaded", 529],
  ["upstream_timeout", 504],
  ["upstream_timeout", "none"],
  ["upstream_failed", "none"],
  ["upstream_failed", 200],
];

/** Registers the metrics that follow the events. */
export function createAttemptMetrics(
  registry: Registry,
  { queues, upstreams, models, labelOf }: AttemptLabels,
): Subscriber<WorkerEvents> {
  const { counter, histogram } = hotMetricsOf(registry);
  const queueWait = histogram("sluice_queue_wait_seconds", "From the admission of a request until a worker took it.", {
    queue: queues,
  });
  const firstToken = histogram(
    "sluice_upstream_first_token_seconds",
    "From the call of an upstream to its first content.",
    { upstream: upstreams },
  );
  const tokenGap = histogram("sluice_upstream_gap_seconds", "Between two chunks of an upstream's streamed answer.", {
    upstream: upstreams,
  });
  const upstreamCalls = counter(
    "sluice_upstream_calls_total",
    "Calls of upstreams; `again` are those after another call of the same generation had failed.",
    { upstream: upstreams, again: ["yes", "no"] },
  );
  const upstreamErrors = new Counter({
    name: "sluice_upstream_errors_total",
    help: "Calls of upstreams that failed, by the code that the caller gets and the upstream's status, if it sent one.",
    labelNames: ["upstream", "code", "status"],
    registers: [registry],
    collect() {
      for (const { upstream } of combinationsOf({ upstream: upstreams }))
        for (const [code, status] of upstreamFailures) this.inc({ upstream, code, status }, 0);
    },
  });
  const repairs = counter(
    "sluice_upstream_repairs_total",
    "Requests that an upstream refused and that were repeated with a change, by the kind of the change (libs/dialects/repairs/repairs.ts).",
    { upstream: upstreams, kind: repairKinds },
  );
  const affinity = counter(
    "sluice_session_answers_total",
    "Answers to requests of sessions: `kept` from the target and credential where the session is expected, or `moved` to others.",
    { upstream: upstreams, affinity: ["kept", "moved"] },
  );
  const malformedEvents = counter(
    "sluice_upstream_malformed_events_total",
    "Events of upstreams' streams that could not be read. One that may have carried content fails its answer.",
    { upstream: upstreams },
  );
  const tokens = counter(
    "sluice_tokens_total",
    "Tokens of settled generations. Cached tokens are part of the input, reasoning tokens of the output.",
    { model: models, kind: tokenKinds.map(([kind]) => kind) },
  );
  const generations = counter(
    "sluice_worker_generations_total",
    "Attempts of this worker by outcome: done, failed, cancelled, or dropped (handed back, or lost with the link).",
    { queue: queues, outcome: ["done", "failed", "cancelled", "dropped"] },
  );
  const countMalformed = ({ upstream }: CallInfo, { malformedEvents: count = 0 }: CallDiagnosis) => {
    if (count > 0) malformedEvents.inc({ upstream }, count);
  };
  return {
    taken: ({ attempt: { queue }, queueWaitMs }) => queueWait.add({ queue }, queueWaitMs / 1_000),
    upstreamCallStarted: ({ call: { upstream, number } }) =>
      upstreamCalls.inc({ upstream, again: number > 1 ? "yes" : "no" }),
    firstContent: ({ call, sinceCallMs }) => {
      firstToken.add({ upstream: call.upstream }, sinceCallMs / 1_000);
      if (call.affinity !== undefined) affinity.inc({ upstream: call.upstream, affinity: call.affinity });
    },
    chunk: ({ call: { upstream }, gapMs }) => tokenGap.add({ upstream }, gapMs / 1_000),
    upstreamCallFailed: ({ call, failure: { code }, diagnosis, repair }) => {
      if (repair !== undefined) repairs.inc({ upstream: call.upstream, kind: repair.kind });
      upstreamErrors.inc({ upstream: call.upstream, code, status: diagnosis.status ?? "none" });
      countMalformed(call, diagnosis);
    },
    upstreamCallEnded: ({ call, diagnosis }) => countMalformed(call, diagnosis),
    settled: ({ model, usage, failure }) => {
      if (usage === undefined || failure !== undefined) return;
      for (const [kind, name] of tokenKinds)
        if (usage[name] > 0) tokens.inc({ model: labelOf(model), kind }, usage[name]);
    },
    ended: ({ attempt: { queue }, outcome }) => generations.inc({ queue, outcome }),
  };
}

/** The values of the label `kind`, with the counts of a usage. */
const tokenKinds = [
  ["input", "inputTokens"],
  ["cached_input", "cachedInputTokens"],
  ["cache_write", "cacheWriteTokens"],
  ["output", "outputTokens"],
  ["reasoning", "reasoningTokens"],
] as const satisfies [kind: string, name: keyof Usage][];

/** The state that the gauges read. */
export interface GaugeDeps {
  intake: Pick<Intake, "limit" | "saturated" | "capacity">;
  queues: Pick<WorkerQueues, "opened" | "usedSlots" | "isInReserve">;
  circuitBreakers: Pick<CircuitBreakers, "states">;
  credentials: Pick<Credentials, "cooling">;
  vendorLimits: Pick<VendorLimits, "scarcest">;
  slots: Pick<Slots, "taken">;
  attachmentBudget: Pick<AttachmentBudget, "reservedBytes" | "waiting">;
  answerMemory: Pick<AnswerMemory, "used" | "waiting">;
  clock: Clock;
}

/** Registers the gauges, which are read at every scrape. */
export function registerWorkerGauges(registry: Registry, deps: GaugeDeps): void {
  const { intake, queues, attachmentBudget, answerMemory, clock } = deps;
  const gauge = <Label extends string>(
    name: string,
    help: string,
    labelNames: Label[],
    collect: (gauge: Gauge<Label>) => void,
  ) =>
    new Gauge<Label>({
      name,
      help,
      labelNames,
      registers: [registry],
      collect() {
        collect(this);
      },
    });
  gauge("sluice_worker_generations", "Generations held by this worker.", ["queue"], (usedSlots) => {
    for (const queue of queues.opened) usedSlots.set({ queue: queue.name }, queue.usedSlots);
  });
  gauge(
    "sluice_worker_capacity",
    "Generations that this worker can run: its setting for the queue, or fewer, by what those that run take of its event loop and memory.",
    ["queue"],
    (capacity) => {
      const free = intake.capacity - queues.usedSlots;
      for (const { name, capacity: most, usedSlots } of queues.opened)
        capacity.set({ queue: name }, Math.max(0, Math.min(most, usedSlots + free)));
    },
  );
  gauge(
    "sluice_worker_limit",
    "Generations that this worker takes at most on all queues, by what is left of its event loop, memory and open files.",
    [],
    (limit) => limit.set(intake.limit),
  );
  gauge(
    "sluice_worker_saturated",
    "1 while this worker takes no more generations because its event loop, its memory or its open files are used up.",
    ["by"],
    (saturated) => {
      for (const by of ["event loop", "memory", "open files"] as const)
        saturated.set({ by }, intake.saturated === by ? 1 : 0);
    },
  );
  gauge(
    "sluice_worker_in_reserve",
    "1 for a queue of which this worker takes only what the others leave, because they have slots enough.",
    ["queue"],
    (reserve) => {
      for (const { name } of queues.opened) reserve.set({ queue: name }, queues.isInReserve(name) ? 1 : 0);
    },
  );
  gauge(
    "sluice_upstream_slots_used",
    "Slots of upstreams with concurrencyMax that this worker holds.",
    ["upstream"],
    (used) => {
      for (const [upstream, count] of Object.entries(deps.slots.taken())) used.set({ upstream }, count);
    },
  );
  gauge(
    "sluice_worker_attachment_bytes",
    "Bytes of fetched images and documents that this worker holds or has reserved.",
    [],
    (bytes) => bytes.set(attachmentBudget.reservedBytes),
  );
  gauge(
    "sluice_worker_attachments_waiting",
    "Requests that wait until this worker may fetch their images and documents.",
    [],
    (waiting) => waiting.set(attachmentBudget.waiting),
  );
  gauge(
    "sluice_worker_answer_bytes",
    "Bytes of answers above 1 MiB that this worker holds until they are complete and sent (ANSWER_BYTES_MAX).",
    [],
    (bytes) => bytes.set(answerMemory.used),
  );
  gauge(
    "sluice_worker_answers_waiting",
    "Answers above 1 MiB that are read on once this worker has memory for them.",
    [],
    (waiting) => waiting.set(answerMemory.waiting),
  );
  gauge(
    "sluice_circuit_breaker_open",
    "Circuit breakers of targets that are open (1) or half-open (0.5), as this worker knows them; closed ones are not shown.",
    ["target"],
    (open) => {
      open.reset();
      for (const { target, state } of deps.circuitBreakers.states(clock.now()))
        if (state !== "closed") open.set({ target }, state === "open" ? 1 : 0.5);
    },
  );
  gauge(
    "sluice_credentials_cooling",
    "Credentials that cool down because an upstream refused them or limits their rate: the target and the name of the variable.",
    ["credential"],
    (cooling) => {
      cooling.reset();
      for (const credential of deps.credentials.cooling(clock.now())) cooling.set({ credential }, 1);
    },
  );
  gauge(
    "sluice_vendor_limit_remaining_ratio",
    "The part that is left, for all workers, of the scarcest rate limit that a vendor states for a target and credential (1: all of it).",
    ["credential"],
    (left) => {
      left.reset();
      for (const { target, remaining, max } of deps.vendorLimits.scarcest())
        left.set({ credential: target }, remaining / Math.max(1, max));
    },
  );
}
