/** Batches whose objects the store has lost, and objects that a killed process has left behind. */
import assert from "node:assert/strict";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { sql } from "kysely";
import { takeFile } from "../../../apps/control/batches/batch-intake.ts";
import { deleteRefusedBatch, endBatch, resultsOf, sweepBatches } from "../../../apps/control/batches/batch-results.ts";
import { type Batch, claimBatch } from "../../../apps/control/batches/batch-rows.ts";
import { createBatch } from "../../../apps/control/batches/batch-views.ts";
import { objectNames } from "../../../apps/control/batches/chunk-format.ts";
import type { BatchContext } from "../../../apps/control/batches/context.ts";
import type { NewFile } from "../../../apps/control/batches/ports.ts";
import { inputRunsMax } from "../../../apps/control/bounds.ts";
import type { Database } from "../../../apps/control/database/database.ts";
import { until } from "../../support/time.ts";
import { onPostgres } from "../databases.ts";
import {
  addAccount,
  addBatch,
  answerOf,
  batchOf,
  contextOf,
  ended,
  inputOf,
  lineOf,
  linesIn,
  startRunner,
} from "./support.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-losses-"));
after(() => rm(root, { recursive: true, force: true }));

const [id, account] = ["batch_1", "acct"];
const lostError = {
  code: "server_error",
  message: "The object store has lost this request or its result; send it in another batch.",
};

/** A batch of 250 lines in two chunks, whose input was checked. */
async function acceptedBatch(database: Database): Promise<{ context: BatchContext; batch: Batch; directory: string }> {
  const directory = await mkdtemp(join(root, "objects-"));
  const context = contextOf(database, directory);
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(250) });
  const batch = await claimBatch(database, ["validating"]);
  assert.ok(batch);
  await takeFile(context, batch);
  return { context, batch: await batchOf(database, id), directory };
}

async function runToEnd(context: BatchContext) {
  const sent: number[] = [];
  const runner = startRunner(context, async (request) => {
    sent.push(lineOf(request));
    return answerOf(200, {});
  });
  runner.wake();
  try {
    const batch = await ended(context.database, id);
    return {
      batch,
      sent,
      output: await linesIn(context, account, batch.output_file_id),
      errors: await linesIn(context, account, batch.error_file_id),
    };
  } finally {
    await runner.close();
  }
}

onPostgres("a runner that closes while it takes a chunk gives it back, and sends nothing", async (database) => {
  const { context } = await acceptedBatch(database);
  let closed: Promise<void> | undefined;
  let sends = 0;
  /** Looked at just before a chunk is taken. */
  const epoch = () => {
    closed ??= runner.close();
    return context.clock.epoch();
  };
  const runner = startRunner({ ...context, clock: { ...context.clock, epoch } }, async () => {
    sends++;
    return answerOf(200, {});
  });
  runner.wake();
  const chunkOf = () => database.selectFrom("batch_chunks").selectAll().where("place", "=", 0).executeTakeFirst();
  await until("a chunk was taken", async () => (await chunkOf())?.runs === 1);
  await closed;
  assert.equal((await chunkOf())?.lease_until, null);
  assert.equal(sends, 0);
});

onPostgres("requests that have not run yet are not lost", async (database) => {
  const { context, batch } = await acceptedBatch(database);
  assert.deepEqual(await Array.fromAsync(resultsOf(context, batch)), []);
});

onPostgres("lines whose input is lost fail, and the batch ends", async (database) => {
  const { context } = await acceptedBatch(database);
  await context.objects.delete(account, [objectNames.input(id, 1, 1)]);
  const { batch, output, errors, sent } = await runToEnd(context);
  assert.deepEqual([batch.state, batch.succeeded, batch.errored], ["completed", 200, 50]);
  assert.deepEqual([sent.length, output.length, errors.length], [200, 200, 50]);
  for (const { error, response } of errors) assert.deepEqual([error, response], [lostError, null]);
});

onPostgres("lines whose results are lost while their chunk runs are sent again, and counted once", async (database) => {
  const { context } = await acceptedBatch(database);
  await database
    .updateTable("batch_chunks")
    .set({ runs: 1, segments: '["1-0"]', succeeded: 30, errored: 2 })
    .where("place", "=", 0)
    .execute();
  const { batch, output, sent } = await runToEnd(context);
  assert.deepEqual([batch.succeeded, batch.errored, output.length, sent.length], [250, 0, 250, 250]);
});

