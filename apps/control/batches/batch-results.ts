/** The results of a batch in the order of its lines, and its end. */
import { createHash } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { batchesSweptTogether, batchResultsDays, batchUsageEveryMs, chunkRowsMax, receivingMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { type Batch, closeBatch, countsOf } from "./batch-rows.ts";
import {
  decodeResults,
  type LineResult,
  lineIdOf,
  objectNames,
  objectsOf,
  type ResultKind,
  resultKinds,
} from "./chunk-format.ts";
import type { BatchContext } from "./context.ts";
import { type BatchDialect, batchFormats } from "./formats.ts";

/**
 * Lines, each with its end. Of both kinds without `kind`. Objects are read one by one; a result
 * that the object store has lost is an error. Requests that still run have none.
 */
export async function* resultsOf(
  { database, objects }: Pick<BatchContext, "database" | "objects">,
  { id, account, dialect }: Pick<Batch, "id" | "account" | "dialect">,
  kind?: ResultKind,
): AsyncGenerator<Buffer> {
  for await (const chunk of chunksOf(database, id)) {
    const places = new Set<number>();
    for (const segment of chunk.segments) {
      const results = await objects.read(account, objectNames.segment(id, chunk.place, segment));
      if (results === undefined) continue;
      const lines = [...decodeResults(results)];
      for (const { place } of lines) places.add(place);
      yield* bytesOf(lines, kind);
    }
    if (!chunk.is_done) continue;
    const lost = Array.from({ length: chunk.lines }, (_, place) => place).filter((place) => !places.has(place));
    const lines = lost.map((place) => lostResult(dialect, place, lineIdOf(id, chunk.first_line + place)));
    yield* bytesOf(lines, kind);
  }
}

function* bytesOf(results: readonly LineResult[], kind: ResultKind | undefined): Generator<Buffer> {
  const lines = results.filter((result) => kind === undefined || result.kind === kind);
  if (lines.length > 0) yield Buffer.concat(lines.flatMap(({ bytes }) => [bytes, lineEnd]));
}

function lostResult(dialect: BatchDialect, place: number, id: string): LineResult {
  const { hasErrorFile, write } = batchFormats[dialect];
  const bytes = write({ customId: undefined }, id, { kind: "unanswered", reason: "lost" });
  return { place, kind: hasErrorFile ? "error" : "output", bytes };
}

const lineEnd = Buffer.from("\n");

/** In their order. */
async function* chunksOf(database: Database, id: string) {
  for (let last = -1; ; ) {
    const rows = await database
      .selectFrom("batch_chunks")
      .select(["place", "first_line", "lines", "segments", "outdated", "is_done"])
      .where("batch_id", "=", id)
      .where("place", ">", last)
      .orderBy("place")
      .limit(chunkRowsMax)
      .execute();
    yield* rows;
    last = rows.at(-1)?.place ?? last;
    if (rows.length < chunkRowsMax) return;
  }
}

/** Whether the results of a batch become files of their own. */
export const hasFiles = ({ dialect, input_file_id }: Pick<Batch, "dialect" | "input_file_id">): boolean =>
  batchFormats[dialect].hasErrorFile || input_file_id !== null;

/** Ends a batch whose lines all have results. Each run creates files of its own. */
export async function endBatch(context: BatchContext, batch: Batch): Promise<void> {
  const { database, files, clock } = context;
  const counts = await countsOf(database, batch.id);
  const now = new Date(clock.epoch());
  const { hasErrorFile } = batchFormats[batch.dialect];
  const seconds = batch.output_expires_seconds ?? batchResultsDays * 86_400;
  const create = async (kind: ResultKind): Promise<string> => {
    const fileId = resultFileId(batch, kind);
    await files.create(
      {
        id: fileId,
        account: batch.account,
        keyId: batch.key_id,
        filename: `${batch.id}_${kind}.jsonl`,
        expiresAt: new Date(now.getTime() + seconds * 1_000),
      },
      resultsOf(context, batch, hasErrorFile ? kind : undefined),
    );
    return fileId;
  };
  // The other APIs' batches have no usage.
  if (batch.dialect === "openai") await usageIsThere(context, batch.id, counts.succeeded);
  const failed = counts.errored + counts.cancelled + counts.expired;
  const hasOutput = hasErrorFile ? counts.succeeded > 0 : counts.succeeded + failed > 0;
  const isClosed = await closeBatch(database, batch, {
    counts,
    now,
    ...(hasFiles(batch) && hasOutput && { output_file_id: await create("output") }),
    ...(hasErrorFile && failed > 0 && { error_file_id: await create("error") }),
  });
  if (!hasFiles(batch)) return;
  const otherRuns = Array.from({ length: batch.runs }, (_, run) => run);
  for (const runs of isClosed ? otherRuns : [batch.runs])
    for (const kind of resultKinds) await files.remove(batch.account, resultFileId({ ...batch, runs }, kind));
  if (isClosed) await deleteChunks(context, batch);
}

/**
 * Waits until the ledger has a record of each answer, or for as long as the bound says: callers
 * read the usage once, when the batch has ended.
 */
async function usageIsThere({ database, bounds, clock }: BatchContext, id: string, answers: number): Promise<void> {
  const until = clock.now() + bounds.usageWaitMs;
  const query = database
    .selectFrom("usage")
    .select(({ fn }) => fn.countAll<string>().as("records"))
    .where("batch_id", "=", id);
  while (clock.now() < until) {
    if (Number((await query.executeTakeFirstOrThrow()).records) >= answers) return;
    await delay(batchUsageEveryMs);
  }
}

/**
 * The results of a batch that is over, from its files where it has some. A file that its account
 * has deleted has none.
 */
export async function* storedResultsOf(
  context: Pick<BatchContext, "database" | "objects" | "files">,
  batch: Pick<Batch, "id" | "account" | "dialect" | "input_file_id" | "output_file_id" | "error_file_id">,
  kind?: ResultKind,
): AsyncGenerator<Buffer> {
  if (!hasFiles(batch)) return yield* resultsOf(context, batch, kind);
  const ids = { output: batch.output_file_id, error: batch.error_file_id };
  for (const id of kind === undefined ? [ids.output, ids.error] : [ids[kind]]) {
    const file = id === null ? undefined : await context.files.open(batch.account, id);
    if (file !== undefined) yield* file.content;
  }
}

const resultFileId = ({ id, runs }: Pick<Batch, "id" | "runs">, kind: ResultKind): string =>
  createHash("sha256").update(`${id} ${runs} ${kind}`).digest("hex").slice(0, 24);

/** Deletes the lines and the results of a batch, also inputs that killed runs have left. */
async function deleteChunks(
  { database, objects }: Pick<BatchContext, "database" | "objects">,
  batch: Pick<Batch, "id" | "account" | "input_run">,
): Promise<void> {
  const { id, account } = batch;
  for await (const { place, segments, outdated } of chunksOf(database, id))
    await objects.delete(account, objectsOf(batch, { place, segments: [...segments, ...outdated] }));
  await deleteInputs({ objects }, batch, batch.input_run);
  await database.deleteFrom("batch_chunks").where("batch_id", "=", id).execute();
}

/** Nothing is left of the batch but its files. */
export async function deleteBatch(
  context: Pick<BatchContext, "database" | "objects">,
  batch: Pick<Batch, "id" | "account" | "input_run" | "runs">,
): Promise<void> {
  await deleteChunks(context, batch);
  if (batch.input_run === 0) await deleteInputs(context, batch, batch.runs);
  await context.database.deleteFrom("batches").where("id", "=", batch.id).execute();
}

/** Deletes a batch whose requests have not been accepted. */
export async function deleteRefusedBatch(
  context: Pick<BatchContext, "database" | "objects">,
  id: string,
): Promise<void> {
  const batch = await context.database
    .selectFrom("batches")
    .selectAll()
    .where("id", "=", id)
    .where("state", "=", "receiving")
    .executeTakeFirst();
  if (batch !== undefined) await deleteBatch(context, batch);
}

/**
 * Deletes batches whose results are no longer stored, and those whose arrival broke off; and what a
 * killed process has left of batches that are over.
 */
export async function sweepBatches(context: BatchContext): Promise<void> {
  const { database, clock } = context;
  const before = (ms: number) => new Date(clock.epoch() - ms);
  const outdated = await database
    .selectFrom("batches")
    .select(["id", "account", "input_run", "runs"])
    .where((where) =>
      where.or([
        where("ended_at", "<", before(batchResultsDays * 86_400_000)),
        where.and([where("state", "=", "receiving"), where("created_at", "<", before(receivingMs))]),
      ]),
    )
    .limit(batchesSweptTogether)
    .execute();
  for (const batch of outdated) await deleteBatch(context, batch);
  for (const batch of await unfinishedBatches(database)) await deleteChunks(context, batch);
}

/** Batches whose results are in files, and still in chunks too. */
function unfinishedBatches(database: Database) {
  const withFiles = Object.entries(batchFormats).flatMap(([dialect, { hasErrorFile }]) =>
    hasErrorFile ? [dialect as BatchDialect] : [],
  );
  return database
    .selectFrom("batches")
    .select(["id", "account", "input_run"])
    .where("ended_at", "is not", null)
    .where((where) => where.or([where("dialect", "in", withFiles), where("input_file_id", "is not", null)]))
    .where(({ exists, selectFrom }) =>
      exists(selectFrom("batch_chunks").select("place").whereRef("batch_id", "=", "batches.id")),
    )
    .limit(batchesSweptTogether)
    .execute();
}

/**
 * Deletes the inputs that the runs of an intake up to this one have stored. The last objects go
 * first, so that an interrupted deletion can be repeated.
 */
export async function deleteInputs(
  { objects }: Pick<BatchContext, "objects">,
  { id, account }: Pick<Batch, "id" | "account">,
  lastRun: number,
): Promise<void> {
  for (let run = 0; run <= lastRun; run++) {
    const names: string[] = [];
    const nextName = () => objectNames.input(id, run, names.length);
    while ((await objects.read(account, nextName())) !== undefined) names.push(nextName());
    await objects.delete(account, names.reverse());
  }
}
