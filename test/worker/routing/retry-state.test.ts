import assert from "node:assert/strict";
import { test } from "node:test";
import type { Catalogue, CatalogueModel } from "#catalogue/catalogue.ts";
import type { Failure, OperatorFault } from "#dialects/errors.ts";
import { classifyFailure, outcomeOf, RetryState } from "../../../apps/worker/routing/retry-state.ts";
import { type Candidate, candidatesOf, drawnOrder } from "../../../apps/worker/routing/route.ts";
import { partOf } from "../../support/part-of.ts";

const failure = { code: "upstream_failed", message: "no" } as const;
const modelOf = (retries: number, contextWindow: number | null = 1_000) =>
  partOf<CatalogueModel>({ retries, contextWindow: contextWindow ?? undefined });
const candidateOf = (key: string, model: CatalogueModel, credentials: string[] = []) =>
  partOf<Candidate>({ key, model, upstream: { name: key, credential: "KEY", credentials } });
const keysOf = (candidates: Candidate[]) => candidates.map(({ key }) => key);
const half = () => 0.5;
/** The start of the attempt, on a clock that has run for a while. */
const start = 200_000;

test("targets keep their order, and neighbours with weights share calls by weight", () => {
  const upstreams = new Map(
    ["a", "b", "c", "d"].map((name) => [name, { name, timeouts: { totalTimeoutMs: 1, firstTokenTimeoutMs: 2 } }]),
  );
  const fallback = { id: "other", route: [{ upstream: "d", model: "m" }], fallbacks: [] };
  const catalogue = partOf<Catalogue>({
    upstreams,
    modelFor: (_group: string, id: string) => (id === "other" ? fallback : undefined),
  });
  const model = partOf<CatalogueModel>({
    id: "mine",
    fallbacks: ["other", "gone"],
    timeouts: { totalTimeoutMs: 5 },
    route: [
      { upstream: "a", model: "m", weight: 3, timeouts: { firstTokenTimeoutMs: 9 } },
      { upstream: "b", model: "m", weight: 1 },
      { upstream: "c", model: "m" },
      { upstream: "gone", model: "m" },
    ],
  });
  const orderAt = (point: number) =>
    candidatesOf(
      catalogue,
      { group: "default", model, allowed: ["other", "gone"] },
      drawnOrder(() => point),
    ).map(({ key }) => key);
  assert.deepEqual(orderAt(0), ["a/m", "b/m", "c/m", "d/m"]);
  assert.deepEqual(
    candidatesOf(
      catalogue,
      { group: "default", model, allowed: [] },
      drawnOrder(() => 0),
    ).map(({ key }) => key),
    ["a/m", "b/m", "c/m"],
    "a fallback that the key may not use",
  );
  assert.deepEqual(orderAt(0.74), ["a/m", "b/m", "c/m", "d/m"]);
  assert.deepEqual(orderAt(0.76), ["b/m", "a/m", "c/m", "d/m"]);
  const [first, second] = candidatesOf(
    catalogue,
    { group: "default", model, allowed: ["other"] },
    drawnOrder(() => 0),
  );
  assert.deepEqual(
    [first?.timeouts, second?.timeouts],
    [
      { totalTimeoutMs: 5, firstTokenTimeoutMs: 9 },
      { totalTimeoutMs: 5, firstTokenTimeoutMs: 2 },
    ],
  );
});

