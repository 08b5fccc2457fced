/** How batches run: order, bounds, faults of upstreams, ends. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, mock, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { takeFile, takeLines } from "../../../apps/control/batches/batch-intake.ts";
import { cancelBatch, claimBatch } from "../../../apps/control/batches/batch-rows.ts";
import { objectNames } from "../../../apps/control/batches/chunk-format.ts";
import type { SendLine } from "../../../apps/control/batches/line-sender.ts";
import { verdictOf } from "../../../apps/control/batches/line-verdict.ts";
import { segmentEveryMs } from "../../../apps/control/bounds.ts";
import type { Database } from "../../../apps/control/database/database.ts";
import { until } from "../../support/time.ts";
import { onBoth, onPostgres } from "../databases.ts";
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

const directory = await mkdtemp(join(tmpdir(), "sluice-batches-"));
after(() => rm(directory, { recursive: true, force: true }));

let accounts = 0;

/** Runs a batch of one account to its end. */
async function runs(
  database: Database,
  options: { input: Buffer; send: SendLine; expiresInMs?: number; concurrency?: number; tokensMax?: number },
  meanwhile?: (id: string) => Promise<void>,
) {
  const account = `account-${++accounts}`;
  const id = `batch_${accounts}`;
  const context = contextOf(database, directory);
  if (options.tokensMax !== undefined) context.bounds.tokensMax = options.tokensMax;
  await addAccount(database, account);
  await addBatch(context, { id, account, ...options });
  const runner = startRunner(context, options.send, options.concurrency);
  runner.wake();
  try {
    await meanwhile?.(id);
    const batch = await ended(database, id);
    const output = await linesIn(context, account, batch.output_file_id);
    const errors = await linesIn(context, account, batch.error_file_id);
    const { succeeded, errored, cancelled, expired } = batch;
    return { batch, output, errors, counts: { succeeded, errored, cancelled, expired } };
  } finally {
    await runner.close();
  }
}

onBoth("every line has one result, in the order of the file", async (database) => {
  const sent: number[] = [];
  let running = 0;
  let runningMax = 0;
  const { batch, output, errors, counts } = await runs(database, {
    input: inputOf(1_001),
    concurrency: 8,
    send: async (request) => {
      runningMax = Math.max(runningMax, ++running);
      sent.push(lineOf(request));
      await delay(Math.random() * 3);
      running--;
      return lineOf(request) % 10 === 3
        ? answerOf(400, { error: { message: "no" } })
        : answerOf(200, { n: lineOf(request) });
    },
  });
  assert.equal(batch.state, "completed");
  assert.equal(batch.total, 1_001);
  assert.equal(batch.model, "m");
  const all = Array.from({ length: 1_001 }, (_, line) => line);
  assert.deepEqual(
    sent.toSorted((one, other) => one - other),
    all,
  );
  assert.deepEqual(
    output.map(({ custom_id }) => custom_id),
    all.filter((line) => line % 10 !== 3).map((line) => `line-${line}`),
  );
  for (const { custom_id, response } of output) assert.equal(custom_id, `line-${response.body.n}`);
  assert.deepEqual(
    errors.map(({ custom_id, response }) => [custom_id, response.status_code]),
    all.filter((line) => line % 10 === 3).map((line) => [`line-${line}`, 400]),
  );
  assert.deepEqual(counts, { succeeded: 901, errored: 100, cancelled: 0, expired: 0 });
  assert.ok(runningMax <= 8, `${runningMax} lines at once`);
  const rows = await database.selectFrom("batch_chunks").selectAll().where("batch_id", "=", batch.id).execute();
  assert.deepEqual(rows, []);
});

onPostgres("a result that comes alone is stored at once", async (database) => {
  const account = `account-${++accounts}`;
  const id = `batch_${accounts}`;
  const others = Promise.withResolvers<void>();
  const context = contextOf(database, directory);
  let passedMs = 0;
  const now = () => context.clock.now() + passedMs;
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(2) });
  const runner = startRunner({ ...context, clock: { ...context.clock, now } }, async (request) => {
    if (lineOf(request) > 0) await others.promise;
    else {
      passedMs = segmentEveryMs;
      mock.timers.enable({ apis: ["setTimeout"] });
    }
    return answerOf(200, {});
  });
  runner.wake();
  try {
    let tickedMs = 0;
    await until("the result is stored", async () => {
      if (passedMs > 0 && ++tickedMs < segmentEveryMs) mock.timers.tick(1);
      const chunk = await database
        .selectFrom("batch_chunks")
        .select("segments")
        .where("batch_id", "=", id)
        .executeTakeFirst();
      return chunk?.segments.length === 1;
    });
  } finally {
    mock.timers.reset();
    others.resolve();
    await ended(database, id);
    await runner.close();
  }
});

