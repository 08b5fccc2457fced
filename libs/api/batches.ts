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
import { batchEndpoints } from "./vocabulary.ts";

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

const faults = listOf(
  object({
    line: orNull(integer("Counts from 1; null for the whole input.")),
    code: text(),
    message: text(),
    param: orNull(text("The field at fault.")),
  }),
  "Why its input is refused.",
);

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
  running: count("Requests without a result in the chunks that processes work on."),
  succeeded: count("Requests with a successful answer."),
  errored: count("Requests that failed."),
  cancelled: count("Requests that were not executed because it was cancelled."),
  expired: count("Requests that were not executed in time."),
  ratePerSecond: orNull(Type.Number({ minimum: 0, description: "Requests with a result per second since its start." })),
  expectedEndAt: orNull(time("When it will be over at this rate.")),
  inputTokens: count("By the ledger, which may be some seconds behind."),
  outputTokens: count("By the ledger."),
  cost: money("What the account pays so far, by the ledger."),
  isCostPartial: flag("Whether the cost leaves out units without a price, so that it is at least `cost`."),
  isOver: flag("Whether it has ended."),
  faults,
  inputFile: orNull(id("The file of its requests; null if they were in its body.")),
  outputFile: orNull(id("The file with its results; null where they are not in a file.")),
  errorFile: orNull(id("The file with its failed requests.")),
});

const params = object({ batch: id("The id of a batch.") });

const input = strictObject({
  key: id("The id of a live key, with which its requests run."),
  file: id("The id of a file of the key's account with the purpose `batch`: OpenAI's JSON lines."),
  endpoint: oneOf(batchEndpoints, "The path of its requests."),
});

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
  checkBatch: {
    method: "POST",
    path: "/batches/check",
    summary: "Checks the input of a batch. Nothing is created, and nothing runs.",
    access: "member",
    body: input,
    answer: object({
      requests: count("The requests that were read; not all where there are too many faults."),
      bytes: count("Their bytes."),
      inputTokens: count("The estimate that counts against the account's limit of enqueued tokens."),
      faults,
    }),
  },
  createBatch: {
    method: "POST",
    path: "/batches",
    summary: "Creates a batch of a file. Its whole input is checked before any of it runs.",
    access: "member",
    body: input,
    answer: batch,
    status: 201,
  },
  downloadResults: {
    method: "GET",
    path: "/batches/:batch/results",
    summary: "Reads the results of a batch that is over, as JSON lines in the order of its requests.",
    access: "member",
    params,
    query: strictObject({
      kind: optional(
        oneOf(["output", "error"], "Only the answers, or only the failed requests; all of them by default."),
      ),
    }),
    mediaType: "application/jsonl",
  },
} as const satisfies Record<string, Operation>;
