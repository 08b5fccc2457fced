/** Operations for operators: what the gateway does right now. */
import Type from "typebox";
import { id, orNull, strict, time } from "./common.ts";
import type { Operation } from "./operation.ts";

const count = (description: string) => Type.Integer({ minimum: 0, description });
const amount = (description: string) => Type.Number({ minimum: 0, description });

const queue = Type.Object({
  name: Type.String(),
  queued: count("Requests that wait in ingresses for their turn."),
  waiting: count("Jobs that wait for a worker."),
  running: count("Generations that workers run."),
  capacity: count("Generations that the workers of the queue can run at once."),
  workers: count("Workers that take jobs from the queue."),
  oldestWaitMs: count("How long the oldest request has waited, over all ingresses."),
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
  state: Type.String({ description: "closed, open or half-open, as the workers see it." }),
});

/** What an operator sees live; also sent every second over the WebSocket at /api/v1/operations/live. */
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
  targets: Type.Array(target, { description: "Targets whose circuit breaker is known. The others are closed." }),
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
    invalid: count("Usage records that could not be read."),
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
} as const satisfies Record<string, Operation>;
