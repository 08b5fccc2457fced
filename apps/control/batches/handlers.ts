/** The operations on batches, for the console and the command line. */
import type { batchOperations } from "#api/batches.ts";
import type { AnswerOf } from "#api/operation.ts";
import { unitsOf } from "#ledger/money.ts";
import { within } from "../api/actor.ts";
import { Fault, notFound } from "../api/faults.ts";
import type { Context, Handlers } from "../api/handlers.ts";
import { readPage } from "../api/pages.ts";
import { transact } from "../database/change.ts";
import { cancelBatch } from "./batch-rows.ts";
import { type BatchView, viewsOf } from "./batch-views.ts";

type ApiBatch = AnswerOf<(typeof batchOperations)["getBatch"]>;

export const batchHandlers: Handlers<typeof batchOperations> = {
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

const batchesWithin = ({ database, scope }: Context) =>
  database.selectFrom("batches").selectAll().where(within("account", scope)).where("state", "!=", "receiving");

async function viewOf(context: Context, id: string): Promise<BatchView> {
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
    succeeded: view.succeeded,
    errored: view.errored,
    cancelled: view.cancelled,
    expired: view.expired,
    ratePerSecond: rate,
    expectedEndAt: leftMs === null ? null : new Date(now.getTime() + Math.min(leftMs, farMs)).toISOString(),
    inputTokens: view.usage.inputTokens,
    outputTokens: view.usage.outputTokens,
    cost: unitsOf(view.usage.cost),
    isOver: view.ended_at !== null,
    faults: view.faults,
  };
}

/** No end is expected later than so long from now. */
const farMs = 30 * 86_400_000;