onPostgres("results that are lost after their chunk is done are errors, each with its request", async (database) => {
  const { context, batch } = await acceptedBatch(database);
  await database
    .updateTable("batch_chunks")
    .set({ is_done: true, segments: '["1-ordered-0"]', succeeded: 3 })
    .execute();
  const lines = async (kind: "output" | "error") =>
    String(Buffer.concat(await Array.fromAsync(resultsOf(context, batch, kind))))
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line));
  assert.deepEqual(await lines("output"), []);
  const errors = await lines("error");
  assert.equal(new Set(errors.map((line) => line.id)).size, 250);
  for (const { error } of errors) assert.deepEqual(error, lostError);
});

onPostgres("an input that cannot be read to its end fails the batch after an hour", async (database) => {
  const context = contextOf(database, await mkdtemp(join(root, "objects-")));
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(1) });
  const content = async function* (): AsyncGenerator<Buffer> {
    yield inputOf(1);
    throw new Error("the file was changed");
  };
  const files = { ...context.files, open: async () => ({ bytes: 10, content: content() }) };
  const batch = await claimBatch(database, ["validating"]);
  assert.ok(batch);
  await assert.rejects(takeFile({ ...context, files }, batch), /changed/);
  assert.equal((await batchOf(database, id)).state, "validating");
  await database.updateTable("batches").set({ runs: inputRunsMax }).execute();
  await takeFile({ ...context, files }, { ...batch, runs: inputRunsMax });
  const { state, faults } = await batchOf(database, id);
  assert.deepEqual([state, faults.map(({ code }) => code)], ["failed", ["file_not_readable"]]);
});

onPostgres("objects that killed runs left are deleted with the chunk", async (database) => {
  const { context, directory } = await acceptedBatch(database);
  await database.updateTable("batch_chunks").set({ runs: 2 }).where("place", "=", 0).execute();
  for (const segment of ["1-0", "2-0", "2-ordered-0"])
    await context.objects.write(account, objectNames.segment(id, 0, segment), Buffer.from("0+{}\n"));
  const { batch } = await runToEnd(context);
  assert.deepEqual(await storedIn(directory), [batch.input_file_id, batch.output_file_id].sort());
});

const storedIn = async (directory: string): Promise<string[]> =>
  (await readdir(join(directory, account), { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ name }) => name)
    .sort();

const outdatedEnds = {
  "the file cannot be read": async function* (): AsyncGenerator<Buffer> {
    yield inputOf(250);
    throw new Error("the file was changed");
  },
  "the file has faults": async function* (): AsyncGenerator<Buffer> {
    yield inputOf(250);
    yield Buffer.from("{\n");
  },
  "all lines are stored": async function* (): AsyncGenerator<Buffer> {
    yield inputOf(250);
  },
};
for (const [end, content] of Object.entries(outdatedEnds))
  onPostgres(`an intake that has lost its batch leaves the next one's input: ${end}`, async (database) => {
    const directory = await mkdtemp(join(root, "objects-"));
    const context = contextOf(database, directory);
    await addAccount(database, account);
    await addBatch(context, { id, account, input: inputOf(250) });
    const gate = Promise.withResolvers<void>();
    const late = async function* (): AsyncGenerator<Buffer> {
      await gate.promise;
      yield* content();
    };
    const files = { ...context.files, open: async () => ({ bytes: 10, content: late() }) };
    const first = await claimBatch(database, ["validating"]);
    assert.ok(first);
    const outdated = takeFile({ ...context, files }, first).catch(() => undefined);
    await database.updateTable("batches").set({ lease_until: null }).execute();
    const second = await claimBatch(database, ["validating"]);
    assert.ok(second);
    await takeFile(context, second);
    gate.resolve();
    await outdated;
    const { batch, output } = await runToEnd(context);
    assert.deepEqual([batch.state, output.length], ["completed", 250]);
    assert.deepEqual(await storedIn(directory), [batch.input_file_id, batch.output_file_id].sort());
  });

