/**
 * Control's conclusions from the reports of processes: queues with their groups, targets, and the
 * conditions that need the operator.
 */

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { setControl } from "#service/operator-controls.ts";
import { connectRedis } from "#service/redis.ts";
import { type LiveStateOptions, LiveStates } from "../../apps/control/operations/live-state.ts";
import { startRedis } from "../support/redis.ts";

const server = await startRedis();
const redis = await connectRedis(server.url, "request");
after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

const catalogue = parseCatalogue(
  Buffer.from(`groups: { default: { models: ["*"] } }
upstreams: { u: { dialect: openai-chat, baseUrl: "http://127.0.0.1:1" } }
models:
  - { id: one, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: u, model: a/b }, { upstream: u, model: c }] }
`),
  "catalogue.yaml",
  {},
);

let namespaces = 0;
const now = Date.now();

/** A state whose processes report this. */
async function stateOf(
  reports: { id: string; role: string; at?: number; status: object }[],
  { lagSeconds = 0, invalid = 0 } = {},
) {
  const keyspace = keyspaceOf(`conditions-${++namespaces}`);
  const common = { version: "0", host: "h", pid: 1, startedAt: now, memoryBytes: 1, cores: 0, eventLoopDelayMs: 0 };
  for (const report of reports)
    await redis.hset(keyspace.processes, report.id, JSON.stringify({ ...common, at: Date.now(), ...report }));
  const ledger = {
    counts: { inserted: 0, invalid: 0 },
    budgets: { differences: 0 },
    lagSeconds: async () => lagSeconds,
    invalidRecords: async () => invalid,
  } as LiveStateOptions["ledger"];
  const states = new LiveStates({
    clock: systemClock,
    redis,
    keyspace,
    catalogue: () => catalogue,
    ledger,
    database: "embedded",
  });
  return { keyspace, read: () => states.read() };
}

const worker = (status: object = {}) => ({
  id: "worker-1",
  role: "worker",
  status: { queues: [...catalogue.queues.keys()].map((queue) => ({ queue, capacity: 4, usedSlots: 1 })), ...status },
});

test("nothing needs attention while all is well", async () => {
  const { conditions, targets } = await (await stateOf([worker()])).read();
  assert.deepEqual(conditions, []);
  assert.deepEqual(
    targets.map(({ target, state }) => [target, state]),
    [
      ["u/a/b", "closed"],
      ["u/c", "closed"],
    ],
  );
});

test("each condition is found, with its subject and figure", async () => {
  const ingress = {
    id: "ingress-1",
    role: "ingress",
    status: {
      queues: [
        { queue: "chat", waiting: 1, oldestWaitMs: 31_000 },
        { queue: "image", waiting: 2, oldestWaitMs: 31_000 },
        { queue: "audio", waiting: 1, oldestWaitMs: 31_000 },
        { queue: "background", waiting: 0, oldestWaitMs: 0 },
      ],
    },
  };
  const late = { id: "ingress-2", role: "ingress", at: Date.now() - 6_000, status: {} };
  const only = {
    id: "worker-1",
    role: "worker",
    status: {
      queues: [{ queue: "chat", capacity: 1, usedSlots: 0 }],
      targets: [{ target: "u/c", state: "half-open" }],
    },
  };
  const { keyspace, read } = await stateOf([ingress, late, only], { lagSeconds: 61, invalid: 3 });
  await setControl(redis, keyspace, { kind: "queue", name: "audio", state: "paused", reason: "r", by: "op", at: now });
  const { conditions } = await read();
  assert.deepEqual(
    conditions.map(({ kind, subject, value }) => [kind, subject, value]),
    [
      ["processSilent", "ingress-2", null],
      ["oldestWait", "chat", 31],
      ["noWorker", "image", null],
      ["circuitBreakerOpen", "u/c", null],
      ["ledgerBehind", null, 61],
      ["invalidRecords", null, 3],
    ],
  );
});

test("the groups of a queue are added up over the ingresses, ten by name and the rest together", async () => {
  const groups = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ group: `g${index}`, waiting: index + 1 }));
  const ingress = (id: string, count: number, otherGroups: number) => ({
    id,
    role: "ingress",
    status: { queues: [{ queue: "chat", waiting: 1, groups: groups(count), otherGroups }] },
  });
  const { queues } = await (await stateOf([ingress("ingress-1", 10, 5), ingress("ingress-2", 12, 2)])).read();
  const chat = queues.find(({ name }) => name === "chat");
  assert.equal(chat?.groups.length, 10);
  assert.deepEqual(chat?.groups[0], { group: "g9", waiting: 20 });
  assert.equal(chat?.otherGroups, 5 + 2 + 2 + 4);
});

test("calls of targets are added up over the workers; credentials are counted once; an operator's decision shows until it ends", async () => {
  const load = { target: "u/c", calls: 10, failed: 1, firstTokens: 4, firstTokenMs: 400 };
  const status = { targetLoad: [load], coolingCredentials: ["u/a/b: KEY_1"] };
  const { read, keyspace } = await stateOf([worker(status), { ...worker(status), id: "worker-2" }]);
  const decision = { kind: "target", name: "u/a/b", state: "open", reason: "wrong", by: "op", at: now } as const;
  await setControl(redis, keyspace, { ...decision, until: Date.now() + 60_000 });
  await setControl(redis, keyspace, {
    ...decision,
    kind: "queue",
    name: "chat",
    state: "paused",
    until: Date.now() - 1,
  });
  const { targets, queues } = await read();
  const [first, second] = targets;
  assert.deepEqual([second?.calls, second?.failed, second?.firstTokenMs], [20, 2, 100]);
  assert.deepEqual([first?.cooling, first?.state, first?.control?.reason], [1, "open", "wrong"]);
  assert.equal(queues.find(({ name }) => name === "chat")?.control, null);
  assert.deepEqual(Object.keys(await redis.hgetall(keyspace.controls)), ["target u/a/b"]);
});
