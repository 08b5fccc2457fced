import assert from "node:assert/strict";
import { test } from "node:test";
import { type CallProgress, overdueOf } from "../../../apps/worker/attempt/timeouts.ts";

const timeouts = {
  connectTimeoutMs: 1,
  firstByteTimeoutMs: 10,
  firstTokenTimeoutMs: 20,
  firstContentTimeoutMs: 50,
  betweenTokensTimeoutMs: 30,
  totalTimeoutMs: 200,
};

/** When a call that stops at this point is overdue, and why; `hasAlternative` and the first call's start are given. */
function firstOverdue(progress: Partial<CallProgress>, hasAlternative = false, firstCallAt = 0): [number, string] {
  const call = {
    timeouts,
    streams: true,
    isSession: false,
    startedAt: 0,
    progressedAt: 0,
    hasHead: false,
    hasContent: false,
    ...progress,
  };
  for (let now = 0; now < 1_000; now++) {
    const overdue = overdueOf(call, firstCallAt, hasAlternative, now);
    if (overdue !== undefined) return [now, overdue];
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
  const progress = { startedAt: 190, progressedAt: 190, hasHead: true, hasContent: true };
  assert.deepEqual(firstOverdue(progress, true, 0), [201, "did not complete its answer in time"]);
});
