/**
 * How the states of a batch follow each other. A transition that is not in the table does not
 * happen, whatever its order with others.
 */

import { batchStates } from "#api/batches.ts";

export type BatchState = (typeof batchStates)[number];

/** `accept`: the input is checked and stored. `finish`: every line has a result. */
export type BatchEvent = "receive" | "accept" | "reject" | "cancel" | "finish" | "close";

const transitions: Record<BatchState, Partial<Record<BatchEvent, BatchState>>> = {
  receiving: { accept: "in_progress", reject: "failed" },
  validating: { accept: "in_progress", reject: "failed", cancel: "cancelled" },
  in_progress: { cancel: "cancelling", finish: "finalizing" },
  cancelling: { finish: "finalizing" },
  finalizing: { close: "completed" },
  failed: {},
  completed: {},
  expired: {},
  cancelled: {},
};

/** The state after an event; undefined if the event changes nothing in this state. */
export const stateAfter = (state: BatchState, event: BatchEvent): BatchState | undefined => transitions[state][event];

/** The states in which an event has an effect. */
export const statesBefore = (event: BatchEvent): BatchState[] =>
  batchStates.filter((state) => transitions[state][event] !== undefined);

/** The states of a batch that is over. */
export const finalStates: readonly BatchState[] = batchStates.filter(
  (state) => Object.keys(transitions[state]).length === 0,
);

/** How a batch ends whose every line has a result. */
export const endStateOf = ({ isCancelled, expired }: { isCancelled: boolean; expired: number }): BatchState =>
  isCancelled ? "cancelled" : expired > 0 ? "expired" : "completed";
