/** The operations on batches, for the console and the command line. */
import type { batchOperations } from "#api/batches.ts";
import type { AnswerOf, InputOf } from "#api/operation.ts";
import { unitsOf } from "#ledger/money.ts";
import { linesOf } from "#wire/lines.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { batchChecksMax, batchLineBytesMax, batchWindowMs } from "../bounds.ts";
import { recordChange, transact } from "../database/change.ts";
import { newIdOf } from "../files/file-store.ts";
import { openAiIdOf, tokenOf } from "../files/openai-files.ts";
import { isInState, keysWithin } from "../keys/key-rows.ts";
import { checkLines, tooManyTokens } from "./batch-intake.ts";
import { storedResultsOf } from "./batch-results.ts";
import { cancelBatch, queuedTokens } from "./batch-rows.ts";
import { type BatchView, createBatch, viewsOf } from "./batch-views.ts";
import type { BatchService } from "./context.ts";

type ApiBatch = AnswerOf<(typeof batchOperations)["getBatch"]>;

type BatchHandlers = Handlers<typeof batchOperations>;

/** `batches` is undefined where the gateway runs none. */
export const batchHandlers = (batches: BatchService | undefined): BatchHandlers => ({
  ...stateHandlers,
  ...inputHandlers(() => {
    if (batches !== undefined) return batches;
    throw new Fault("unavailable", "This gateway runs no batches: its operator has not set INGRESS_URL.");
  }),
});

type InputNames = "checkBatch" | "createBatch" | "downloadResults";

const stateHandlers: Omit<BatchHandlers, InputNames> = {
  async listBatches({ query }, context) {
    let listed = batchesWithin(context);
    if (query.account !== undefined) listed = listed.where("account", "=", query.account);
    const { rows, nextCursor } = await readPage(listed, query, ["created_at", "id"]);
    const views = await viewsOf(context.database, rows);
    return { body: { items: views.map((view) => apiBatchOf(view, context.now)), nextCursor } };
  },

  async getBatch({ params: { batch: id } }, context) {
    return { body: apiBatchOf(await viewOf(context, id), context.now) };
  },

  async cancelBatch({ params: { batch: id } }, context) {
    const before = await viewOf(context, id);
    if (before.ended_at !== null || before.state === "finalizing")
      throw new Fault("conflict", `The batch is ${before.state} and cannot be cancelled any more.`);
    await cancelBatch(context.database, id, context.now);
    const after = apiBatchOf(await viewOf(context, id), context.now);
    await transact(context, "cancelBatch", (inside) =>
      inside.record({
        account: before.account,
        subject: `batch ${id}`,
        before: { state: before.state },
        after: { state: after.state },
      }),
    );
    return { body: after };
  },
};

