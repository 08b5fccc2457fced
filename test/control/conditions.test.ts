/**
 * Control's conclusions from the reports of processes: queues with their groups, targets, and the
 * conditions that need the operator.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCatalogue } from "#catalogue/load.ts";
import { type Clock, systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { setControl } from "#service/operator-controls.ts";
import { type LiveStateOptions, LiveStates } from "../../apps/control/operations/live-state.ts";
import { connectTestRedis } from "../support/redis.ts";

const redis = await connectTestRedis("request");

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

interface StateOptions {
  lagSeconds?: number;
  invalid?: number;
  clock?: Clock;
  /** The fault of the catalogue. */
  fault?: string;
}

/** A state whose processes report this. */
async function stateOf(
  reports: { id: string; role: string; at?: number; status: object }[],
  { lagSeconds = 0, invalid = 0, clock = systemClock, fault }: StateOptions = {},
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
    clock,
    redis,
    keyspace,
    catalogue: () => catalogue,
    catalogueFault: () => fault,
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

test("a refused catalogue needs the operator", async () => {
  const { conditions } = await (await stateOf([worker()], { fault: "models.0: no route" })).read();
  assert.deepEqual(
    conditions.map(({ kind, subject }) => [kind, subject]),
    [["catalogueRefused", null]],
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
  const stuck = { id: "ingress-3", role: "ingress", notReady: "no link to Redis", status: {} };
  const ending = { id: "ingress-4", role: "ingress", notReady: "stopping", status: {} };
  const late = { id: "ingress-2", role: "ingress", at: Date.now() - 6_000, status: {} };
  const only = {
    id: "worker-1",
    role: "worker",
    status: {
      queues: [{ queue: "chat", capacity: 1, usedSlots: 0 }],
      targets: [{ target: "u/c", state: "half-open" }],
      targetLoad: [
        { target: "u/a/b", calls: 20, failed: 5, running: 2, oldestMs: 9_000, firstTokens: 0, firstTokenMs: 0 },
        { target: "u/c", calls: 20, failed: 20, firstTokens: 0, firstTokenMs: 0 },
      ],
      coolingCredentials: ["u/a/b: KEY_1", "u/a/b: KEY_2"],
    },
  };
  const { keyspace, read } = await stateOf([ingress, late, stuck, ending, only], { lagSeconds: 61, invalid: 3 });
  await setControl(redis, keyspace, { kind: "queue", name: "audio", state: "paused", reason: "r", by: "op", at: now });
  await setControl(redis, keyspace, {
    kind: "queue",
    name: "background",
    state: "draining",
    reason: "r",
    by: "op",
    at: now,
  });
  const { conditions, targets } = await read();
  assert.deepEqual(
    conditions.map(({ kind, subject, value }) => [kind, subject, value]).sort(),
    [
      ["processSilent", "ingress-2", null],
      ["processNotReady", "ingress-3", null],
      ["queuePaused", "audio", 1],
      ["queueDraining", "background", 0],
      ["oldestWait", "chat", 31],
      ["noWorker", "image", null],
      ["targetFails", "u/a/b", 0.25],
      ["credentialCools", "u/a/b", 2],
      ["circuitBreakerOpen", "u/c", null],
      ["ledgerBehind", null, 61],
      ["invalidRecords", null, 3],
    ].sort(),
  );
  assert.deepEqual(
    targets.map(({ target, running, oldestMs }) => [target, running, oldestMs]),
    [
      ["u/a/b", 2, 9_000],
      ["u/c", 0, 0],
    ],
  );
});

test("failures, refusals and growing queues are seen over the last minute", async () => {
  let passedMs = 0;
  const clock = { ...systemClock, epoch: () => now + passedMs };
  const seenAfter = async (first: object, second: object, ms: number, waiting = [0, 0]) => {
    passedMs = 0;
    const ingress = (counts: object, queued = 0) => ({
      id: "ingress-1",
      role: "ingress",
      at: now + passedMs,
      status: { counts: { chunks: 0, ...counts }, queues: [{ queue: "chat", waiting: queued, oldestWaitMs: 0 }] },
    });
    const all = () => ({ ...worker(), at: now + passedMs });
    const { keyspace, read } = await stateOf([ingress(first, waiting[0]), all()], { clock });
    assert.deepEqual((await read()).conditions, []);
    passedMs = ms;
    const common = { version: "0", host: "h", pid: 1, startedAt: now, memoryBytes: 1, cores: 0, eventLoopDelayMs: 0 };
    for (const report of [ingress(second, waiting[1]), all()])
      await redis.hset(keyspace.processes, report.id, JSON.stringify({ ...common, ...report }));
    return (await read()).conditions.map(({ kind, value }) => [kind, value]);
  };
  const begin = { requests: 1_000, failed: 900, refused: 900 };
  for (const [more, ms, expected] of [
    [
      { requests: 1_100, failed: 906, refused: 910 },
      20_000,
      [
        ["requestsFail", 0.06],
        ["requestsRefused", 0.1],
      ],
    ],
    [{ requests: 1_100, failed: 905, refused: 905 }, 20_000, []],
    [{ requests: 1_019, failed: 919, refused: 900 }, 20_000, []],
    [{ requests: 1_100, failed: 1_000, refused: 900 }, 9_000, []],
    [{ requests: 100, failed: 100, refused: 0 }, 20_000, []],
  ] as const)
    assert.deepEqual(await seenAfter(begin, more, ms), expected, JSON.stringify(more));
  assert.deepEqual(await seenAfter(begin, begin, 20_000, [10, 30]), [["queueGrows", 30]]);
  assert.deepEqual(await seenAfter(begin, begin, 20_000, [100, 120]), []);
  assert.deepEqual(await seenAfter(begin, begin, 20_000, [0, 19]), []);
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