for (const isLast of [false, true])
  onPostgres(
    `an end that has lost its batch leaves the other one's files, ${isLast ? "after" : "before"} it`,
    async (database) => {
      const { context, directory } = await acceptedBatch(database);
      const gate = Promise.withResolvers<void>();
      const created = Promise.withResolvers<void>();
      const files = {
        ...context.files,
        async create(file: NewFile, content: AsyncIterable<Buffer>) {
          if (isLast) await gate.promise;
          await context.files.create(file, content);
          created.resolve();
          await gate.promise;
        },
      };
      await database.updateTable("batches").set({ state: "finalizing" }).execute();
      await database
        .updateTable("batch_chunks")
        .set({ is_done: true, succeeded: sql`lines`, segments: '["1-0"]' })
        .execute();
      for (const place of [0, 1])
        await context.objects.write(account, objectNames.segment(id, place, "1-0"), Buffer.from("0+{}\n"));
      const first = await claimBatch(database, ["finalizing"]);
      assert.ok(first);
      const outdated = endBatch({ ...context, files }, first);
      if (!isLast) await created.promise;
      await database.updateTable("batches").set({ lease_until: null }).execute();
      const second = await claimBatch(database, ["finalizing"]);
      assert.ok(second);
      await endBatch(context, second);
      const before = await batchOf(database, id);
      const bytes = await context.objects.read(account, before.output_file_id ?? "");
      gate.resolve();
      await outdated;
      assert.deepEqual(await batchOf(database, id), before);
      assert.deepEqual(await context.objects.read(account, before.output_file_id ?? ""), bytes);
      assert.deepEqual(await storedIn(directory), [before.input_file_id, before.output_file_id].sort());
    },
  );

onPostgres("a run that has lost its chunk leaves no results", async (database) => {
  const { context } = await acceptedBatch(database);
  const gate = Promise.withResolvers<void>();
  const sent = Promise.withResolvers<void>();
  const runner = startRunner(context, async () => {
    sent.resolve();
    await gate.promise;
    return answerOf(200, {});
  });
  runner.wake();
  await sent.promise;
  await database.updateTable("batch_chunks").set({ runs: 7 }).execute();
  gate.resolve();
  await runner.close();
  for (const place of [0, 1])
    assert.equal(await context.objects.read(account, objectNames.segment(id, place, "1-0")), undefined);
});

onPostgres("the sweep deletes the chunks that a killed end has left", async (database) => {
  const { context, directory } = await acceptedBatch(database);
  await database.updateTable("batches").set({ state: "completed", ended_at: new Date() }).execute();
  await sweepBatches(context);
  assert.deepEqual(await storedIn(directory), [`file-${id}`]);
  assert.deepEqual(await database.selectFrom("batch_chunks").select("place").execute(), []);
  assert.equal((await batchOf(database, id)).state, "completed");
});

onPostgres("a batch that was accepted is not deleted as a refused one", async (database) => {
  const { context, batch } = await acceptedBatch(database);
  await deleteRefusedBatch(context, id);
  assert.deepEqual(await batchOf(database, id), batch);
  await database.updateTable("batches").set({ state: "receiving" }).execute();
  await deleteRefusedBatch(context, id);
  assert.deepEqual(await database.selectFrom("batches").select("id").execute(), []);
});

onPostgres("a refused input leaves nothing, also of an intake that was killed before", async (database) => {
  const directory = await mkdtemp(join(root, "objects-"));
  const context = contextOf(database, directory);
  await addAccount(database, account);
  await addBatch(context, { id, account, input: Buffer.concat([inputOf(250), Buffer.from("{\n")]) });
  for (let place = 0; place < 5; place++)
    await context.objects.write(account, objectNames.input(id, 0, place), Buffer.from("earlier"));
  const { batch } = await runToEnd(context);
  assert.equal(batch.state, "failed");
  const left = await readdir(join(directory, account), { recursive: true, withFileTypes: true });
  assert.deepEqual(
    left.filter((entry) => entry.isFile()).map(({ name }) => name),
    [batch.input_file_id],
  );
});

onPostgres("an account whose files use all of their quota creates no batch that needs files", async (database) => {
  const context = contextOf(database, root);
  await addAccount(database, account);
  const full = { ...context, files: { ...context.files, isFull: async () => true } };
  const batch = {
    ...{ id, account, key_id: "key_acct", endpoint: "/v1/messages", model: null, name: null },
    state: "validating",
    ...{ input_file_id: null, output_expires_seconds: null, metadata: null, expires_at: new Date() },
  } as const;
  const refusal = await createBatch(full, { ...batch, dialect: "openai" });
  assert.match(refusal?.message ?? "", /use all of their quota/);
  assert.equal(await createBatch(full, { ...batch, dialect: "anthropic" }), undefined);
});
