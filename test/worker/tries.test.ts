import assert from "node:assert/strict";
import { test } from "node:test";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Failure, OperatorFault } from "#wire/errors.ts";
import { type Candidate, candidatesOf } from "../../apps/worker/route.ts";
import { sortOf, Tries } from "../../apps/worker/tries.ts";

const failure = { code: "upstream_failed", message: "no" } as const;
const candidateOf = (key: string, contextWindow = 1_000, credentials: string[] = []) =>
  ({ key, model: { contextWindow }, upstream: { credential: "KEY", credentials } }) as unknown as Candidate;
const keysOf = (candidates: Candidate[]) => candidates.map(({ key }) => key);
const half = () => 0.5;

test("targets keep their order, and neighbours with weights share by them", () => {
  const upstreams = new Map(["a", "b", "c", "d"].map((name) => [name, { name, limits: { totalTimeoutMs: 1, firstTokenTimeoutMs: 2 } }]));
  const fallback = { id: "other", route: [{ upstream: "d", model: "m" }], fallbacks: [] };
  const catalogue = { upstreams, modelFor: (_group: string, id: string) => (id === "other" ? fallback : undefined) } as unknown as Catalogue;
  const model = {
    id: "mine",
    fallbacks: ["other", "gone"],
    limits: { totalTimeoutMs: 5 },
    route: [
      { upstream: "a", model: "m", weight: 3, limits: { firstTokenTimeoutMs: 9 } },
      { upstream: "b", model: "m", weight: 1 },
      { upstream: "c", model: "m" },
      { upstream: "gone", model: "m" },
    ],
  } as unknown as CatalogueModel;
  const orderAt = (point: number) => candidatesOf(catalogue, "default", model, () => point).map(({ key }) => key);
  assert.deepEqual(orderAt(0), ["a/m", "b/m", "c/m", "d/m"]);
  assert.deepEqual(orderAt(0.74), ["a/m", "b/m", "c/m", "d/m"]);
  assert.deepEqual(orderAt(0.76), ["b/m", "a/m", "c/m", "d/m"]);
  const [first, second] = candidatesOf(catalogue, "default", model, () => 0);
  assert.deepEqual(
    [first?.limits, second?.limits],
    [
      { totalTimeoutMs: 5, firstTokenTimeoutMs: 9 },
      { totalTimeoutMs: 5, firstTokenTimeoutMs: 2 },
    ],
  );
});

test("failures are sorted by what they ask for", () => {
  const cases: [Failure["code"], number | undefined, ReturnType<typeof sortOf>, OperatorFault?][] = [
    ["invalid_request", 400, "caller"],
    ["content_filter", 400, "caller"],
    ["context_too_long", 400, "context"],
    ["upstream_failed", 401, "credential", "credential"],
    ["upstream_failed", 400, "credential", "credential"],
    ["upstream_failed", 402, "quota", "quota"],
    ["upstream_failed", 429, "quota", "quota"],
    ["upstream_failed", 404, "missing", "model"],
    ["upstream_timeout", 408, "transient"],
    ["rate_limited", 429, "capacity"],
    ["overloaded", 529, "transient"],
    ["upstream_failed", 500, "transient"],
    ["upstream_timeout", 504, "transient"],
    ["upstream_timeout", undefined, "silent"],
    ["upstream_timeout", 200, "silent"],
    ["upstream_failed", undefined, "transient"],
  ];
  for (const [code, status, sort, operatorFault] of cases)
    assert.equal(sortOf({ code, message: "", ...(operatorFault && { operatorFault }) }, status), sort, `${code} ${status}`);
});

test("the next target is asked at once, the same one only after a pause that grows", () => {
  const [one, two] = [candidateOf("one"), candidateOf("two")];
  const tries = new Tries([one, two], 3, 0, half);
  assert.deepEqual(keysOf(tries.ready(0)), ["one", "two"]);
  tries.began();
  assert.ok(tries.failed(one, "transient", failure, undefined, 0));
  assert.deepEqual(keysOf(tries.ready(0)), ["two"]);
  tries.began();
  assert.ok(tries.failed(two, "transient", failure, undefined, 10));
  assert.deepEqual(keysOf(tries.ready(10)), []);
  assert.equal(tries.waitMs(10), 190);
  assert.deepEqual(keysOf(tries.ready(200)), ["one"]);
  tries.began();
  assert.ok(tries.failed(one, "capacity", failure, 3_000, 200));
  assert.equal(tries.waitMs(200), 210);
  tries.began();
  assert.ok(!tries.failed(two, "transient", failure, undefined, 500), "no more than the retries");
  assert.equal(tries.failure, failure);
});

test("a silent target, and one that knows no such model, is not asked twice; the caller's fault is nobody else's", () => {
  for (const sort of ["silent", "missing"] as const) {
    const [one, two] = [candidateOf("one"), candidateOf("two")];
    const tries = new Tries([one, two], 5, 0, half);
    tries.began();
    assert.ok(tries.failed(one, sort, failure, undefined, 0));
    assert.deepEqual(keysOf(tries.ready(1e6)), ["two"]);
    tries.began();
    assert.ok(!tries.failed(two, sort, failure, undefined, 0));
  }
  const tries = new Tries([candidateOf("one"), candidateOf("two")], 5, 0, half);
  tries.began();
  assert.ok(!tries.failed(candidateOf("one"), "caller", failure, undefined, 0));
});

test("a target that refuses its only credential is not asked twice; one with several is, at once", () => {
  for (const credentials of [[], ["OTHER_KEY"]]) {
    const one = candidateOf("one", 1_000, credentials);
    const tries = new Tries([one], 2, 0, half);
    tries.began();
    assert.equal(tries.failed(one, "credential", failure, undefined, 0), credentials.length > 0);
    assert.deepEqual(keysOf(tries.ready(0)), credentials.length > 0 ? ["one"] : []);
  }
});

test("what is too long for one model moves to models with a larger window alone", () => {
  const [small, same, large] = [candidateOf("small"), candidateOf("same"), candidateOf("large", 2_000)];
  const tries = new Tries([small, same, large], 5, 0, half);
  tries.began();
  assert.ok(tries.failed(small, "context", failure, undefined, 0));
  assert.deepEqual(keysOf(tries.ready(0)), ["large"]);
  tries.began();
  assert.ok(!tries.failed(large, "context", failure, undefined, 0));
});

test("an open circuit and resting credentials are no reason to wait, a full upstream is, for a while", () => {
  for (const by of ["circuit", "credential"] as const) {
    const only = candidateOf("only");
    const tries = new Tries([only], 2, 0, half);
    tries.hindered(only, by, 3_000, 0);
    assert.deepEqual(tries.ready(0), []);
    assert.equal(tries.waitMs(0), undefined);
    assert.deepEqual([tries.failure.code, tries.failure.retryAfterSeconds], ["unavailable", 3]);
  }
  const only = candidateOf("only");
  const tries = new Tries([only], 2, 0, half);
  tries.hindered(only, "concurrency", 100, 0);
  assert.equal(tries.waitMs(0), 100);
  tries.hindered(only, "concurrency", 100, 60_000);
  assert.equal(tries.waitMs(60_000), undefined);
  assert.equal(tries.failure.code, "overloaded");
});
