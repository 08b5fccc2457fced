import assert from "node:assert/strict";
import { test } from "node:test";
import { ByteBudget } from "#service/byte-budget.ts";

test("answers pass until the budget of a second is used up, and again when it is paid off", () => {
  const budget = new ByteBudget(1_000);
  assert.equal(budget.waitFor(600, 0), 0);
  assert.equal(budget.waitFor(600, 0), 0);
  const waitMs = budget.waitFor(600, 0);
  assert.equal(waitMs, 201);
  assert.ok(budget.waitFor(1, 100) > 0);
  assert.equal(budget.waitFor(600, waitMs), 0);
});

test("an answer larger than the budget passes once, and time does not pile up", () => {
  const budget = new ByteBudget(1_000);
  assert.equal(budget.waitFor(5_000, 0), 0);
  assert.equal(budget.waitFor(1, 3_000), 1_001);
  assert.equal(budget.waitFor(1_000, 60_000), 0);
  assert.ok(budget.waitFor(1, 60_000) > 0);
});

test("a clock that goes back gives nothing away", () => {
  const budget = new ByteBudget(1_000);
  assert.equal(budget.waitFor(1_000, 10_000), 0);
  assert.ok(budget.waitFor(1, 0) > 0);
});
