import assert from "node:assert/strict";
import { test } from "node:test";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Failure, OperatorFault } from "#dialects/errors.ts";
import { classifyFailure, outcomeOf, RetryState } from "../../../apps/worker/routing/retry-state.ts";
import { type Candidate, candidatesOf } from "../../../apps/worker/routing/route.ts";

const failure = { code: "upstream_failed", message: "no" } as const;
const modelOf = (retries: number, contextWindow = 1_000) => ({ retries, contextWindow }) as unknown as CatalogueModel;
const candidateOf = (key: string, model: CatalogueModel, credentials: string[] = []) =>
  ({ key, model, upstream: { name: key, credential: "KEY", credentials } }) as unknown as Candidate;
const keysOf = (candidates: Candidate[]) => candidates.map(({ key }) => key);
const half = () => 0.5;

test("targets keep their order, and neighbours with weights share by them", () => {
  const upstreams = new Map(
    ["a", "b", "c", "d"].map((name) => [name, { name, timeouts: { totalTimeoutMs: 1, firstTokenTimeoutMs: 2 } }]),
  );
  const fallback = { id: "other", route: [{ upstream: "d", model: "m" }], fallbacks: [] };
  const catalogue = {
    upstreams,
    modelFor: (_group: string, id: string) => (id === "other" ? fallback : undefined),
  } as unknown as Catalogue;
  const model = {
    id: "mine",
    fallbacks: ["other", "gone"],
    timeouts: { totalTimeoutMs: 5 },
    route: [
      { upstream: "a", model: "m", weight: 3, timeouts: { firstTokenTimeoutMs: 9 } },
      { upstream: "b", model: "m", weight: 1 },
      { upstream: "c", model: "m" },
      { upstream: "gone", model: "m" },
    ],
  } as unknown as CatalogueModel;
  const orderAt = (point: number) =>
    candidatesOf(catalogue, "default", model, ["other", "gone"], () => point).map(({ key }) => key);
  assert.deepEqual(orderAt(0), ["a/m", "b/m", "c/m", "d/m"]);
  assert.deepEqual(
    candidatesOf(catalogue, "default", model, [], () => 0).map(({ key }) => key),
    ["a/m", "b/m", "c/m"],
    "a fallback that the key may not use",
  );
  assert.deepEqual(orderAt(0.74), ["a/m", "b/m", "c/m", "d/m"]);
  assert.deepEqual(orderAt(0.76), ["b/m", "a/m", "c/m", "d/m"]);
  const [first, second] = candidatesOf(catalogue, "default", model, ["other"], () => 0);
  assert.deepEqual(
    [first?.timeouts, second?.timeouts],
    [
      { totalTimeoutMs: 5, firstTokenTimeoutMs: 9 },
      { totalTimeoutMs: 5, firstTokenTimeoutMs: 2 },
    ],
  );
});

test("a failure's class says what it asks for", () => {
  const cases: [Failure["code"], number | undefined, ReturnType<typeof classifyFailure>, OperatorFault?][] = [
    ["invalid_request", 400, "caller"],
    ["content_filter", 403, "caller"],
    ["context_too_long", 400, "context"],
    ["upstream_failed", 401, "credential", "credential"],
    ["upstream_failed", 400, "credential", "credential"],
    ["upstream_failed", 402, "quota", "quota"],
    ["upstream_failed", 429, "quota", "quota"],
    ["upstream_failed", 404, "missing", "model"],
    ["upstream_failed", 403, "unclear", "unclear"],
    ["upstream_failed", 302, "unclear"],
    ["upstream_failed", 418, "unclear"],
    ["upstream_failed", 409, "transient"],
    ["upstream_failed", 425, "transient"],
    ["upstream_timeout", 408, "transient"],
    ["rate_limited", 429, "capacity"],
    ["overloaded", 529, "transient"],
    ["upstream_failed", 500, "transient"],
    ["upstream_failed", 201, "transient"],
    ["upstream_timeout", 504, "transient"],
    ["upstream_timeout", undefined, "silent"],
    ["upstream_timeout", 200, "silent"],
    ["upstream_failed", undefined, "transient"],
  ];
  for (const [code, status, failureClass, operatorFault] of cases)
    assert.equal(
      classifyFailure({ code, message: "", ...(operatorFault && { operatorFault }) }, status),
      failureClass,
      `${code} ${status}`,
    );
});

