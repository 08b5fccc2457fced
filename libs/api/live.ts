/** Operations for operators: what the gateway does right now. */
import Type from "typebox";
import {
  flag,
  id,
  integer,
  listOf,
  name,
  object,
  oneOf,
  optional,
  orNull,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";

const count = (description: string) => Type.Integer({ minimum: 0, description });
const amount = (description: string) => Type.Number({ minimum: 0, description });

const controlFields = {
  reason: text("Callers see it."),
  by: text("The operator who decided it."),
  at: time("When it was decided."),
  until: orNull(time("When it ends by itself; null for never.")),
};

const queue = object({
  name: text(),
  queued: count("Requests that wait for a worker: in ingresses, and in jobs on the queue."),
  waiting: count("Jobs on the queue that wait for a worker."),
  running: count("Generations that workers run."),
  capacity: count("Generations that the workers of the queue can run at once."),
  workers: count("Workers that take jobs from the queue."),
  oldestWaitMs: count("How long the oldest request has waited, over all ingresses."),
  groups: listOf(
    object({ group: text(), waiting: count("") }),
    "The groups with the most waiting requests, at most ten.",
  ),
  otherGroups: count("Waiting requests of all other groups."),
  control: orNull(
    object(
      { state: oneOf(["paused", "draining"]), ...controlFields },
      "What an operator decided. paused: workers take nothing from the queue. draining: ingresses refuse new requests for it.",
    ),
  ),
});

const process = object({
  id: id("The id of the process."),
  role: oneOf(["ingress", "worker", "control"]),
  version: text(),
  host: text(),
  pid: integer(),
  startedAt: time("When it started."),
  reportedAt: time("Of its last report; processes report every second."),
  isLate: flag("It has not reported in time: it is stuck, killed, or cut off from Redis."),
  notReady: orNull(text("Why it accepts no work; null while it does.")),
  memoryBytes: count(""),
  cores: amount("Cores in use: 1 is a whole core."),
  eventLoopDelayMs: amount("The 99th percentile in the last second."),
  generations: count("Generations in progress."),
  catalogue: orNull(text("The version of the catalogue that it uses.")),
});

const target = object({
  target: text("The upstream and its name of the model."),
  state: oneOf(["closed", "open", "half-open"], "As the workers see it."),
  calls: count("Calls that ended in the last minute."),
  failed: count("Those of them that the upstream failed, refused or did not answer in time."),
  running: count("Calls that run now."),
  oldestMs: count("How long the oldest of them has run."),
  firstTokenMs: orNull(count("The mean time from a call to its first content in the last minute; null without any.")),
  cooling: count("Credentials that cool down, because the target refused them or limits their rate."),
  vendorLimit: orNull(
    object(
      {
        limit: text("As the vendor's headers name it."),
        max: amount("Requests or tokens."),
        remaining: amount("Of them, for all workers."),
        waitMs: count("Until the vendor accepts another call; 0 if it does so now."),
      },
      "The vendor's limit of which the smallest part is left, of all credentials; null while its responses state none.",
    ),
  ),
  control: orNull(object(controlFields, "An operator keeps the circuit breaker open.")),
});

/** A condition that needs the operator. infra/prometheus/alerts.yml has rules for most of them. */
const conditionKinds = [
  "ledgerBehind",
  "invalidRecords",
  "noWorker",
  "oldestWait",
  "queueGrows",
  "queuePaused",
  "queueDraining",
  "requestsFail",
  "requestsRefused",
  "targetFails",
  "circuitBreakerOpen",
  "credentialCools",
  "processSilent",
  "processNotReady",
  "redisMemory",
  "catalogueRefused",
] as const;

const condition = object({
  kind: oneOf(conditionKinds),
  subject: orNull(text("The queue, target or process; null for the gateway.")),
  value: orNull(
    amount("Seconds, a number of records, requests or credentials, or a share; null where there is no figure."),
  ),
  share: orNull(amount("Of a wait: its share of the longest that the queue allows.")),
});

const generation = object({
  id: text(),
  keyId: text(),
  keyName: text(),
  account: orNull(text()),
  group: text(),
  model: text(),
  queue: text(),
  operation: text(),
  state: oneOf(
    ["rate_limited", "queued", "dispatched", "running"],
    "rate_limited: waits for its caller's limits. queued: waits for its turn, in an ingress. dispatched: its job is on the queue. running: a worker has it.",
  ),
  position: orNull(count("Its place in its line, counted from 1; null if it has none.")),
  expectedSeconds: orNull(
    object({ from: count("At least."), to: count("At most.") }, "The expected wait in seconds; null if it is unknown."),
  ),
  since: time("When its request arrived."),
  isStreamed: flag(),
  outputTokens: orNull(count("So far; null until the upstream reports it.")),
  upstream: orNull(text("Null until its answer begins.")),
  target: orNull(text("The upstream's name of the model.")),
  worker: orNull(text("The process that runs it.")),
  ingress: text("The process that its caller is connected to."),
});

const reason = name("Why. Callers see it.");
const reasonBody = strictObject({ reason });
const untilBody = strictObject({
  reason,
  until: optional(orNull(time("When it ends by itself; absent or null for never."))),
});
const queueName = { params: object({ queue: id("A queue.") }) };
const silent = listOf(text(), "Ingresses that did not answer in time: what they have is missing.");
const named = (what: string) => object({ [what]: text() });

/**
 * The live state for operators; also sent every second over the WebSocket at
 * /api/v1/operations/live.
 */
const liveState = object({
  at: time("When it was read."),
  rates: orNull(
    object(
      {
        requests: amount(""),
        failed: amount(""),
        refused: amount(""),
        chunks: amount(""),
      },
      "Per second, over all ingresses; null until they can be computed.",
    ),
  ),
  queues: listOf(queue),
  processes: listOf(process),
  targets: listOf(target, "All targets of the catalogue, and others whose circuit breaker is known."),
  conditions: listOf(condition, "What needs the operator now."),
  redis: object({
    version: text(),
    memoryBytes: count(""),
    memoryMaxBytes: count("0 without a limit."),
    clients: count("Connections."),
    commandsPerSecond: amount(""),
  }),
  ledger: object({
    lagSeconds: amount("The age of the oldest usage record that the ledger does not have yet."),
    records: count("Usage records that this control process has stored."),
    invalid: count("Usage records that the ledger put aside, because it cannot store them."),
    budgetDifferences: count("Differences between budgets in Redis and the ledger that were corrected."),
  }),
  database: text("embedded or postgres."),
});

export const liveOperations = {
  readOperations: {
    method: "GET",
    path: "/operations",
    summary: "Shows queues, processes, circuit breakers, Redis and the ledger as they are now.",
    access: "operator",
    query: strictObject({}),
    answer: liveState,
  },
  readLastHour: {
    method: "GET",
    path: "/operations/last-hour",
    summary: "Requests of the last hour by minute, from the ledger.",
    access: "operator",
    query: strictObject({}),
    answer: object({
      minutes: listOf(
        object({
          time: time("Its beginning."),
          requests: count("Requests that arrived in it and are over."),
          failed: count("Those of them that failed."),
          refused: count("Those of them that were refused."),
          chunks: count("Parts of their answers."),
        }),
        "The oldest first. Minutes without a request are missing.",
      ),
    }),
  },
  drainProcess: {
    method: "POST",
    path: "/operations/processes/:process/drain",
    summary:
      "Asks an ingress or a worker to accept no more work, to finish what it has, and to end. Its supervisor starts it anew.",
    access: "operator",
    params: object({ process: id("The id of the process.") }),
    status: 202,
    answer: object({ process: id("The id of the process.") }),
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
    answer: object({ queue: text(), ended: count("Requests that were ended."), silent }),
  },
  listGenerations: {
    method: "GET",
    path: "/operations/generations",
    summary: "Lists the oldest 100 generations that wait or run now.",
    access: "operator",
    query: strictObject({
      model: optional(Type.String({ maxLength: 200, description: "The model that was requested." })),
      key: optional(id("The id of a key.")),
      queue: optional(id("A queue.")),
    }),
    answer: object({ items: listOf(generation), total: count("How many match."), silent }),
  },
  stopGeneration: {
    method: "POST",
    path: "/operations/generations/:generation/stop",
    summary:
      "Ends a generation that waits or runs. Its caller gets an error with the reason; what it used so far is charged.",
    access: "operator",
    params: object({ generation: id("The id of a generation.") }),
    body: reasonBody,
    answer: named("generation"),
  },
  stopGenerations: {
    method: "POST",
    path: "/operations/generations/stop",
    summary: "Ends several generations as `stopGeneration` ends one. Those that are over meanwhile are left out.",
    access: "operator",
    body: strictObject({
      generations: Type.Array(id("The id of a generation."), { minItems: 1, maxItems: 100 }),
      reason,
    }),
    answer: object({ ended: count("Generations that were ended."), silent }),
  },
  openCircuitBreaker: {
    method: "POST",
    path: "/operations/targets/:target/open",
    summary: "Keeps the target's circuit breaker open: no worker calls it for the time given.",
    access: "operator",
    params: object({
      target: Type.String({ minLength: 1, maxLength: 200, description: "As in the live state." }),
    }),
    body: strictObject({
      reason: name("Why."),
      minutes: Type.Integer({ minimum: 1, maximum: 1_440, description: "For how long." }),
    }),
    status: 202,
    answer: named("target"),
  },
  closeCircuitBreaker: {
    method: "POST",
    path: "/operations/targets/:target/close",
    summary: "Closes the target's circuit breaker now, whoever opened it. Further failures open it again.",
    access: "operator",
    params: object({
      target: Type.String({ minLength: 1, maxLength: 200, description: "As in the live state." }),
    }),
    status: 202,
    answer: named("target"),
  },
} as const satisfies Record<string, Operation>;
