/** Operations on batches of requests. */
import Type from "typebox";
import {
  flag,
  id,
  integer,
  listOf,
  money,
  object,
  oneOf,
  optional,
  orNull,
  pageOf,
  pageQuery,
  strictObject,
  text,
  time,
} from "./common.ts";
import type { Operation } from "./operation.ts";

/** The states of a batch, in their order. */
export const batchStates = [
  "receiving",
  "validating",
  "failed",
  "in_progress",
  "cancelling",
  "finalizing",
  "completed",
  "expired",
  "cancelled",
] as const;

const count = (description: string) => Type.Integer({ minimum: 0, description });

const batch = object({
  id: id("The id of the batch, as the API of its vendor names it."),
  account: id("The account that created it."),
  keyId: id("The key that created it, with which its requests run."),
  api: oneOf(["openai", "anthropic", "gemini"] as const, "The API that created it."),
  endpoint: text("The path of its requests."),
  model: orNull(text("Null for several models, and before its input was checked.")),
  state: oneOf(batchStates),
  stopReason: orNull(text("Why no further requests are executed: `budget_exhausted` or `invalid_key`.")),
  createdAt: time("When it was created."),
  startedAt: orNull(time("When its input was checked.")),
  endedAt: orNull(time("When it was over.")),
  expiresAt: time("Requests that have not begun by then are not executed."),
  total: count("Its requests; 0 until its input was checked."),
  succeeded: count("Requests with a successful answer."),
  errored: count("Requests that failed."),
  cancelled: count("Requests that were not executed because it was cancelled."),
  expired: count("Requests that were not executed in time."),
  ratePerSecond: orNull(Type.Number({ minimum: 0, description: "Requests with a result per second since its start." })),
  expectedEndAt: orNull(time("When it will be over at this rate.")),
  inputTokens: count("By the ledger, which may be some seconds behind."),
  outputTokens: count("By the ledger."),
  cost: money("What the account pays so far, by the ledger."),
  isOver: flag("Whether it has ended."),
  faults: listOf(
    object({
      line: orNull(integer("Counts from 1; null for the whole input.")),
      code: text(),
      message: text(),
      param: orNull(text("The field at fault.")),
    }),
    "Why its input was refused.",
  ),
});

const params = object({ batch: id("The id of a batch.") });

export const batchOperations = {
  listBatches: {
    method: "GET",
    path: "/batches",
    summary: "Lists batches, newest first.",
    access: "reader",
    query: strictObject({ ...pageQuery, account: optional(id("Only those of this account.")) }),
    answer: pageOf(batch),
  },
  getBatch: {
    method: "GET",
    path: "/batches/:batch",
    summary: "Reads a batch.",
    access: "reader",
    params,
    answer: batch,
  },
  cancelBatch: {
    method: "POST",
    path: "/batches/:batch/cancel",
    summary: "Cancels a batch. Requests that run are finished; the others are not executed.",
    access: "member",
    params,
    answer: batch,
  },
} as const satisfies Record<string, Operation>;
