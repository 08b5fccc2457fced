/** Calls of a vendor that fail at each step of its batch: each line is answered once. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { sql } from "kysely";
import type { VendorBatchAnswer, VendorBatchCall, VendorTarget } from "#service/vendor-batch.ts";
import { cancelBatch } from "../../../apps/control/batches/batch-rows.ts";
import type { SendLine } from "../../../apps/control/batches/line-sender.ts";
import type { VendorBatches } from "../../../apps/control/batches/vendor-batch.ts";
import { vendorFindMs, vendorReadsMax } from "../../../apps/control/bounds.ts";
import type { Database } from "../../../apps/control/database/database.ts";
import { until } from "../../support/time.ts";
import { onPostgres } from "../databases.ts";
import { addAccount, addBatch, answerOf, contextOf, ended, inputOf, linesIn, startRunner } from "./support.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-vendor-steps-"));
after(() => rm(root, { recursive: true, force: true }));

const target: VendorTarget = { upstream: "vendor", credential: null, path: "/x", model: "m", headers: {} };
const lines = 10;

/** A vendor that keeps its batches; `step` may fail a call before or after its effect. */
function scripted(step: (action: VendorBatchCall["action"], number: number) => "before" | "after" | "cut" | undefined) {
  const batches = new Map<string, { name: string; isOver: boolean }>();
  const counts = new Map<string, number>();
  const sent = { deferred: 0, answered: 0, single: 0 };
  const effectOf = (call: VendorBatchCall): VendorBatchAnswer => {
    const batch = "id" in call ? batches.get(call.id) : undefined;
    switch (call.action) {
      case "submit":
        batches.set(`id-${batches.size}`, { name: call.name, isOver: false });
        return { kind: "submitted", id: `id-${batches.size - 1}` };
      case "find": {
        const [id] = [...batches].find(([, { name }]) => name === call.name) ?? [];
        return id === undefined ? { kind: "absent" } : { kind: "submitted", id };
      }
      case "read": {
        if (batch === undefined) return { kind: "refused", reason: "404" };
        if (!batch.isOver) {
          batch.isOver = true;
          return { kind: "running" };
        }
        const places = call.places.slice(0, 4);
        return { kind: "ended", places, isWhole: places.length === call.places.length };
      }
      case "delete":
        return { kind: "deleted" };
      default:
        return call satisfies never;
    }
  };
  const vendors: VendorBatches = {
    arePossible: () => true,
    targetOf: async () => target,
    async call(call) {
      const number = (counts.get(call.action) ?? 0) + 1;
      counts.set(call.action, number);
      const failed = step(call.action, number);
      if (failed === "cut") return { kind: "unknown", reason: "cut", isOver: true };
      if (failed === "before") return { kind: "unknown", reason: "before" };
      const answer = effectOf(call);
      return failed === "after" ? { kind: "unknown", reason: "after" } : answer;
    },
    pollMs: 10,
  };
  const send: SendLine = async ({ vendorLine }) => {
    if (vendorLine === undefined) sent.single++;
    else if (vendorLine.answeredBy === undefined) sent.deferred++;
    else sent.answered++;
    return vendorLine !== undefined && vendorLine.answeredBy === undefined ? answerOf(202, {}) : answerOf(200, {});
  };
  return { vendors, send, sent, batches, counts };
}

let accounts = 0;
/** Runs a batch on a clock that jumps over the wait for a submission. */
async function run(database: Database, vendor: ReturnType<typeof scripted>, jumpMs = vendorFindMs): Promise<number> {
  const account = `acct-${++accounts}`;
  const id = `batch_${accounts}`;
  let ahead = 0;
  const context = contextOf(database, await mkdtemp(join(root, "objects-")));
  const clock = { now: () => context.clock.now(), epoch: () => context.clock.epoch() + ahead };
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(lines) });
  const runner = startRunner({ ...context, clock }, vendor.send, 4, async () => 0, vendor.vendors);
  runner.wake();
  const skip = repeatEvery(50, async () => {
    if (jumpMs === vendorFindMs) ahead += jumpMs;
    // The time of a batch is almost over only when its vendor has it.
    else if (vendor.batches.size > 0) ahead = jumpMs;
    await database.updateTable("batch_chunks").set({ poll_at: null }).where("batch_id", "=", id).execute();
    runner.wake();
  });
  try {
    const batch = await ended(database, id);
    assert.deepEqual([batch.state, batch.succeeded, batch.errored], ["completed", lines, 0]);
    assert.equal((await linesIn(context, account, batch.output_file_id)).length, lines);
    return runner.vendorFailures;
  } finally {
    await skip.end();
    await runner.close();
  }
}

/** Repeats until `end`, which waits for the run that has begun. */
function repeatEvery(ms: number, run: () => Promise<void>): { end(): Promise<void> } {
  let running = Promise.resolve();
  const timer = setInterval(() => {
    running = running.then(run);
  }, ms);
  return {
    end() {
      clearInterval(timer);
      return running;
    },
  };
}

const never = () => undefined;
const once = (action: VendorBatchCall["action"], when: "before" | "after") => (current: string, number: number) =>
  current === action && number === 1 ? when : undefined;

