import assert from "node:assert/strict";
import { test } from "node:test";
import { type CallProgress, overdueOf } from "../../../apps/worker/attempt/timeouts.ts";
import { partOf } from "../../support/part-of.ts";

const timeouts = {
  connectTimeoutMs: 1,
  firstByteTimeoutMs: 10,
  firstTokenTimeoutMs: 20,
  firstContentTimeoutMs: 50,
  betweenTokensTimeoutMs: 30,
  totalTimeoutMs: 200,
};

/**
 * When a call that stops at this point is overdue, and why; `hasAlternative` and the first call's
 * start are given.
 */
function firstOverdue(
  progress: Partial<CallProgress>,
  hasAlternative = false,
  firstCallAt = 0,
  quietMsMax = 0,
): [number, string] {
  const call = {
    timeouts,
    streams: true,
    isSession: false,
    startedAt: 0,
    progressedAt: 0,
    contentAt: 0,
    hasHead: false,
    hasContent: false,
    ...progress,
  };
  for (let now = 0; now < 600_000; now += now < 1_000 ? 1 : 1_000) {
    const overdue = overdueOf(call, firstCallAt, hasAlternative, () => quietMsMax, now);
    if (overdue !== undefined) return [now, overdue.says];
  }
  return [Number.POSITIVE_INFINITY, ""];
}

test("each stage of a stream has its own time limit", () => {
  assert.deepEqual(firstOverdue({}), [11, "did not begin to answer in time"]);
  assert.deepEqual(firstOverdue({ hasHead: true, progressedAt: 8 }), [29, "fell silent"]);
  assert.deepEqual(firstOverdue({ hasHead: true, hasContent: true, progressedAt: 60 }), [91, "fell silent"]);
});

test("bytes without content do not extend the limit to the first content", () => {
  assert.deepEqual(firstOverdue({ hasHead: true, progressedAt: 45 }), [51, "did not begin to answer in time"]);
});

test("a whole answer is given up only for another target, and at the total limit", () => {
  assert.deepEqual(firstOverdue({ streams: false }, true), [51, "did not begin to answer in time"]);
  assert.deepEqual(firstOverdue({ streams: false }), [201, "did not complete its answer in time"]);
});

test("all calls of an attempt share the total limit", () => {
  const progress = { startedAt: 190, progressedAt: 190, contentAt: 190, hasHead: true, hasContent: true };
  assert.deepEqual(firstOverdue(progress, true, 0), [201, "did not complete its answer in time"]);
});

test("keep-alives do not extend the time between two parts of the content", () => {
  const limits = { ...timeouts, totalTimeoutMs: 1e9 };
  const running = { timeouts: limits, hasHead: true, hasContent: true, progressedAt: 1e9, contentAt: 10 };
  assert.deepEqual(firstOverdue(running), [131, "stopped sending content"], "four times the time between tokens");
  const set = { ...running, timeouts: { ...limits, betweenContentTimeoutMs: 60 } };
  assert.deepEqual(firstOverdue(set), [71, "stopped sending content"]);
  const never = Number.POSITIVE_INFINITY;
  assert.equal(firstOverdue({ ...set, contentAt: 1e9 })[0], never, "content extends it");
  assert.deepEqual(firstOverdue({ ...set, streams: false }, true), [71, "stopped sending content"]);
  assert.equal(firstOverdue({ ...set, streams: false })[0], never, "the last target's whole answer may trickle");
  assert.equal(firstOverdue({ ...set, isSession: true })[0], never);
});

const unset = partOf<CallProgress["timeouts"]>({
  ...timeouts,
  firstByteTimeoutMs: undefined,
  firstTokenTimeoutMs: undefined,
  firstContentTimeoutMs: undefined,
  totalTimeoutMs: 600_000,
});

test("without limits in the catalogue, silence before the first content is bounded by what the target usually takes", () => {
  const cases: [progress: Partial<CallProgress>, hasAlternative: boolean, quietMsMax: number, overdueMs: number][] = [
    [{}, true, 1_000, 11_000],
    [{}, true, 25_000, 26_000],
    [{ hasHead: true, progressedAt: 5_000 }, true, 25_000, 31_000],
    [{ hasHead: true, progressedAt: 400_000 }, true, 25_000, 301_000],
    [{}, false, 30_000, 31_000],
    [{ streams: false }, true, 1_000, 91_000],
    [{ streams: false }, true, 120_000, 121_000],
    [{ streams: false, progressedAt: 100_000 }, true, 120_000, 221_000],
    [{ streams: false }, false, 1_000, Number.POSITIVE_INFINITY],
  ];
  for (const [progress, hasAlternative, quietMsMax, overdueMs] of cases)
    assert.equal(
      firstOverdue({ timeouts: unset, ...progress }, hasAlternative, 0, quietMsMax)[0],
      overdueMs,
      JSON.stringify([progress, hasAlternative, quietMsMax]),
    );
});
