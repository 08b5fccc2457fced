/** The results of a batch in the order of its lines, and its end. */
import { createHash } from "node:crypto";
import { batchesSweptTogether, batchResultsDays, chunkRowsMax, receivingMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { type Batch, closeBatch, countsOf } from "./batch-rows.ts";
import { decodeResults, objectNames, type ResultKind } from "./chunk-format.ts";
import type { BatchContext } from "./context.ts";
import { batchFormats } from "./formats.ts";

/** Lines, each with its end. Of both kinds without `kind`. Objects are read one by one. */
export async function* resultsOf(
  { database, objects }: Pick<BatchContext, "database" | "objects">,
  { id, account }: Pick<Batch, "id" | "account">,
  kind?: ResultKind,
): AsyncGenerator<Buffer> {
  for await (const { place, segments } of chunksOf(database, id))
    for (const segment of segments) {
      const results = await objects.read(account, objectNames.segment(id, place, segment));
      if (results === undefined) throw new Error("results of a batch are missing");
      const lines = [...decodeResults(results)].filter((result) => kind === undefined || result.kind === kind);
      if (lines.length > 0) yield Buffer.concat(lines.flatMap(({ bytes }) => [bytes, lineEnd]));
    }
}

const lineEnd = Buffer.from("\n");

/** In their order. */
async function* chunksOf(database: Database, id: string) {
  for (let last = -1; ; ) {
    const rows = await database
      .selectFrom("batch_chunks")
      .select(["place", "segments"])
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
const hasFiles = ({ dialect, input_file_id }: Pick<Batch, "dialect" | "input_file_id">): boolean =>
  batchFormats[dialect].hasErrorFile || input_file_id !== null;

/** Ends a batch whose lines all have results. A repeated end creates the same files. */
export async function endBatch(context: BatchContext, batch: Batch): Promise<void> {
  const { database, files, clock } = context;
  const counts = await countsOf(database, batch.id);
  const now = new Date(clock.epoch());
  const { hasErrorFile } = batchFormats[batch.dialect];
  const seconds = batch.output_expires_seconds ?? batchResultsDays * 86_400;
  const create = async (kind: ResultKind): Promise<string> => {
    const fileId = resultFileId(batch.id, kind);
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
  const failed = counts.errored + counts.cancelled + counts.expired;
  const hasOutput = hasErrorFile ? counts.succeeded > 0 : counts.succeeded + failed > 0;
  await closeBatch(database, batch, {
    counts,
    now,
    ...(hasFiles(batch) && hasOutput && { output_file_id: await create("output") }),
    ...(hasErrorFile && failed > 0 && { error_file_id: await create("error") }),
  });
  if (hasFiles(batch)) await deleteChunks(context, batch);
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

const resultFileId = (batch: string, kind: ResultKind): string =>
  createHash("sha256").update(`${batch} ${kind}`).digest("hex").slice(0, 24);

/** Deletes the lines and the results of a batch. */
async function deleteChunks(
  { database, objects }: Pick<BatchContext, "database" | "objects">,
  { id, account }: Pick<Batch, "id" | "account">,
): Promise<void> {
  for await (const { place, segments } of chunksOf(database, id))
    await objects.delete(account, [
      objectNames.input(id, place),
      ...segments.map((segment) => objectNames.segment(id, place, segment)),
    ]);
  await database.deleteFrom("batch_chunks").where("batch_id", "=", id).execute();
}

/** Nothing is left of the batch but its files. */
export async function deleteBatch(
  context: Pick<BatchContext, "database" | "objects">,
  batch: Pick<Batch, "id" | "account">,
): Promise<void> {
  await deleteChunks(context, batch);
  await context.database.deleteFrom("batches").where("id", "=", batch.id).execute();
}

/** Deletes batches whose results are no longer stored, and those whose arrival broke off. */
export async function sweepBatches(context: BatchContext): Promise<void> {
  const { database, clock } = context;
  const before = (ms: number) => new Date(clock.epoch() - ms);
  const outdated = await database
    .selectFrom("batches")
    .select(["id", "account", "state"])
    .where((where) =>
      where.or([
        where("ended_at", "<", before(batchResultsDays * 86_400_000)),
        where.and([where("state", "=", "receiving"), where("created_at", "<", before(receivingMs))]),
      ]),
    )
    .limit(batchesSweptTogether)
    .execute();
  for (const batch of outdated) {
    if (batch.state === "receiving") await deleteInputs(context, batch);
    await deleteBatch(context, batch);
  }
}

/** Deletes the input of a batch that has no rows of chunks yet. */
async function deleteInputs({ objects }: BatchContext, { id, account }: Pick<Batch, "id" | "account">): Promise<void> {
  for (let place = 0; (await objects.read(account, objectNames.input(id, place))) !== undefined; place++)
    await objects.delete(account, [objectNames.input(id, place)]);
}
