/**
 * The rows of batches and their chunks. A chunk, or a batch that is checked or ended, belongs to
 * the process that has its lease. The number of its run fences off a process that lost it: each
 * change names the run.
 */
import { type Selectable, sql } from "kysely";
import { batchLeaseMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import type { BatchChunkRow, BatchRow } from "../database/tables.ts";
import { isInState } from "../keys/key-rows.ts";
import type { UnansweredReason } from "./format.ts";
import type { InputFault } from "./input-check.ts";
import { type BatchState, endStateOf, statesBefore } from "./state.ts";
import type { VendorBatch } from "./vendor-batch.ts";

export type Batch = Selectable<BatchRow>;
export type Chunk = Selectable<BatchChunkRow>;

export interface LineCounts {
  succeeded: number;
  errored: number;
  cancelled: number;
  expired: number;
}

const noCounts: LineCounts = { succeeded: 0, errored: 0, cancelled: 0, expired: 0 };

const leaseEnd = sql<Date>`now() + ${batchLeaseMs} * interval '1 millisecond'`;
const isFree = sql<boolean>`(lease_until is null or lease_until < now())`;

/** Takes the oldest batch in one of these states that no process works on. */
export async function claimBatch(database: Database, states: readonly BatchState[]): Promise<Batch | undefined> {
  return database
    .updateTable("batches")
    .set({ lease_until: leaseEnd, runs: sql`runs + 1` })
    .where("id", "=", (query) =>
      query
        .selectFrom("batches")
        .select("id")
        .where("ended_at", "is", null)
        .where("state", "in", states)
        .where(isFree)
        .orderBy("created_at")
        .limit(1)
        .forUpdate()
        .skipLocked(),
    )
    .returningAll()
    .executeTakeFirst();
}

/** Renews the leases of batches. */
export async function renewBatches(database: Database, batches: readonly Pick<Batch, "id" | "runs">[]): Promise<void> {
  for (const { id, runs } of batches)
    await database
      .updateTable("batches")
      .set({ lease_until: leaseEnd })
      .where("id", "=", id)
      .where("runs", "=", runs)
      .where("ended_at", "is", null)
      .execute();
}

/** Every line has a result, so the batch can be ended. */
export async function finishBatches(database: Database, now: Date): Promise<number> {
  const { numUpdatedRows } = await database
    .updateTable("batches")
    .set({ state: "finalizing", finalizing_at: now, lease_until: null })
    .where("ended_at", "is", null)
    .where("state", "in", statesBefore("finish"))
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom("batch_chunks")
            .select("place")
            .whereRef("batch_id", "=", "batches.id")
            .where("is_done", "=", false),
        ),
      ),
    )
    .executeTakeFirst();
  return Number(numUpdatedRows);
}

/**
 * Takes a chunk of lines: of the account with the fewest running chunks that has not had a turn for
 * longest, of its oldest batch, the first one. None of a paused batch.
 */
export async function claimChunk(
  database: Database,
  pausedBatches: readonly string[],
  now: Date,
): Promise<{ chunk: Chunk; batch: Batch; keyHash: string; isKeyLive: boolean } | undefined> {
  const { rows } = await sql<Chunk>`
    with running as (
      select b.account, count(*) as chunks from batch_chunks c join batches b on b.id = c.batch_id
      where b.ended_at is null and not c.is_done and c.lease_until >= now() group by b.account
    ), ranked as (
      select b.id, b.created_at, coalesce(r.chunks, 0) as chunks, max(b.claimed_at) over (partition by b.account) as turn
      from batches b left join running r on r.account = b.account
      where b.ended_at is null and b.state in (${sql.join(statesBefore("finish"))})
        and not ${JSON.stringify(pausedBatches)}::jsonb @> to_jsonb(b.id)
    ), next as (
      select c.batch_id, c.place
      from (select id from ranked order by chunks, turn nulls first, created_at, id) b
      cross join lateral (
        select batch_id, place from batch_chunks
        where batch_id = b.id and not is_done and ${isFree} and (poll_at is null or poll_at <= now())
        order by place limit 1 for update skip locked
      ) c limit 1
    ), claimed as (
      update batches set claimed_at = now() from next where id = next.batch_id
    )
    update batch_chunks c set lease_until = ${leaseEnd}, runs = runs + 1, started_at = coalesce(started_at, now())
    from next where c.batch_id = next.batch_id and c.place = next.place returning c.*`.execute(database);
  const [chunk] = rows;
  if (chunk === undefined) return undefined;
  const batch = await database
    .selectFrom("batches")
    .innerJoin("keys", "keys.id", "batches.key_id")
    .selectAll("batches")
    .innerJoin("accounts", "accounts.id", "batches.account")
    .select(["keys.hash as keyHash", isInState("live", now).as("isKeyLive")])
    .where("batches.id", "=", chunk.batch_id)
    .executeTakeFirstOrThrow();
  return { chunk, batch, keyHash: batch.keyHash, isKeyLive: batch.isKeyLive === true };
}

type ChunkRun = Pick<Chunk, "batch_id" | "place" | "runs">;
/** A run follows these changes of its batch. */
export type BatchProgress = Pick<Batch, "state" | "expires_at" | "stop_reason">;