onPostgres("a file with faults runs no line", async (database) => {
  let sends = 0;
  const { batch, output } = await runs(database, {
    input: Buffer.concat([inputOf(2), Buffer.from("{\n"), inputOf(1)]),
    send: async () => {
      sends++;
      return answerOf(200, {});
    },
  });
  assert.equal(batch.state, "failed");
  assert.deepEqual(
    batch.faults.map(({ line, code }) => [line, code]),
    [
      [3, "invalid_json_line"],
      [4, "duplicate_custom_id"],
    ],
  );
  assert.deepEqual([sends, output, batch.total], [0, [], 0]);
});

onPostgres("a batch with more tokens than its account may have fails", async (database) => {
  const { batch } = await runs(database, { input: inputOf(10), tokensMax: 10, send: async () => answerOf(200, {}) });
  assert.equal(batch.state, "failed");
  assert.deepEqual(
    batch.faults.map(({ line, code }) => [line, code]),
    [[null, "token_limit_exceeded"]],
  );
});

onBoth("a cancelled batch has the results of lines that ran, and errors for the others", async (database) => {
  const gate = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const { batch, output, errors, counts } = await runs(
    database,
    {
      input: inputOf(300),
      concurrency: 4,
      send: async () => {
        started.resolve();
        await gate.promise;
        return answerOf(200, {});
      },
    },
    async (id) => {
      await started.promise;
      await cancelBatch(database, id, new Date());
      assert.equal((await batchOf(database, id)).state, "cancelling");
      await delay(2_500);
      gate.resolve();
    },
  );
  assert.equal(batch.state, "cancelled");
  assert.equal(output.length, 4);
  assert.equal(errors.length, 296);
  assert.deepEqual(counts, { succeeded: 4, errored: 0, cancelled: 296, expired: 0 });
  for (const { error, response } of errors) assert.deepEqual([error.code, response], ["batch_cancelled", null]);
});

onPostgres("lines that have not run when the window ends are expired", async (database) => {
  const { batch, output, errors } = await runs(database, {
    input: inputOf(50),
    concurrency: 1,
    expiresInMs: 1_500,
    send: async () => {
      await delay(200);
      return answerOf(200, {});
    },
  });
  assert.equal(batch.state, "expired");
  assert.equal(output.length + errors.length, 50);
  assert.ok(output.length > 0 && errors.length > 0);
  for (const { error } of errors) assert.equal(error.code, "batch_expired");
});

onPostgres("a spent budget stops the rest", async (database) => {
  const budget = answerOf(429, { error: { code: "budget" } }, { isFinal: true });
  const { batch, output, errors, counts } = await runs(database, {
    input: inputOf(250),
    concurrency: 1,
    send: async (request) => (lineOf(request) < 20 ? answerOf(200, {}) : budget),
  });
  assert.equal(batch.state, "completed");
  assert.equal(output.length, 20);
  assert.deepEqual(counts, { succeeded: 20, errored: 230, cancelled: 0, expired: 0 });
  assert.equal(errors[0].response.status_code, 429);
  for (const { error } of errors.slice(1)) assert.equal(error.code, "insufficient_quota");
});

onPostgres("lines wait for rate limits and busy ingresses, and are sent again after failures", async (database) => {
  const sends = new Map<number, number>();
  const { output, errors } = await runs(database, {
    input: inputOf(5),
    send: async (request) => {
      const line = lineOf(request);
      const count = (sends.get(line) ?? 0) + 1;
      sends.set(line, count);
      assert.equal(request.generationId.startsWith("gen_"), true);
      if (line === 0 && count === 1) return answerOf(429, {}, { retryAfterMs: 1_100 });
      if (line === 1 && count === 1) return answerOf(503, {});
      if (line === 2) return answerOf(502, { error: { message: "upstream" } });
      if (line === 3 && count === 1) return "broken";
      if (line === 4 && count === 1) return "unreachable";
      return answerOf(200, {});
    },
  });
  assert.deepEqual(
    [...sends].toSorted(([one], [other]) => one - other),
    [
      [0, 2],
      [1, 2],
      [2, 3],
      [3, 2],
      [4, 2],
    ],
  );
  assert.equal(output.length, 4);
  assert.deepEqual(
    errors.map(({ custom_id, response }) => [custom_id, response.status_code]),
    [["line-2", 502]],
  );
});