function inputHandlers(service: () => BatchService): Pick<BatchHandlers, InputNames> {
  let checks = 0;
  return {
    async checkBatch({ body }, context) {
      const batches = service();
      const { key, file } = await inputOf(batches, body, context);
      if (checks >= batchChecksMax)
        throw new Fault("too_many_requests", "Other inputs are being checked; try again soon.", {
          retryAfterSeconds: 5,
        });
      checks++;
      try {
        const input = await batches.files.open(key.account, file.id);
        if (input === undefined) throw notFound("file", body.file);
        const batch = { dialect: "openai", endpoint: body.endpoint, key_id: key.id } as const;
        const lines = linesOf(input.content, batchLineBytesMax);
        const check = await checkLines(batches, batch, lines, async () => undefined);
        const { tokensMax } = batches.bounds;
        const isTooLarge = (await queuedTokens(context.database, key.account)) + BigInt(check.tokens) > tokensMax;
        const faults = check.faults.length === 0 && isTooLarge ? [tooManyTokens(tokensMax)] : check.faults;
        return { body: { requests: check.lines, bytes: check.bytes, inputTokens: check.tokens, faults } };
      } finally {
        checks--;
      }
    },

    async createBatch({ body }, context) {
      const batches = service();
      const { key, file } = await inputOf(batches, body, context);
      const id = `batch_${newIdOf()}`;
      const refusal = await createBatch(batches, {
        ...{ id, account: key.account, key_id: key.id, dialect: "openai", endpoint: body.endpoint },
        ...{ model: null, name: null, state: "validating", input_file_id: file.id, metadata: null },
        output_expires_seconds: null,
        expires_at: new Date(context.now.getTime() + batchWindowMs),
      });
      if (refusal !== undefined) {
        const { code, message, retryAfterSeconds } = refusal;
        const kind = code === "rate_limited" ? "too_many_requests" : "conflict";
        throw new Fault(kind, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
      }
      const after = apiBatchOf(await viewOf(context, id), context.now);
      await recordChange(context, "createBatch", { account: key.account, subject: `batch ${id}`, after });
      batches.wake();
      return { body: after };
    },

    async downloadResults({ params: { batch: id }, query: { kind } }, context) {
      const batches = service();
      const view = await viewOf(context, id);
      if (view.ended_at === null)
        throw new Fault("conflict", "The batch is not over; its results are read afterwards.");
      await recordChange(context, "downloadResults", { account: view.account, subject: `batch ${id}` });
      return { body: storedResultsOf(batches, view, kind), filename: `${id}${kind ? `_${kind}` : ""}.jsonl` };
    },
  };
}

/** Throws a Fault for a key that cannot run a batch, and for a file that is no input of one. */
async function inputOf(
  batches: BatchService,
  { key: keyId, file: fileId }: InputOf<(typeof batchOperations)["createBatch"]>["body"],
  { database, scope, now }: Context,
) {
  const key = await keysWithin(database, scope)
    .where("keys.id", "=", keyId)
    .where(isInState("live", now))
    .executeTakeFirst();
  if (key === undefined) throw notFound("live key", keyId);
  const file = await batches.findFile(key.account, tokenOf(fileId));
  if (file === undefined) throw notFound("file", fileId);
  if (file.purpose !== "batch")
    throw new Fault("invalid", "The file must have been uploaded with the purpose `batch`.", { field: "file" });
  return { key, file };
}

const batchesWithin = ({ database, scope }: Context) =>
  database.selectFrom("batches").selectAll().where(within("account", scope)).where("state", "!=", "receiving");

/** Throws a Fault for a batch of another account. */
export async function viewOf(context: Context, id: string): Promise<BatchView> {
  const row = await batchesWithin(context).where("id", "=", id).executeTakeFirst();
  const [view] = row === undefined ? [] : await viewsOf(context.database, [row]);
  if (view === undefined) throw notFound("batch", id);
  return view;
}

function apiBatchOf(view: BatchView, now: Date): ApiBatch {
  const done = view.succeeded + view.errored + view.cancelled + view.expired;
  const seconds = view.started_at && ((view.ended_at ?? now).getTime() - view.started_at.getTime()) / 1_000;
  const rate = seconds === null || seconds <= 0 ? null : done / seconds;
  const leftMs = view.ended_at !== null || !rate ? null : ((view.total - done) / rate) * 1_000;
  return {
    id: view.id,
    account: view.account,
    keyId: view.key_id,
    api: view.dialect,
    endpoint: view.endpoint,
    model: view.model,
    state: view.state,
    stopReason: view.stop_reason,
    createdAt: view.created_at.toISOString(),
    startedAt: view.started_at?.toISOString() ?? null,
    endedAt: view.ended_at?.toISOString() ?? null,
    expiresAt: view.expires_at.toISOString(),
    total: view.total,
    running: view.running,
    succeeded: view.succeeded,
    errored: view.errored,
    cancelled: view.cancelled,
    expired: view.expired,
    ratePerSecond: rate,
    expectedEndAt: leftMs === null ? null : new Date(now.getTime() + Math.min(leftMs, farMs)).toISOString(),
    inputTokens: view.usage.inputTokens,
    outputTokens: view.usage.outputTokens,
    cost: unitsOf(view.usage.cost),
    isCostPartial: view.usage.isPartial,
    isOver: view.ended_at !== null,
    faults: view.faults,
    inputFile: fileIdOf(view.input_file_id),
    outputFile: fileIdOf(view.output_file_id),
    errorFile: fileIdOf(view.error_file_id),
  };
}

const fileIdOf = (id: string | null): string | null => id && openAiIdOf({ id });

/** No end is expected later than so long from now. */
const farMs = 30 * 86_400_000;