test("a failure is classified by its code, the upstream's status and the operator's fault", () => {
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
    ["upstream_failed", 300, "unclear"],
    ["upstream_failed", 302, "unclear"],
    ["upstream_failed", 418, "unclear"],
    ["upstream_failed", 499, "unclear"],
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
    ["upstream_timeout", 300, "transient"],
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
  vainWaitMs = 0,
) => {
  state.began(candidate);
  return state.failed(candidate, failureClass, failure, { retryAfterMs, vainWaitMs }, now);
};

test("another target is called at once, the same target only after a growing pause", () => {
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

test("a fallback is called only after the model's own targets used up their retries", () => {
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

test("a fallback is called at once when the model's own target is blocked, silent, refuses its credential, or asks for a long wait", () => {
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
    state.blocked(own, { by, forMs }, 0);
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
  limited.state.blocked(limited.own, { by: "rate-limit", forMs: 2_000 }, 0);
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

test("a silent target and one without the model are not called twice; after the caller's own fault no target is called", () => {
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

test("a target that refuses its only credential is not called twice; one with several credentials is, at once", () => {
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

test("a request that is too long for one model moves only to models with a larger context window", () => {
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

test("a prompt that is too long moves to another model whose window is unknown, and the caller gets that failure if none answers", () => {
  const unknown = modelOf(1, null);
  const [own, again] = [candidateOf("own", unknown), candidateOf("again", unknown)];
  const other = candidateOf("other", modelOf(0, null));
  const state = new RetryState([own, again, other], 0, half);
  const tooLong: Failure = { code: "context_too_long", message: "too long" };
  state.began(own);
  assert.ok(state.failed(own, "context", tooLong, {}, 0));
  assert.deepEqual(keysOf(state.ready(0)), ["other"], "targets of one model have one window");
  assert.ok(!fail(state, other, "transient", 0));
  assert.equal(state.failure, tooLong);
});

test("a target whose failures took seconds is not called again, whatever they were and however the time adds up", () => {
  for (const [failureClass, waitsMs] of [
    ["transient", [8_000]],
    ["transient", [60_000]],
    ["transient", [5_000]],
    ["transient", [3_000, 2_000]],
    ["capacity", [8_000]],
    ["capacity", [1_000, 4_000]],
  ] as const) {
    const [own, other] = [candidateOf("own", modelOf(5)), candidateOf("other", modelOf(5))];
    const state = new RetryState([own, other], 0, half);
    for (const [place, waitMs] of waitsMs.entries()) {
      assert.deepEqual(keysOf(state.ready(place * 1e4)), ["own"]);
      assert.ok(fail(state, own, failureClass, place * 1e4, undefined, waitMs));
    }
    assert.deepEqual(keysOf(state.ready(1e6)), ["other"], `${failureClass} ${waitsMs}`);
    assert.ok(!fail(new RetryState([own], 0, half), own, failureClass, 0, undefined, 8_000));
  }
  const [own, other] = [candidateOf("own", modelOf(5)), candidateOf("other", modelOf(5))];
  const state = new RetryState([own, other], 0, half);
  assert.ok(fail(state, own, "transient", 0, undefined, 4_999));
  assert.deepEqual(keysOf(state.ready(1e4)), ["own"], "a quick failure is retried");
});

test("an attempt waits for a full or rate-limited upstream, but not for an open circuit breaker or a refused credential", () => {
  const only = candidateOf("only", modelOf(2));
  for (const by of ["circuit breaker", "credential"] as const) {
    const state = new RetryState([only], start, half);
    state.blocked(only, { by, forMs: 3_000 }, start);
    assert.deepEqual(state.ready(start), []);
    assert.equal(state.waitMs(start), undefined);
    assert.deepEqual([state.failure.code, state.failure.retryAfterSeconds], ["unavailable", 3]);
  }
  for (const [by, code] of [
    ["concurrency", "overloaded"],
    ["rate-limit", "rate_limited"],
  ] as const) {
    const state = new RetryState([only], start, () => 0);
    state.blocked(only, { by, forMs: 100 }, start);
    assert.equal(state.waitMs(start), 100);
    assert.equal(state.waitMs(start + 60_000), 0, "a minute in all");
    assert.equal(state.waitMs(start + 60_001), undefined);
    assert.equal(state.failure.code, code);
    state.blocked(only, { by, forMs: 5_000 }, start);
    assert.equal(state.waitMs(start), 5_000);
    state.blocked(only, { by, forMs: 5_001 }, start);
    assert.equal(state.waitMs(start), undefined, "a longer wait is the caller's decision");
  }
});

test("a wait ends when the first of several full upstreams has capacity", () => {
  const model = modelOf(2);
  const [one, two] = [candidateOf("one", model), candidateOf("two", model)];
  const state = new RetryState([one, two], start, half);
  state.blocked(one, { by: "concurrency", forMs: 900 }, start);
  state.blocked(two, { by: "concurrency", forMs: 300 }, start);
  assert.equal(state.waitMs(start), 300);
  assert.deepEqual(keysOf(state.ready(start + 300)), ["two"]);
});

test("a retry of the model's own target is not cut short by a fallback that has capacity sooner", () => {
  const [own, other] = [candidateOf("own", modelOf(2)), candidateOf("other", modelOf(2))];
  const state = new RetryState([own, other], start, half);
  assert.ok(fail(state, own, "capacity", start, 3_000));
  state.blocked(other, { by: "concurrency", forMs: 100 }, start);
  assert.equal(state.waitMs(start), 3_000);
});

test("an attempt waits for its model's rate limits for a minute in all, then calls a fallback", () => {
  const [own, other] = [candidateOf("own", modelOf(2)), candidateOf("other", modelOf(2))];
  const state = new RetryState([own, other], start, () => 0);
  state.blocked(own, { by: "rate-limit", forMs: 5_000 }, start);
  assert.deepEqual(keysOf(state.ready(start)), [], "five seconds are short enough to wait");
  state.blocked(own, { by: "rate-limit", forMs: 2_000 }, start + 59_000);
  assert.deepEqual(keysOf(state.ready(start + 60_000)), []);
  assert.deepEqual(keysOf(state.ready(start + 60_001)), ["other"]);
});

test("attempts that wait for one rate limit return at different times, none of them early", () => {
  const untilOf = (by: "rate-limit" | "concurrency", random: number) => {
    const only = candidateOf("only", modelOf(2));
    const state = new RetryState([only], start, () => random);
    state.blocked(only, { by, forMs: 1_000 }, start);
    return state.waitMs(start);
  };
  assert.deepEqual([untilOf("rate-limit", 0), untilOf("rate-limit", 0.8)], [1_000, 1_200]);
  assert.equal(untilOf("concurrency", 0.8), 1_000, "a full upstream is asked as soon as it has capacity");
});

test("retries of many attempts are spread from half to one and a half of the pause", () => {
  const pauseOf = (random: number) => {
    const only = candidateOf("only", modelOf(2));
    const state = new RetryState([only], start, () => random);
    fail(state, only, "transient", start);
    return state.waitMs(start);
  };
  assert.deepEqual([pauseOf(0), pauseOf(0.5), pauseOf(0.75)], [100, 200, 250]);
});

test("a target that failed is called after those that did not, even when its pause is over", () => {
  const model = modelOf(3);
  const [one, two, three] = [candidateOf("one", model), candidateOf("two", model), candidateOf("three", model)];
  const state = new RetryState([one, two, three], start, half);
  fail(state, one, "transient", start);
  assert.deepEqual(keysOf(state.ready(start + 10_000)), ["two", "three", "one"]);
});

test("a target that cannot serve the request is skipped, and the caller gets the first reason when no target is left", () => {
  const model = modelOf(3);
  const [one, two] = [candidateOf("one", model), candidateOf("two", model)];
  const state = new RetryState([one, two], start, half);
  const reasonOf = (message: string): Failure => ({ code: "invalid_request", message });
  assert.ok(state.hasOther(one));
  state.unsuitable(one, reasonOf("first"));
  assert.deepEqual(keysOf(state.ready(start)), ["two"]);
  assert.deepEqual([state.hasOther(one), state.hasOther(two)], [true, false]);
  state.unsuitable(two, reasonOf("second"));
  assert.deepEqual(keysOf(state.ready(start)), []);
  assert.equal(state.failure.message, "first");
  assert.equal(state.calls, 0, "nothing was called");
});

test("calls are counted over all models", () => {
  const [own, other] = [candidateOf("own", modelOf(0)), candidateOf("other", modelOf(0))];
  const state = new RetryState([own, other], start, half);
  fail(state, own, "transient", start);
  fail(state, other, "transient", start);
  assert.equal(state.calls, 2);
});

test("a full target is waited for for a minute in all before the next is called, or refuses at once", () => {
  const model = modelOf(2);
  const [first, second] = [candidateOf("first", model), candidateOf("second", model)];
  const full = { by: "rate-limit", forMs: 10_000 } as const;
  const stateOf = () => new RetryState([first, second], start, () => 0);

  const next = stateOf();
  next.blocked(first, { ...full, whenFull: "next" }, start);
  assert.deepEqual(keysOf(next.ready(start)), ["second"]);
  assert.equal(next.isHeldUp, false);

  const waiting = stateOf();
  waiting.blocked(first, { ...full, whenFull: "wait" }, start);
  assert.equal(waiting.isHeldUp, true);
  assert.deepEqual(waiting.ready(start), []);
  assert.equal(waiting.waitMs(start), 10_000);
  assert.deepEqual(keysOf(waiting.ready(start + 10_000)), ["first"]);
  waiting.blocked(first, { ...full, whenFull: "wait" }, start + 50_001);
  assert.deepEqual(keysOf(waiting.ready(start + 50_001)), ["second"]);

  const refusing = stateOf();
  refusing.blocked(first, { ...full, whenFull: "refuse" }, start);
  assert.deepEqual(refusing.ready(start), []);
  assert.equal(refusing.waitMs(start), undefined);
  assert.equal(refusing.failure.code, "rate_limited");
  assert.equal(refusing.failure.retryAfterSeconds, 10);
});