test("an unknown 4xx and a refusal without a reason say nothing about the target", () => {
  assert.deepEqual(
    ["unclear", "caller", "transient", "silent", "quota", "missing"].map((one) =>
      outcomeOf(one as Parameters<typeof outcomeOf>[0]),
    ),
    [undefined, "answered", "transient", "transient", "quota", "missing"],
  );
});

/** A call of this target fails. */
const fail = (
  state: RetryState,
  candidate: Candidate,
  failureClass: Parameters<RetryState["failed"]>[1],
  now: number,
  retryAfterMs?: number,
) => {
  state.began(candidate);
  return state.failed(candidate, failureClass, failure, retryAfterMs, now);
};

test("the next target is asked at once, the same one only after a pause that grows", () => {
  const model = modelOf(3);
  const [one, two] = [candidateOf("one", model), candidateOf("two", model)];
  const state = new RetryState([one, two], 0, half);
  assert.deepEqual(keysOf(state.ready(0)), ["one", "two"]);
  assert.ok(fail(state, one, "transient", 0));
  assert.deepEqual(keysOf(state.ready(0)), ["two"]);
  assert.ok(fail(state, two, "transient", 10));
  assert.deepEqual(keysOf(state.ready(10)), []);
  assert.equal(state.waitMs(10), 190);
  assert.deepEqual(keysOf(state.ready(200)), ["one"]);
  assert.ok(fail(state, one, "capacity", 200, 3_000));
  assert.equal(state.waitMs(200), 210);
  assert.ok(!fail(state, two, "transient", 500), "no more than the retries");
  assert.equal(state.failure, failure);
});

test("a fallback is asked only after the model's own targets used up their retries", () => {
  const [model, fallback] = [modelOf(2), modelOf(1)];
  const [own, other] = [candidateOf("own", model), candidateOf("other", fallback)];
  const state = new RetryState([own, other], 0, half);
  assert.deepEqual(keysOf(state.ready(0)), ["own"]);
  assert.ok(fail(state, own, "transient", 0));
  assert.deepEqual([keysOf(state.ready(0)), state.waitMs(0)], [[], 200]);
  assert.ok(fail(state, own, "capacity", 200, 2_000));
  assert.deepEqual([keysOf(state.ready(200)), state.waitMs(200)], [[], 2_000]);
  assert.ok(fail(state, own, "transient", 2_200));
  assert.deepEqual(keysOf(state.ready(2_200)), ["other"]);
  assert.ok(fail(state, other, "transient", 2_200), "a fallback has retries of its own");
  assert.deepEqual([keysOf(state.ready(2_200)), state.waitMs(2_200)], [[], 200]);
  assert.ok(!fail(state, other, "transient", 2_400));
});

test("a fallback is asked at once when the model's own target is blocked, silent, refused, or asks for a long wait", () => {
  const stateOf = () => {
    const own = candidateOf("own", modelOf(5));
    const state = new RetryState([own, candidateOf("other", modelOf(5))], 0, half);
    return { own, state };
  };
  for (const [by, forMs] of [
    ["circuit breaker", 100],
    ["credential", 100],
    ["concurrency", 100],
    ["rate-limit", 5_001],
  ] as const) {
    const { own, state } = stateOf();
    state.blocked(own, by, forMs, 0);
    assert.deepEqual(keysOf(state.ready(0)), ["other"], by);
    assert.deepEqual(keysOf(state.ready(forMs * 1.25)), ["own"], `${by} is over`);
  }
  for (const failureClass of ["silent", "missing", "credential", "quota", "unclear"] as const) {
    const { own, state } = stateOf();
    assert.ok(fail(state, own, failureClass, 0));
    assert.deepEqual(keysOf(state.ready(1e6)), ["other"], failureClass);
  }
  const { own, state } = stateOf();
  assert.ok(fail(state, own, "capacity", 0, 5_001));
  assert.deepEqual(keysOf(state.ready(0)), ["other"]);
  const limited = stateOf();
  limited.state.blocked(limited.own, "rate-limit", 2_000, 0);
  assert.deepEqual(
    [keysOf(limited.state.ready(0)), (limited.state.waitMs(0) ?? 0) >= 2_000],
    [[], true],
    "a short rate limit is waited for",
  );
});