/**
 * Renews the leases of runs. Resolves to the progress of each one's batch, in their order;
 * undefined for a run that has lost its chunk.
 */
export async function renewChunks(
  database: Database,
  runs: readonly ChunkRun[],
): Promise<(BatchProgress | undefined)[]> {
  if (runs.length === 0) return [];
  const { rows } = await sql<BatchProgress & ChunkRun>`
    update batch_chunks c set lease_until = ${leaseEnd}
    from json_to_recordset(${JSON.stringify(runs)}::json) as r(batch_id text, place int, runs int), batches b
    where c.batch_id = r.batch_id and c.place = r.place and c.runs = r.runs and not c.is_done and b.id = c.batch_id
    returning c.batch_id, c.place, c.runs, b.state, b.expires_at, b.stop_reason`.execute(database);
  return runs.map((run) => rows.find(({ batch_id, place }) => batch_id === run.batch_id && place === run.place));
}

/** Gives chunks back whose runs end early. */
export const releaseChunks = async (database: Database, runs: readonly ChunkRun[]): Promise<void> => {
  if (runs.length === 0) return;
  await sql`
    update batch_chunks c set lease_until = null
    from json_to_recordset(${JSON.stringify(runs)}::json) as r(batch_id text, place int, runs int)
    where c.batch_id = r.batch_id and c.place = r.place and c.runs = r.runs`.execute(database);
};

