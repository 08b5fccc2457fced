/** From the API's sums to what a plot shows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { changeOf, measures } from "../../apps/console/parts/measures.ts";
import type { Sums } from "../../apps/console/parts/usage-types.ts";
import { phasesOf } from "../../apps/console/parts/waterfall.ts";

const sums: Sums = {
  ...{ requests: 10, refused: 2, failed: 1, images: 0 },
  ...{ inputTokens: 1_000, cachedInputTokens: 400, cacheWriteTokens: 100, outputTokens: 300, reasoningTokens: 50 },
  ...{ audioInputTokens: 0, audioOutputTokens: 0, cost: "0.5", upstreamCost: null, margin: null, cacheSaving: null },
  ...{ isCostPartial: false, isUpstreamCostPartial: false },
  ...{ firstContentMs: 200, durationMs: 900 },
};

test("the parts of a measure add up to it", () => {
  for (const [name, { value, parts = [] }] of Object.entries(measures)) {
    if (parts.length === 0) continue;
    assert.equal(
      parts.reduce((sum, [, of]) => sum + of(sums), 0),
      value(sums),
      name,
    );
  }
});

test("rates without anything to measure are unknown, not zero", () => {
  const nothing = { ...sums, requests: 0, refused: 0, failed: 0, inputTokens: 0 };
  assert.equal(measures.errorRate.value(nothing), null);
  assert.equal(measures.cacheRate.value(nothing), null);
  assert.equal(measures.errorRate.value(sums), 0.3);
  assert.equal(measures.cacheRate.value(sums), 0.4);
});

test("changes are relative to the earlier value", () => {
  assert.equal(changeOf(15, 10), 0.5);
  assert.equal(changeOf(-5, -10), 0.5);
  assert.equal(changeOf(5, 0), null);
  assert.equal(changeOf(null, 5), null);
});

test("the phases of a request follow each other, whichever it reached", () => {
  const none = { queuedMs: null, dispatchedMs: null, boundMs: null, firstContentMs: null };
  assert.deepEqual(phasesOf({ ...none, durationMs: 7 }), [{ name: "admission", from: 0, to: 7 }]);
  assert.deepEqual(phasesOf({ queuedMs: 1, dispatchedMs: 3, boundMs: 8, firstContentMs: 30, durationMs: 90 }), [
    { name: "admission", from: 0, to: 1 },
    { name: "queue", from: 1, to: 3 },
    { name: "worker", from: 3, to: 8 },
    { name: "upstream", from: 8, to: 30 },
    { name: "answer", from: 30, to: 90 },
  ]);
});
