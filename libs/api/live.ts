/** Operations for operators: what the gateway does right now. */
import Type from "typebox";
import { id, name, orNull, strict, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const count = (description: string) => Type.Integer({ minimum: 0, description });
const amount = (description: string) => Type.Number({ minimum: 0, description });

const controlFields = {
  reason: Type.String({ description: "Callers see it." }),
  by: Type.String({ description: "The operator who decided it." }),
  at: time("When it was decided."),
  until: orNull(time("When it ends by itself; null for never.")),
};

const queue = Type.Object({
  name: Type.String(),
  queued: count("Requests that wait for a worker: in ingresses, and in jobs on the queue."),
  waiting: count("Jobs on the queue that wait for a worker."),
  running: count("Generations that workers run."),
  capacity: count("Generations that the workers of the queue can run at once."),
  workers: count("Workers that take jobs from the queue."),
  oldestWaitMs: count("How long the oldest request has waited, over all ingresses."),
  groups: Type.Array(Type.Object({ group: Type.String(), waiting: count("") }), {
    description: "The groups with the most waiting requests, at most ten.",
  }),
  otherGroups: count("Waiting requests of all other groups."),
  control: orNull(
    Type.Object(
      { state: Type.Enum(["paused", "draining"] as const), ...controlFields },
      {
        description:
          "What an operator decided. paused: workers take nothing from the queue. draining: ingresses refuse new requests for it.",
      },
    ),
  ),
});

const process = Type.Object({
  id: id("The id of the process."),
  role: Type.Enum(["ingress", "worker", "control"] as const),
  version: Type.String(),
  host: Type.String(),
  pid: Type.Integer(),
  startedAt: time("When it started."),
  reportedAt: time("Of its last report; processes report every second."),
  isLate: Type.Boolean({ description: "It has not reported in time: it is stuck, killed, or cut off from Redis." }),
  notReady: orNull(Type.String({ description: "Why it accepts no work; null while it does." })),
  memoryBytes: count(""),
  cores: amount("Cores in use: 1 is a whole core."),
  eventLoopDelayMs: amount("The 99th percentile in the last second."),
  generations: count("Generations in progress."),
  catalogue: orNull(Type.String({ description: "The version of the catalogue that it uses." })),
});

const target = Type.Object({
  target: Type.String({ description: "The upstream and its name of the model." }),
  state: Type.Enum(["closed", "open", "half-open"] as const, { description: "As the workers see it." }),
  calls: count("Calls that ended in the last minute."),
  failed: count("Those of them that the upstream failed, refused or did not answer in time."),
  firstTokenMs: orNull(count("The mean time from a call to its first content in the last minute; null without any.")),
  cooling: count("Credentials that cool down, because the target refused them or limits their rate."),
  control: orNull(Type.Object(controlFields, { description: "An operator keeps the circuit breaker open." })),
});

/** A condition that needs the operator, as in infra/prometheus/alerts.yml. */
const conditionKinds = [
  "ledgerBehind",
  "invalidRecords",
  "noWorker",
  "oldestWait",
  "circuitBreakerOpen",
  "processSilent",
  "redisMemory",
] as const;

const condition = Type.Object({
  kind: Type.Enum(conditionKinds),
  subject: orNull(Type.String({ description: "The queue, target or process; null for the gateway." })),
  value: orNull(amount("Seconds, records, or a share of the memory; null where there is no figure.")),
});

const generation = Type.Object({
  id: Type.String(),
  keyId: Type.String(),
  keyName: Type.String(),
  account: orNull(Type.String()),
  group: Type.String(),
  model: Type.String(),
  queue: Type.String(),
  operation: Type.String(),
  state: Type.Enum(["queued", "dispatched", "running"] as const, {
    description: "queued: in an ingress. dispatched: its job is on the queue. running: a worker has it.",
  }),
  since: time("When its request arrived."),
  isStreamed: Type.Boolean(),
  outputTokens: orNull(count("So far; null until the upstream reports it.")),
  upstream: orNull(Type.String({ description: "Null until its answer begins." })),
  target: orNull(Type.String({ description: "The upstream's name of the model." })),
  worker: orNull(Type.String({ description: "The process that runs it." })),
  ingress: Type.String({ description: "The process that its caller is connected to." }),
});

const reason = name("Why. Callers see it.");
const reasonBody = Type.Object({ reason }, strict);
const untilBody = Type.Object(
  { reason, until: Type.Optional(orNull(time("When it ends by itself; absent or null for never."))) },
  strict,
);
const queueName = { params: Type.Object({ queue: id("A queue.") }) };
const silent = Type.Array(Type.String(), {
  description: "Ingresses that did not answer in time: what they have is missing.",
});
const named = (what: string) => Type.Object({ [what]: Type.String() });

/**
 * What an operator sees live; also sent every second over the WebSocket at /api/v1/operations/live.
 */
const liveState = Type.Object({
  at: time("When it was read."),
  rates: orNull(
    Type.Object(
      {
        requests: amount(""),
        failed: amount(""),
        refused: amount(""),
        chunks: amount(""),
      },
      { description: "Per second, over all ingresses; null until they can be computed." },
    ),
  ),
  queues: Type.Array(queue),
  processes: Type.Array(process),
  targets: Type.Array(target, {
    description: "All targets of the catalogue, and others whose circuit breaker is known.",
  }),
  conditions: Type.Array(condition, { description: "What needs the operator now." }),
  redis: Type.Object({
    version: Type.String(),
    memoryBytes: count(""),
    memoryMaxBytes: count("0 without a limit."),
    clients: count("Connections."),
    commandsPerSecond: amount(""),
  }),
  ledger: Type.Object({
    lagSeconds: amount("The age of the oldest usage record that the ledger does not have yet."),
    records: count("Usage records that this control process has stored."),
    invalid: count("Usage records that the ledger put aside, because it cannot store them."),
    budgetDifferences: count("Differences between budgets in Redis and the ledger that were corrected."),
  }),
  database: Type.String({ description: "embedded or postgres." }),
});

export const liveOperations = {
  readOperations: {
    method: "GET",
    path: "/operations",
    summary: "Shows queues, processes, circuit breakers, Redis and the ledger as they are now.",
    access: "operator",
    query: Type.Object({}, strict),
    answer: liveState,
  },
  drainProcess: {
    method: "POST",
    path: "/operations/processes/:process/drain",
    summary:
      "Asks an ingress or a worker to accept no more work, to finish what it has, and to end. Its supervisor starts it anew.",
    access: "operator",
    params: Type.Object({ process: id("The id of the process.") }),
    status: 202,
    answer: Type.Object({ process: id("The id of the process.") }),
  },
  pauseQueue: {
    method: "POST",
    path: "/operations/queues/:queue/pause",
    summary: "Workers take nothing more from the queue. What runs goes on; requests wait within the queue's bounds.",
    access: "operator",
    ...queueName,
    body: untilBody,
    status: 202,
    answer: named("queue"),
  },
  drainQueue: {
    method: "POST",
    path: "/operations/queues/:queue/drain",
    summary:
      "Ingresses refuse new requests for the queue with 503, the reason and Retry-After. What waits and runs is finished.",
    access: "operator",
    ...queueName,
    body: untilBody,
    status: 202,
    answer: named("queue"),
  },
  resumeQueue: {
    method: "POST",
    path: "/operations/queues/:queue/resume",
    summary: "Ends the pause or the drain of the queue.",
    access: "operator",
    ...queueName,
    status: 202,
    answer: named("queue"),
  },
  clearQueue: {
    method: "POST",
    path: "/operations/queues/:queue/clear",
    summary: "Ends all requests that wait on the queue, with 503 and the reason. What runs goes on.",
    access: "operator",
    ...queueName,
    body: reasonBody,
    answer: Type.Object({ queue: Type.String(), ended: count("Requests that were ended."), silent }),
  },
  listGenerations: {
    method: "GET",
    path: "/operations/generations",
    summary: "Lists the oldest 100 generations that wait or run now.",
    access: "operator",
    query: Type.Object(
      {
        model: Type.Optional(Type.String({ maxLength: 200, description: "The model that was requested." })),
        key: Type.Optional(id("The id of a key.")),
        queue: Type.Optional(id("A queue.")),
      },
      strict,
    ),
    answer: Type.Object({ items: Type.Array(generation), total: count("How many match."), silent }),
  },
  stopGeneration: {
    method: "POST",
    path: "/operations/generations/:generation/stop",
    summary:
      "Ends a generation that waits or runs. Its caller gets an error with the reason; what it used so far is charged.",
    access: "operator",
    params: Type.Object({ generation: id("The id of a generation.") }),
    body: reasonBody,
    answer: named("generation"),
  },
  openCircuitBreaker: {
    method: "POST",
    path: "/operations/targets/:target/open",
    summary: "Keeps the target's circuit breaker open: no worker calls it for the time given.",
    access: "operator",
    params: Type.Object({
      target: Type.String({ minLength: 1, maxLength: 200, description: "As in the live state." }),
    }),
    body: Type.Object(
      { reason: name("Why."), minutes: Type.Integer({ minimum: 1, maximum: 1_440, description: "For how long." }) },
      strict,
    ),
    status: 202,
    answer: named("target"),
  },
  closeCircuitBreaker: {
    method: "POST",
    path: "/operations/targets/:target/close",
    summary: "Closes the target's circuit breaker now, whoever opened it. Further failures open it again.",
    access: "operator",
    params: Type.Object({
      target: Type.String({ minLength: 1, maxLength: 200, description: "As in the live state." }),
    }),
    status: 202,
    answer: named("target"),
  },
} as const satisfies Record<string, Operation>;