/** False for a run that has lost its chunk. */
export async function setVendorBatch(
  database: Database,
  { batch_id, place, runs }: ChunkRun,
  vendorBatch: VendorBatch,
): Promise<boolean> {
  const { numUpdatedRows } = await database
    .updateTable("batch_chunks")
    .set({ vendor_batch: JSON.stringify(vendorBatch) })
    .where("batch_id", "=", batch_id)
    .where("place", "=", place)
    .where("runs", "=", runs)
    .where("is_done", "=", false)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Gives a chunk back that waits for its vendor. */
export const postponeChunk = async (
  database: Database,
  { batch_id, place, runs }: ChunkRun,
  waitMs: number,
): Promise<void> => {
  await database
    .updateTable("batch_chunks")
    .set({ lease_until: null, poll_at: sql<Date>`now() + ${waitMs} * interval '1 millisecond'` })
    .where("batch_id", "=", batch_id)
    .where("place", "=", place)
    .where("runs", "=", runs)
    .execute();
};

/** Adds stored results to a chunk. False for a run that has lost it. */
export async function addSegment(
  database: Database,
  run: ChunkRun,
  segment: string,
  { succeeded, errored, cancelled, expired }: LineCounts,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update batch_chunks set segments = segments || ${JSON.stringify([segment])}::jsonb,
      succeeded = succeeded + ${succeeded}, errored = errored + ${errored},
      cancelled = cancelled + ${cancelled}, expired = expired + ${expired}
    where batch_id = ${run.batch_id} and place = ${run.place} and runs = ${run.runs} and not is_done
      and not segments @> ${JSON.stringify([segment])}::jsonb`.execute(database);
  return Number(numAffectedRows ?? 0) > 0;
}

export async function hasSegment(
  database: Database,
  { batch_id, place }: Pick<Chunk, "batch_id" | "place">,
  segment: string,
): Promise<boolean> {
  const chunk = await database
    .selectFrom("batch_chunks")
    .select("segments")
    .where("batch_id", "=", batch_id)
    .where("place", "=", place)
    .executeTakeFirst();
  return chunk?.segments.includes(segment) === true;
}

/**
 * Keeps only these segments, with so many results: the others are lost. False for a run that has
 * lost its chunk.
 */
export async function keepSegments(
  database: Database,
  { batch_id, place, runs }: ChunkRun,
  segments: readonly string[],
  results: number,
): Promise<boolean> {
  const { numAffectedRows } = await sql`
    update batch_chunks set segments = ${JSON.stringify(segments)}::jsonb,
      succeeded = least(succeeded, ${results}), errored = least(errored, greatest(0, ${results} - succeeded)),
      cancelled = 0, expired = 0
    where batch_id = ${batch_id} and place = ${place} and runs = ${runs} and not is_done`.execute(database);
  return Number(numAffectedRows ?? 0) > 0;
}

/**
 * `segments` are the results in order, `outdated` those that they replace. False for a run that has
 * lost its chunk.
 */
export async function completeChunk(
  database: Database,
  { batch_id, place, runs }: ChunkRun,
  segments: readonly string[],
  outdated: readonly string[],
): Promise<boolean> {
  const { numUpdatedRows } = await database
    .updateTable("batch_chunks")
    .set({
      ...{ is_done: true, lease_until: null },
      ...{ segments: JSON.stringify(segments), outdated: JSON.stringify(outdated) },
    })
    .where("batch_id", "=", batch_id)
    .where("place", "=", place)
    .where("runs", "=", runs)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** No further lines of the batch are executed. */
export const stopBatch = async (database: Database, id: string, reason: UnansweredReason): Promise<void> => {
  await database
    .updateTable("batches")
    .set({ stop_reason: reason })
    .where("id", "=", id)
    .where("stop_reason", "is", null)
    .execute();
};

export interface AcceptedInput {
  chunks: readonly { place: number; first_line: number; lines: number }[];
  total: number;
  tokens: bigint;
  model: string | null;
}

/**
 * Opens a batch whose input was checked. `exhausted`: its account would have more tokens in the
 * queue than `tokensMax`. `lost`: the batch was cancelled. `superseded`: another run has it.
 */
export async function acceptBatch(
  database: Database,
  { id, account, runs }: Pick<Batch, "id" | "account" | "runs">,
  { chunks, total, tokens, model }: AcceptedInput,
  { tokensMax, now }: { tokensMax: number; now: Date },
): Promise<"accepted" | "exhausted" | "lost" | "superseded"> {
  return database.transaction().execute(async (transaction) => {
    await lockAccount(transaction, account);
    const own = await transaction
      .selectFrom("batches")
      .select(["runs", "state"])
      .where("id", "=", id)
      .forUpdate()
      .executeTakeFirst();
    if (own !== undefined && own.runs !== runs) return "superseded";
    if (own === undefined || !statesBefore("accept").includes(own.state)) return "lost";
    if ((await queuedTokens(transaction, account)) + tokens > BigInt(tokensMax)) return "exhausted";
    await transaction.deleteFrom("batch_chunks").where("batch_id", "=", id).execute();
    for (let start = 0; start < chunks.length; start += 1_000)
      await transaction
        .insertInto("batch_chunks")
        .values(chunks.slice(start, start + 1_000).map((chunk) => ({ batch_id: id, ...chunk })))
        .execute();
    await transaction
      .updateTable("batches")
      .set({ state: "in_progress", started_at: now, total, tokens, model, input_run: runs, lease_until: null })
      .where("id", "=", id)
      .execute();
    return "accepted";
  });
}

/** A number of our own for the lock. */
const accountLock = 7_201_017;

/** Until the transaction ends, no other one adds to the account's batches. */
export const lockAccount = async (transaction: Database, account: string): Promise<void> => {
  await sql`select pg_advisory_xact_lock(${accountLock}, hashtext(${account}))`.execute(transaction);
};

/** The tokens of an account's batches that are not over. */
export async function queuedTokens(database: Database, account: string): Promise<bigint> {
  const { tokens } = await database
    .selectFrom("batches")
    .select(sql<bigint>`coalesce(sum(tokens), 0)::bigint`.as("tokens"))
    .where("account", "=", account)
    .where("ended_at", "is", null)
    .executeTakeFirstOrThrow();
  return BigInt(tokens);
}

export async function rejectBatch(
  database: Database,
  { id, runs }: Pick<Batch, "id" | "runs">,
  faults: readonly InputFault[],
  now: Date,
): Promise<void> {
  await database
    .updateTable("batches")
    .set({ state: "failed", ended_at: now, faults: JSON.stringify(faults), ...noCounts })
    .where("id", "=", id)
    .where("runs", "=", runs)
    .where("state", "in", statesBefore("reject"))
    .execute();
}

/** The counts of a batch's chunks. */
export async function countsOf(database: Database, id: string): Promise<LineCounts> {
  return database
    .selectFrom("batch_chunks")
    .select(
      (["succeeded", "errored", "cancelled", "expired"] as const).map((name) =>
        sql<number>`coalesce(sum(${sql.ref(name)}), 0)::int`.as(name),
      ),
    )
    .where("batch_id", "=", id)
    .executeTakeFirstOrThrow();
}

/** Ends a batch whose results are complete. False for a run that has lost it. */
export async function closeBatch(
  database: Database,
  batch: Pick<Batch, "id" | "runs" | "is_cancelled">,
  { counts, now, ...files }: { counts: LineCounts; now: Date; output_file_id?: string; error_file_id?: string },
): Promise<boolean> {
  const { numUpdatedRows } = await database
    .updateTable("batches")
    .set({
      ...files,
      ...counts,
      state: endStateOf({ isCancelled: batch.is_cancelled, expired: counts.expired }),
      ended_at: now,
      lease_until: null,
    })
    .where("id", "=", batch.id)
    .where("runs", "=", batch.runs)
    .where("state", "in", statesBefore("close"))
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}

/** Cancels a batch. One that runs ends when its running lines have. */
export async function cancelBatch(database: Database, id: string, now: Date): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    // Its input may be accepted at this moment.
    await transaction.selectFrom("batches").select("id").where("id", "=", id).forUpdate().execute();
    const changed = { is_cancelled: true, cancelling_at: now };
    await transaction
      .updateTable("batches")
      .set({ ...changed, state: "cancelling" })
      .where("id", "=", id)
      .where("state", "=", "in_progress")
      .execute();
    await transaction.updateTable("batch_chunks").set({ poll_at: null }).where("batch_id", "=", id).execute();
    await transaction
      .updateTable("batches")
      .set({ ...changed, ...noCounts, state: "cancelled", ended_at: now })
      .where("id", "=", id)
      .where("state", "=", "validating")
      .execute();
  });
}