test("a target that is listed twice keeps its pause, and is given up once", () => {
  const model = modelOf(5);
  const [first, again] = [candidateOf("same", model), candidateOf("same", model)];
  const state = new RetryState([first, again], 0, half);
  assert.ok(fail(state, first, "transient", 0));
  assert.deepEqual([keysOf(state.ready(0)), state.waitMs(0)], [[], 200]);
  assert.ok(!fail(state, again, "silent", 200));
});

test("a silent target, and one that knows no such model, is not asked twice; the caller's fault is nobody else's", () => {
  for (const failureClass of ["silent", "missing", "unclear"] as const) {
    const model = modelOf(5);
    const [one, two] = [candidateOf("one", model), candidateOf("two", model)];
    const state = new RetryState([one, two], 0, half);
    assert.ok(fail(state, one, failureClass, 0));
    assert.deepEqual(keysOf(state.ready(1e6)), ["two"]);
    assert.ok(!fail(state, two, failureClass, 0));
  }
  const model = modelOf(5);
  const [one, two] = [candidateOf("one", model), candidateOf("two", model)];
  assert.ok(!fail(new RetryState([one, two], 0, half), one, "caller", 0));
});

test("a target that refuses its only credential is not asked twice; one with several is, at once", () => {
  for (const failureClass of ["credential", "quota"] as const)
    for (const credentials of [[], ["OTHER_KEY"]]) {
      const one = candidateOf("one", modelOf(2), credentials);
      const state = new RetryState([one], 0, half);
      assert.equal(fail(state, one, failureClass, 0), credentials.length > 0);
      assert.deepEqual(keysOf(state.ready(0)), credentials.length > 0 ? ["one"] : []);
    }
});

test("a rate-limited credential does not delay a target that has another one", () => {
  const one = candidateOf("one", modelOf(2), ["OTHER_KEY"]);
  const state = new RetryState([one], 0, half);
  assert.ok(fail(state, one, "capacity", 0, 60_000));
  assert.deepEqual(keysOf(state.ready(0)), ["one"]);
});

test("what is too long for one model moves to models with a larger window alone", () => {
  const [small, same, large] = [
    candidateOf("small", modelOf(0)),
    candidateOf("same", modelOf(0)),
    candidateOf("large", modelOf(0, 2_000)),
  ];
  const state = new RetryState([small, same, large], 0, half);
  assert.ok(fail(state, small, "context", 0));
  assert.deepEqual(keysOf(state.ready(0)), ["large"]);
  assert.ok(!fail(state, large, "context", 0));
});

test("a full or rate-limited upstream is waited for, an open circuit breaker and a refused credential are not", () => {
  const only = candidateOf("only", modelOf(2));
  for (const by of ["circuit breaker", "credential"] as const) {
    const state = new RetryState([only], 0, half);
    state.blocked(only, by, 3_000, 0);
    assert.deepEqual(state.ready(0), []);
    assert.equal(state.waitMs(0), undefined);
    assert.deepEqual([state.failure.code, state.failure.retryAfterSeconds], ["unavailable", 3]);
  }
  for (const [by, code] of [
    ["concurrency", "overloaded"],
    ["rate-limit", "rate_limited"],
  ] as const) {
    const state = new RetryState([only], 0, () => 0);
    state.blocked(only, by, 100, 0);
    assert.equal(state.waitMs(0), 100);
    assert.equal(state.waitMs(60_001), undefined);
    assert.equal(state.failure.code, code);
    state.blocked(only, by, 5_001, 0);
    assert.equal(state.waitMs(0), undefined);
  }
});