onPostgres("accounts take turns", async (database) => {
  const context = contextOf(database, directory);
  const order: string[] = [];
  for (const account of ["large", "small"]) await addAccount(database, account);
  await addBatch(context, { id: "batch_large", account: "large", input: inputOf(3_000) });
  const runner = startRunner(
    context,
    async ({ batch }) => {
      order.push(batch);
      await delay(5);
      return answerOf(200, {});
    },
    4,
  );
  runner.wake();
  try {
    while (order.length < 100) await delay(5);
    await addBatch(context, { id: "batch_small", account: "small", input: inputOf(100) });
    await ended(database, "batch_small");
    assert.equal((await batchOf(database, "batch_large")).state, "in_progress");
  } finally {
    await runner.close();
  }
});

const none = { failures: 0, breaks: 0, waits: 0 };
const status = (code: number, more = {}) => answerOf(code, {}, more);
const verdicts: [result: Parameters<typeof verdictOf>[0], attempts: Partial<typeof none>, kind: string][] = [
  [status(200), {}, "result"],
  [status(400), {}, "result"],
  [status(404), {}, "result"],
  [status(408), {}, "result"],
  [status(413), {}, "result"],
  [status(429), {}, "waits"],
  [status(429), { waits: 1_000 }, "waits"],
  [status(500), {}, "failures"],
  [status(500), { failures: 1 }, "failures"],
  [status(500), { failures: 2 }, "result"],
  [status(502, { isFinal: true }), {}, "result"],
  [status(503), { waits: 1_000 }, "waits"],
  [status(503, { isFinal: true }), {}, "result"],
  [status(504), {}, "failures"],
  [status(529), {}, "waits"],
  ["unreachable", { waits: 1_000 }, "waits"],
  ["broken", { failures: 2 }, "breaks"],
  ["broken", { breaks: 9 }, "unanswered"],
  ["too_large", {}, "unanswered"],
];
for (const [result, attempts, kind] of verdicts)
  test(`${typeof result === "string" ? result : result.status} after ${JSON.stringify(attempts)}: ${kind}`, () => {
    assert.equal(verdictOf(result, { ...none, ...attempts }).kind, kind);
  });
test("an invalid key and a spent budget stop a batch", () => {
  const stopsOf = (result: Parameters<typeof verdictOf>[0]) => {
    const verdict = verdictOf(result, none);
    return verdict.kind === "result" ? verdict.stops : verdict.kind;
  };
  assert.equal(stopsOf(status(401)), "invalid_key");
  assert.equal(stopsOf(status(402, { isFinal: true })), "budget_exhausted");
  assert.equal(stopsOf(status(429, { isFinal: true })), "budget_exhausted");
  assert.equal(stopsOf(status(400)), undefined);
});

onBoth("an intake that another process has repeated changes nothing", async (database) => {
  const account = `account-${++accounts}`;
  const id = `batch_${accounts}`;
  const context = contextOf(database, directory);
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(3) });
  const late = (await claimBatch(database, ["validating"])) ?? assert.fail();
  await database.updateTable("batches").set({ lease_until: null }).where("id", "=", id).execute();
  const repeated = (await claimBatch(database, ["validating"])) ?? assert.fail();
  await takeFile(context, repeated);
  await database.updateTable("batch_chunks").set({ succeeded: 1, runs: 1 }).where("batch_id", "=", id).execute();
  context.bounds.tokensMax = 1;
  await takeFile(context, late);
  const chunk = await database
    .selectFrom("batch_chunks")
    .selectAll()
    .where("batch_id", "=", id)
    .executeTakeFirstOrThrow();
  assert.deepEqual([chunk.lines, chunk.succeeded, chunk.runs], [3, 1, 1]);
  assert.ok(await context.objects.read(account, objectNames.input(id, repeated.runs, 0)));
  await database.deleteFrom("batches").where("id", "=", id).execute();
});

onBoth("the metadata of requests count as bytes of their chunk", async (database) => {
  const account = `account-${++accounts}`;
  const id = `batch_${accounts}`;
  const context = contextOf(database, directory);
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(1) });
  const batch = (await claimBatch(database, ["validating"])) ?? assert.fail();
  const bytes = Buffer.from(JSON.stringify({ request: {}, metadata: { text: "x".repeat(1 << 20) } }));
  async function* lines() {
    for (let number = 1; number <= 4; number++) yield { number, bytes };
  }
  assert.deepEqual(await takeLines(context, { ...batch, dialect: "gemini", model: "m" }, lines()), []);
  const chunks = await database.selectFrom("batch_chunks").select("lines").where("batch_id", "=", id).execute();
  assert.deepEqual(chunks, [{ lines: 1 }, { lines: 1 }, { lines: 1 }, { lines: 1 }]);
  await database.deleteFrom("batches").where("id", "=", id).execute();
});
