/** Batches as callers and the console see them: with the counts of their lines, and their usage. */
import { sql } from "kysely";
import type { Failure } from "#dialects/errors.ts";
import type { Database } from "../database/database.ts";
import { isPartialSql } from "../ledger/columns.ts";
import { hasFiles } from "./batch-results.ts";
import type { Batch, LineCounts } from "./batch-rows.ts";
import { lockAccount } from "./batch-rows.ts";
import type { BatchContext } from "./context.ts";
import type { BatchDialect } from "./formats.ts";

export interface BatchView extends Omit<Batch, keyof LineCounts>, LineCounts {
  /** Requests without a result in the chunks that processes work on. */
  running: number;
  usage: BatchUsage;
}

/** By the ledger, which may be some seconds behind. `cost` is in nano-units. */
interface BatchUsage {
  requests: number;
  inputTokens: number;
  cachedInputTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  cost: bigint;
  /** The cost leaves out units without a price. */
  isPartial: boolean;
}

const noUsage: BatchUsage = {
  requests: 0,
  inputTokens: 0,
  cachedInputTokens: 0,
  outputTokens: 0,
  reasoningTokens: 0,
  cost: 0n,
  isPartial: false,
};

export type NewBatch = Pick<
  Batch,
  "id" | "account" | "key_id" | "dialect" | "endpoint" | "model" | "name" | "state" | "input_file_id" | "expires_at"
> & { metadata: Record<string, string> | null; output_expires_seconds: number | null };

/** Resolves to why the account may have no further batch; undefined if the batch was created. */
export async function createBatch(
  { database, bounds, clock, files }: BatchContext,
  batch: NewBatch,
): Promise<Failure | undefined> {
  if (hasFiles(batch) && (await files.isFull(batch.account))) return noFileSpace;
  return database.transaction().execute(async (transaction) => {
    await lockAccount(transaction, batch.account);
    const { open } = await transaction
      .selectFrom("batches")
      .select(({ fn }) => fn.countAll<bigint>().as("open"))
      .where("account", "=", batch.account)
      .where("ended_at", "is", null)
      .executeTakeFirstOrThrow();
    if (Number(open) >= bounds.batchesMax) return tooManyBatches(bounds.batchesMax);
    await transaction
      .insertInto("batches")
      .values({
        ...batch,
        metadata: batch.metadata === null ? null : JSON.stringify(batch.metadata),
        output_file_id: null,
        error_file_id: null,
        stop_reason: null,
        succeeded: null,
        errored: null,
        cancelled: null,
        expired: null,
        created_at: new Date(clock.epoch()),
        started_at: null,
        cancelling_at: null,
        finalizing_at: null,
        ended_at: null,
        lease_until: null,
      })
      .execute();
    return undefined;
  });
}

const noFileSpace: Failure = {
  code: "invalid_request",
  message: "The account's files use all of their quota, so there is no space for results; delete some of them.",
};

const tooManyBatches = (batchesMax: number): Failure => ({
  code: "rate_limited",
  message: `The account has ${batchesMax} batches that are not over, as many as it may. Try again when one of them is.`,
  retryAfterSeconds: 60,
});

/** The batch of an account; undefined for another account's or API's. */
export async function findBatch(
  database: Database,
  { account, dialect, id }: { account: string; dialect: BatchDialect; id: string },
): Promise<BatchView | undefined> {
  const batch = await database
    .selectFrom("batches")
    .selectAll()
    .where("account", "=", account)
    .where("dialect", "=", dialect)
    .where("id", "=", id)
    .executeTakeFirst();
  return batch && (await viewsOf(database, [batch]))[0];
}

export interface BatchPage {
  account: string;
  /** All APIs' if undefined. */
  dialect?: BatchDialect | undefined;
  limit: number;
  /** Batches that are older than this one. */
  after?: Pick<Batch, "id" | "created_at"> | undefined;
  /** Batches that are newer than this one; the oldest of them. */
  before?: Pick<Batch, "id" | "created_at"> | undefined;
}

/** The newest first. */
export async function listBatches(
  database: Database,
  { account, dialect, limit, after, before }: BatchPage,
): Promise<{ batches: BatchView[]; hasMore: boolean }> {
  let query = database
    .selectFrom("batches")
    .selectAll()
    .where("account", "=", account)
    .where("state", "!=", "receiving")
    .limit(limit + 1);
  if (dialect !== undefined) query = query.where("dialect", "=", dialect);
  const mark = after ?? before;
  if (mark !== undefined)
    query = query.where(
      sql<boolean>`(created_at, id) ${sql.raw(after === undefined ? ">" : "<")} (${mark.created_at}, ${mark.id})`,
    );
  const order = after === undefined && before !== undefined ? "asc" : "desc";
  const rows = await query.orderBy("created_at", order).orderBy("id", order).execute();
  const page = rows.slice(0, limit);
  if (order === "asc") page.reverse();
  return { batches: await viewsOf(database, page), hasMore: rows.length > limit };
}

export async function viewsOf(database: Database, batches: readonly Batch[]): Promise<BatchView[]> {
  if (batches.length === 0) return [];
  const ids = batches.map(({ id }) => id);
  const counted = await database
    .selectFrom("batch_chunks")
    .select([
      "batch_id",
      ...(["succeeded", "errored", "cancelled", "expired"] as const).map((name) =>
        sql<number>`sum(${sql.ref(name)})::int`.as(name),
      ),
      sql<number>`coalesce(sum(lines - succeeded - errored - cancelled - expired)
        filter (where not is_done and (lease_until >= now() or vendor_batch is not null)), 0)::int`.as("running"),
    ])
    .where("batch_id", "in", ids)
    .groupBy("batch_id")
    .execute();
  const counts = new Map(counted.map((row) => [row.batch_id, row]));
  const usages = await usageOf(database, ids);
  return batches.map((batch) => {
    const { succeeded = 0, errored = 0, cancelled = 0, expired = 0, running = 0 } = counts.get(batch.id) ?? {};
    return {
      ...batch,
      running,
      succeeded: batch.succeeded ?? succeeded,
      errored: batch.errored ?? errored,
      cancelled: batch.cancelled ?? cancelled,
      expired: batch.expired ?? expired,
      usage: usages.get(batch.id) ?? noUsage,
    };
  });
}

async function usageOf(database: Database, ids: readonly string[]): Promise<Map<string, BatchUsage>> {
  const rows = await database
    .selectFrom("usage")
    .select([
      "batch_id",
      sql<number>`count(*)::int`.as("requests"),
      sql<string>`sum(input_tokens)::text`.as("inputTokens"),
      sql<string>`sum(cached_input_tokens)::text`.as("cachedInputTokens"),
      sql<string>`sum(output_tokens)::text`.as("outputTokens"),
      sql<string>`sum(reasoning_tokens)::text`.as("reasoningTokens"),
      sql<string>`sum(cost)::text`.as("cost"),
      sql<boolean>`bool_or(${sql.raw(isPartialSql)})`.as("isPartial"),
    ])
    .where("batch_id", "in", ids)
    .groupBy("batch_id")
    .execute();
  return new Map(
    rows.map(({ batch_id, requests, cost, isPartial, ...tokens }) => [
      batch_id ?? "",
      {
        requests,
        inputTokens: Number(tokens.inputTokens),
        cachedInputTokens: Number(tokens.cachedInputTokens),
        outputTokens: Number(tokens.outputTokens),
        reasoningTokens: Number(tokens.reasoningTokens),
        cost: BigInt(cost),
        isPartial,
      },
    ]),
  );
}
