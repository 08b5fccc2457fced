/** Which of several equal targets a strategy calls first. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { type MeasuredTarget, orderBy, type Strategy } from "../../../apps/worker/routing/strategies.ts";
import { randomFrom } from "../../support/random.ts";

const target = (name: string, more: Partial<MeasuredTarget> = {}) => ({
  name,
  weight: 1,
  callsInFlight: 0,
  latencyMs: undefined,
  latencyTrust: 1,
  failedShare: 0,
  cost: 0n,
  ...more,
});
type Named = ReturnType<typeof target>;

const draws = 4_000;
/** How often each target is the first, in percent. */
function shares(strategy: Strategy, targets: readonly Named[]): Record<string, number> {
  const random = randomFrom(7);
  const firsts = Array.from({ length: draws }, () => orderBy(strategy, targets, random)[0]?.name);
  return Object.fromEntries(
    targets.map(({ name }) => [name, Math.round((100 * firsts.filter((one) => one === name).length) / draws)]),
  );
}

const cases: [what: string, strategy: Strategy, targets: Named[], expected: Record<string, number>][] = [
  ["one target", "leastBusy", [target("a")], { a: 100 }],
  [
    "the less busy of two",
    "leastBusy",
    [target("a", { callsInFlight: 3 }), target("b", { callsInFlight: 2 })],
    { a: 0, b: 100 },
  ],
  [
    "two that are equally busy",
    "leastBusy",
    [target("a", { callsInFlight: 2 }), target("b", { callsInFlight: 2 })],
    { a: 50, b: 50 },
  ],
  ["idle ones, by weight", "leastBusy", [target("a", { weight: 3 }), target("b")], { a: 75, b: 25 }],
  [
    "calls in proportion to the weight",
    "leastBusy",
    [target("a", { weight: 4, callsInFlight: 6 }), target("b", { callsInFlight: 2 })],
    { a: 100, b: 0 },
  ],
  [
    "one that fails at once does not attract calls",
    "leastBusy",
    [target("a", { failedShare: 1 }), target("b", { callsInFlight: 5 })],
    { a: 0, b: 100 },
  ],
  [
    "the busiest of three is never first, and the others are not all equal to the best",
    "leastBusy",
    [target("a", { callsInFlight: 9 }), target("b", { callsInFlight: 5 }), target("c", { callsInFlight: 1 })],
    { a: 0, b: 33, c: 67 },
  ],
  [
    "the faster of two",
    "lowestLatency",
    [target("a", { latencyMs: 200 }), target("b", { latencyMs: 150 })],
    { a: 0, b: 100 },
  ],
  [
    "two that differ by less than a tenth",
    "lowestLatency",
    [target("a", { latencyMs: 105 }), target("b", { latencyMs: 100 })],
    { a: 50, b: 50 },
  ],
  [
    "near ones by weight",
    "lowestLatency",
    [target("a", { latencyMs: 105, weight: 3 }), target("b", { latencyMs: 100 })],
    { a: 75, b: 25 },
  ],
  [
    "one that is not known yet is tried",
    "lowestLatency",
    [target("a"), target("b", { latencyMs: 100 })],
    { a: 50, b: 50 },
  ],
  ["none is known", "lowestLatency", [target("a"), target("b")], { a: 50, b: 50 }],
  [
    "one that was slow long ago is tried",
    "lowestLatency",
    [target("a", { latencyMs: 900, latencyTrust: 0.01 }), target("b", { latencyMs: 100 })],
    { a: 50, b: 50 },
  ],
  [
    "one that was slow a while ago is not",
    "lowestLatency",
    [target("a", { latencyMs: 900, latencyTrust: 0.1 }), target("b", { latencyMs: 100 })],
    { a: 0, b: 100 },
  ],
  [
    "failures make a fast one slow",
    "lowestLatency",
    [target("a", { latencyMs: 50, failedShare: 0.5 }), target("b", { latencyMs: 200 })],
    { a: 0, b: 100 },
  ],
  [
    "calls in flight do not count",
    "lowestLatency",
    [target("a", { latencyMs: 50, callsInFlight: 90 }), target("b", { latencyMs: 200 })],
    { a: 100, b: 0 },
  ],
  [
    "the cheapest of three",
    "cheapest",
    [target("a", { cost: 3n }), target("b", { cost: 1n }), target("c", { cost: 2n })],
    { a: 0, b: 100, c: 0 },
  ],
  [
    "equal prices, by weight",
    "cheapest",
    [target("a", { cost: 1n, weight: 3 }), target("b", { cost: 1n }), target("c", { cost: 2n })],
    { a: 75, b: 25, c: 0 },
  ],
];

for (const [what, strategy, targets, expected] of cases)
  test(`${strategy}: ${what}`, () => {
    const measured = shares(strategy, targets);
    for (const [name, share] of Object.entries(expected))
      assert.ok(Math.abs((measured[name] ?? 0) - share) <= 3, `${name} ${measured[name]} %, not ${share} %`);
  });

test("the targets that are not first follow from the best to the worst", () => {
  const targets = [4, 1, 3, 2].map((calls) =>
    target(`t${calls}`, { callsInFlight: calls, latencyMs: calls * 100, cost: BigInt(calls) }),
  );
  for (const strategy of ["leastBusy", "lowestLatency", "cheapest"] as const)
    for (let seed = 0; seed < 50; seed++) {
      const [, ...others] = orderBy(strategy, targets, randomFrom(seed)).map(({ callsInFlight }) => callsInFlight);
      assert.deepEqual(others, others.toSorted());
    }
});
