import assert from "node:assert/strict";
import { test } from "node:test";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { parseCatalogue } from "#catalogue/load.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { EventStream } from "#events/event-stream.ts";
import type { WorkerEvents } from "#events/worker-events.ts";
import { decodeUsageRecord, encodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import { reachedMs, recordedWithinMs, unheardMs, usageCheckMs } from "../../../apps/worker/bounds.ts";
import { UsageBackup } from "../../../apps/worker/observability/usage-backup.ts";

const catalogueOf = (price: number): Catalogue =>
  parseCatalogue(
    Buffer.from(`groups: { default: { models: ["*"], priceRatio: 2 } }
upstreams: { far: { dialect: openai-chat, baseUrl: "http://127.0.0.1:9/v1" } }
models:
  - { id: m, contextWindow: 1000, outputTokensMax: 100, prices: { inputPerMillion: ${price}, outputPerMillion: ${price}, serviceTiers: { batch: 0.5 } }, route: [{ upstream: far, model: theirs, prices: { inputPerMillion: 3, outputPerMillion: 3 } }] }
`),
    "catalogue.yaml",
    {},
  );

const settled: WorkerEvents["settled"] = {
  attempt: {
    generation: "gen_1",
    attempt: 2,
    queue: "chat",
    operation: "answer",
    dialect: "openai-chat",
    requestedModel: "m",
    group: "default",
    account: "acme",
    keyId: "key_1",
    user: "alice",
    tags: ["ci"],
    priceVersion: "old",
    isStreamed: true,
    receivedAt: 1_000,
    owner: "ingress-1",
    trace: undefined,
  },
  outcome: "done",
  model: "m",
  source: { upstream: "far", target: "theirs", dialect: "openai-chat", calls: 1 },
  upstreamRequestId: "up_1",
  bodyBytes: 123,
  usage: plainUsageOf(10, 20),
  failure: undefined,
  isOrphaned: false,
};

/** The record of an attempt whose owner vanished. */
function recordOf(event: WorkerEvents["settled"]): UsageRecord {
  const records: UsageRecord[] = [];
  const backup = new UsageBackup({
    write: (record) => records.push(record),
    catalogue: (version) => catalogueOf(version === "old" ? 1 : 7),
    clock: { now: () => 0, epoch: () => 5_000 },
    reach() {},
  });
  new EventStream<WorkerEvents>(backup.subscriber).emit("settled", event);
  backup.close();
  const [record] = records;
  assert.ok(record !== undefined && decodeUsageRecord(JSON.parse(encodeUsageRecord(record))) !== undefined);
  return record;
}

test("a line of a batch has the price of batches, and the batch's id", () => {
  const { batch, cost, serviceTier } = recordOf({ ...settled, attempt: { ...settled.attempt, batch: "batch_1" } });
  assert.deepEqual([batch, cost, serviceTier], ["batch_1", String(30 * 1_000), "batch"]);
});

test("a worker's record has the fields of an ingress's, and the prices of the admission", () => {
  const record = recordOf(settled);
  const { user, tags, bodyBytes, upstreamDialect, upstreamRequestId, cost, upstreamCost, account } = record;
  assert.deepEqual(
    { user, tags, bodyBytes, upstreamDialect, upstreamRequestId, account },
    {
      user: "alice",
      tags: ["ci"],
      bodyBytes: 123,
      upstreamDialect: "openai-chat",
      upstreamRequestId: "up_1",
      account: "acme",
    },
  );
  assert.deepEqual([cost, upstreamCost], [String(30 * 1_000 * 2), String(30 * 3_000)]);
});

test("an answer that its ingress did not confirm costs the caller nothing, and the operator what it cost", () => {
  const record = recordOf({ ...settled, isOrphaned: true });
  const { cost, upstreamCost, inputTokens, outputTokens, unitPrices, outcome, status } = record;
  assert.deepEqual(
    { cost, upstreamCost, inputTokens, outputTokens, unitPrices, outcome, status },
    {
      cost: "0",
      upstreamCost: String(30 * 3_000),
      inputTokens: 0,
      outputTokens: 0,
      unitPrices: null,
      outcome: "left",
      status: 0,
    },
  );
  assert.equal(recordOf({ ...settled, isOrphaned: true, usage: undefined }).upstreamCost, null);
});

test("a worker's record names the attempt as that of the generation which it repeats", () => {
  const recorded = { generation: "gen_0", attempt: 1_001 };
  const { generationId, requestId, attempt } = recordOf({ ...settled, attempt: { ...settled.attempt, recorded } });
  assert.deepEqual([generationId, requestId, attempt], ["gen_0", "req_0", 1_001]);
});

test("a worker's record is capped like an ingress's, by what the request allows", () => {
  const usage = plainUsageOf(9e15, 9e15);
  const alone = recordOf({ ...settled, usage });
  assert.deepEqual([alone.inputTokens, alone.outputTokens], [1_000, 100]);
  const attempt = { ...settled.attempt, usageMax: [3_000, 300, 1, 1, 1] };
  const several = recordOf({ ...settled, usage, attempt });
  assert.deepEqual([several.inputTokens, several.outputTokens], [3_000, 300]);
});

test("of failed attempts, only a paid answer and a session cost something", () => {
  const failure = { code: "upstream_failed", message: "" } as const;
  assert.equal(recordOf({ ...settled, failure }).cost, "0");
  assert.equal(recordOf({ ...settled, failure: { ...failure, isPaid: true } }).cost, "60000");
  assert.equal(recordOf({ ...settled, failure, attempt: { ...settled.attempt, operation: "realtime" } }).cost, "60000");
});

/** A backup on a clock that the test sets; its owner is `ingress-1`. */
function startBackup() {
  let now = 10_000;
  const did: string[] = [];
  const backup = new UsageBackup({
    write: ({ generationId, outcome }) => did.push(`${generationId} ${outcome}`),
    catalogue: () => catalogueOf(1),
    clock: { now: () => now, epoch: () => now },
    reach: (owner) => did.push(`reach ${owner}`),
  });
  const events = new EventStream<WorkerEvents>(backup.subscriber);
  const hear = () => backup.heard(settled.attempt.owner, now);
  return {
    backup,
    hear,
    did: () => did.splice(0),
    emit(kind: "settled" | "witnessed", generation: string, more: Partial<WorkerEvents["settled"]> = {}) {
      hear();
      events.emit(kind, { ...settled, ...more, attempt: { ...settled.attempt, generation } });
    },
    pass(ms: number) {
      for (const end = now + ms; now < end; ) {
        now += usageCheckMs;
        backup.tick(now);
      }
    },
  };
}

test("records of an owner that a message does not reach are written at once, and no others", () => {
  const { backup, emit, did } = startBackup();
  emit("settled", "gen_1");
  emit("settled", "gen_2");
  backup.unreachable("ingress-2");
  assert.deepEqual(did(), []);
  backup.unreachable("ingress-1");
  assert.deepEqual(did(), ["gen_1 complete", "gen_2 complete"]);
  backup.close();
  assert.deepEqual(did(), []);
});

test("an owner that falls silent after a record gets a few messages; one that is heard later has written the record", () => {
  const { emit, did, pass, hear } = startBackup();
  emit("settled", "gen_1");
  pass(usageCheckMs);
  assert.deepEqual(did(), ["reach ingress-1"]);
  pass(unheardMs - 2 * usageCheckMs);
  assert.equal(did().length, reachedMs / usageCheckMs - 2);
  pass(usageCheckMs);
  assert.deepEqual(did(), ["gen_1 complete"]);
  emit("settled", "gen_2");
  pass(recordedWithinMs);
  hear();
  did();
  pass(unheardMs);
  assert.deepEqual(did(), []);
});

test("an attempt that is witnessed while it runs is written at once as left", () => {
  const { emit, did } = startBackup();
  emit("witnessed", "gen_1", { outcome: "cancelled", isOrphaned: true });
  assert.deepEqual(did(), ["gen_1 left"]);
});