const steps: [name: string, step: Parameters<typeof scripted>[0], vendorBatches: number, answered: number][] = [
  ["no call fails", never, 1, lines],
  ["the submission did not reach the vendor", once("submit", "before"), 1, lines],
  ["the id of the submission is lost", once("submit", "after"), 1, lines],
  [
    "the search fails once",
    (action, number) =>
      (action === "submit" && number === 1) || (action === "find" && number === 1) ? "after" : undefined,
    1,
    lines,
  ],
  ["the state cannot be read once", once("read", "before"), 1, lines],
  ["answers are read and lost", once("read", "after"), 1, lines],
  ["the deletion fails", once("delete", "before"), 1, lines],
  [
    "the answers are cut for a time",
    (action, number) => (action === "read" && number > 1 && number < 6 ? "cut" : undefined),
    1,
    lines,
  ],
  ["the answers are always cut", (action, number) => (action === "read" && number > 1 ? "cut" : undefined), 1, 0],
  [
    "the answers are always cut at the same place",
    (action, number) => (action === "read" && number > 2 ? "cut" : undefined),
    1,
    4,
  ],
  ["no submission reaches the vendor", (action) => (action === "submit" ? "before" : undefined), 0, 0],
];
for (const [name, step, batches, answered] of steps)
  onPostgres(`each line is answered once: ${name}`, async (database) => {
    const vendor = scripted(step);
    const failures = await run(database, vendor);
    assert.equal(failures, answered < lines ? 1 : 0);
    assert.ok((vendor.counts.get("read") ?? 0) <= vendorReadsMax + 3);
    assert.equal(vendor.batches.size, batches);
    assert.deepEqual(vendor.sent, { deferred: lines, answered, single: lines - answered });
  });

onPostgres("lines of a vendor that cannot be asked run one by one before their time ends", async (database) => {
  const vendor = scripted((action) => (action === "read" ? "before" : undefined));
  await run(database, vendor, 84_600_000);
  assert.deepEqual(vendor.sent, { deferred: lines, answered: 0, single: lines });
});

onPostgres("a process that ends after the submission leaves a batch that the next one finds", async (database) => {
  const account = `acct-${++accounts}`;
  const id = `batch_${accounts}`;
  const context = contextOf(database, await mkdtemp(join(root, "objects-")));
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(lines) });
  const vendor = scripted(never);
  const submitted = Promise.withResolvers<void>();
  const silent: VendorBatches = {
    ...vendor.vendors,
    async call(call) {
      const answer = await vendor.vendors.call(call);
      submitted.resolve();
      return call.action === "submit" ? new Promise(() => undefined) : answer;
    },
  };
  const killed = startRunner(context, vendor.send, 4, async () => 0, silent);
  killed.wake();
  await submitted.promise;
  await killed.close();
  await database.updateTable("batch_chunks").set({ lease_until: null }).where("batch_id", "=", id).execute();
  const clock = { now: () => context.clock.now(), epoch: () => context.clock.epoch() + vendorFindMs };
  const runner = startRunner({ ...context, clock }, vendor.send, 4, async () => 0, vendor.vendors);
  runner.wake();
  await until("the end", async () => (await ended(database, id)).state === "completed");
  await runner.close();
  assert.equal(vendor.batches.size, 1);
  assert.deepEqual(vendor.sent, { deferred: lines, answered: lines, single: 0 });
});

onPostgres("two processes at once submit each chunk once, and answer each line once", async (database) => {
  const account = `acct-${++accounts}`;
  const ids = ["one", "two", "three", "four"].map((name) => `batch_${accounts}_${name}`);
  const context = contextOf(database, await mkdtemp(join(root, "objects-")));
  await addAccount(database, account);
  const vendor = scripted(never);
  const runners = [0, 1].map(() => startRunner(context, vendor.send, 4, async () => 0, vendor.vendors));
  for (const id of ids) await addBatch(context, { id, account, input: inputOf(lines) });
  const skip = repeatEvery(50, async () => {
    await database.updateTable("batch_chunks").set({ poll_at: null }).where("batch_id", "in", ids).execute();
    for (const runner of runners) runner.wake();
  });
  try {
    for (const id of ids) {
      const batch = await ended(database, id);
      assert.deepEqual([batch.state, batch.succeeded, batch.errored], ["completed", lines, 0]);
      assert.equal((await linesIn(context, account, batch.output_file_id)).length, lines);
    }
  } finally {
    await skip.end();
    for (const runner of runners) await runner.close();
  }
  const all = ids.length * lines;
  assert.equal(vendor.batches.size, ids.length);
  assert.deepEqual(vendor.sent, { deferred: all, answered: all, single: 0 });
});

onPostgres("a batch that is accepted while it is cancelled is cancelled", async (database) => {
  const account = `acct-${++accounts}`;
  const id = `batch_${accounts}`;
  const context = contextOf(database, await mkdtemp(join(root, "objects-")));
  await addAccount(database, account);
  await addBatch(context, { id, account, input: inputOf(1) });
  const accepting = await database.startTransaction().execute();
  await accepting.updateTable("batches").set({ state: "in_progress" }).where("id", "=", id).execute();
  const cancelled = cancelBatch(database, id, new Date());
  await until("the cancellation waits", async () => {
    const { rows } = await sql<{ waits: boolean }>`
      select exists (select from pg_locks where not granted) as waits`.execute(database);
    return rows[0]?.waits === true;
  });
  await accepting.commit().execute();
  await cancelled;
  const { state } = await database.selectFrom("batches").select("state").where("id", "=", id).executeTakeFirstOrThrow();
  assert.equal(state, "cancelling");
});
