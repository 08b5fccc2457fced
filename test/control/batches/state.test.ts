import assert from "node:assert/strict";
import { test } from "node:test";
import { batchStates } from "#api/batches.ts";
import { endStateOf, finalStates, stateAfter, statesBefore } from "../../../apps/control/batches/state.ts";

const events = ["accept", "reject", "cancel", "finish", "close"] as const;

/** Each state with the events that change it, and the next states. */
const transitions = {
  receiving: { accept: "in_progress", reject: "failed" },
  validating: { accept: "in_progress", reject: "failed", cancel: "cancelled" },
  failed: {},
  in_progress: { cancel: "cancelling", finish: "finalizing" },
  cancelling: { finish: "finalizing" },
  finalizing: { close: "completed" },
  completed: {},
  expired: {},
  cancelled: {},
} as const;

test("every event in every state", () => {
  for (const state of batchStates)
    for (const event of events) {
      const next = (transitions[state] as Record<string, string>)[event];
      assert.equal(stateAfter(state, event), next, `${event} in ${state}`);
      assert.equal(statesBefore(event).includes(state), next !== undefined);
    }
});

test("nothing leaves a final state, and every other state leads to one", () => {
  assert.deepEqual(finalStates, ["failed", "completed", "expired", "cancelled"]);
});

test("a cancelled batch is cancelled even if its window ended as well", () => {
  assert.equal(endStateOf({ isCancelled: true, expired: 1 }), "cancelled");
  assert.equal(endStateOf({ isCancelled: false, expired: 1 }), "expired");
  assert.equal(endStateOf({ isCancelled: false, expired: 0 }), "completed");
});
