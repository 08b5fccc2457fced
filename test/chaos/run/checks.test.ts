import assert from "node:assert/strict";
import { test } from "node:test";
import type { LedgerRecord } from "../ledger-support.ts";
import type { Call } from "./call.ts";
import { type Struck, violationsOfCalls, violationsOfKeys, violationsOfLedger } from "./checks.ts";

const call = (more: Partial<Call>): Call => ({
  number: 1,
  kind: "any",
  ingresses: [0],
  startedAt: 1_000,
  endedAt: 2_000,
  outcome: "complete",
  detail: "",
  requestIds: ["req_a"],
  usage: { input: 3, output: 40 },
  ...more,
});
const fault: Struck = { name: "kill: ingress", startedAt: 1_500, healthyAt: 3_000, ingresses: [0] };
const record = (more: Partial<LedgerRecord>): LedgerRecord => ({
  id: "gen_a",
  requestId: "req_a",
  outcome: "complete",
  status: 200,
  key: "key_a",
  model: "fast",
  attempts: 1,
  cost: "0",
  tokens: { input: 3, output: 40 },
  upstreamRequestId: "up_a",
  ...more,
});
const journalOf = (completed: Record<string, number[]>) => ({
  completed: new Map(Object.entries(completed)),
  requests: 0,
  running: async () => 0,
  stop: async () => {},
});

test("whole answers and callers that leave need no cause; everything else does", () => {
  assert.deepEqual(violationsOfCalls([call({}), call({ outcome: "left" })], []), []);
  for (const outcome of ["refused", "failed", "cut", "wrong"] as const)
    assert.equal(violationsOfCalls([call({ outcome })], []).length, 1, outcome);
});

test("a fault excuses errors while it lasts, and broken connections of the ingress that it strikes", () => {
  for (const outcome of ["refused", "failed", "cut"] as const)
    assert.deepEqual(violationsOfCalls([call({ outcome })], [fault]), [], outcome);
  assert.equal(violationsOfCalls([call({ outcome: "cut", ingresses: [1] })], [fault]).length, 1);
  assert.equal(violationsOfCalls([call({ outcome: "wrong" })], [fault]).length, 1);
  assert.equal(violationsOfCalls([call({ outcome: "failed", startedAt: 3_001, endedAt: 4_000 })], [fault]).length, 1);
});

test("an answer is in the ledger once, with the tokens that the caller saw, and the upstream produced it", () => {
  const produced = journalOf({ up_a: [40] });
  assert.deepEqual(violationsOfLedger([call({})], [record({})], produced, []), []);
  assert.equal(violationsOfLedger([call({})], [], produced, []).length, 1);
  assert.equal(violationsOfLedger([call({})], [record({ tokens: { input: 3, output: 39 } })], produced, []).length, 1);
  assert.equal(violationsOfLedger([call({})], [record({})], journalOf({}), []).length, 1);
  const twice = [record({}), record({ id: "gen_b" })];
  const again = journalOf({ up_a: [40, 40] });
  assert.equal(violationsOfLedger([call({})], twice, again, [fault]).length, 1);
  const repeated = call({ requestIds: ["req_a", "req_b"] });
  assert.equal(violationsOfLedger([repeated], twice, again, []).length, 1);
  assert.deepEqual(violationsOfLedger([repeated], twice, again, [fault]), []);
});

test("an answer that died with its ingress costs nothing", () => {
  const cut = call({ outcome: "cut" });
  const paid = record({ status: 0 });
  assert.equal(violationsOfLedger([cut], [paid], journalOf({ up_a: [40] }), [fault]).length, 1);
  for (const fine of [record({ status: 0, outcome: "left" }), record({})])
    assert.deepEqual(violationsOfLedger([cut], [fine], journalOf({ up_a: [40] }), [fault]), []);
  assert.deepEqual(violationsOfLedger([cut], [paid], journalOf({ up_a: [40] }), []), []);
});

test("many keys of a new shape that Redis keeps are left over", () => {
  const before = new Map([["sluice:keys", 1]]);
  assert.deepEqual(violationsOfKeys(before, new Map([["sluice:keys", 2]])), []);
  assert.equal(violationsOfKeys(before, new Map([["sluice:job:*", 6]])).length, 1);
});
