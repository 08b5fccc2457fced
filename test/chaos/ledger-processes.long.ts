/**
 * The ledger while workers and control are killed: each generation counts once, at what its caller
 * saw and the simulator sent.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { pino } from "pino";
import { UsageStream } from "#ledger/usage-stream.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { usageRecord } from "../control/records.ts";
import { startControl, startControlProcess, type TestControl } from "../support/control.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";
import {
  assertComplete,
  assertTotals,
  type LedgerRecord,
  nanoCostOf,
  nanoOfRecord,
  recordsOf,
  startLoad,
} from "./ledger-support.ts";

const root = await mkdtemp(join(tmpdir(), "sluice-ledger-"));
after(() => rm(root, { recursive: true, force: true }));
let directories = 0;
const nextDirectory = () => join(root, String(++directories));

const models = {
  fast: "sim-text;rate=0;first=0;tokens=8",
  // Longer than a busy machine takes to kill a worker: a call that the simulator completes, and
  // whose answer dies with the worker, is a whole one there and none in the ledger.
  late: "sim-text;rate=0;first=12000;tokens=12",
  paced: "sim-text;rate=2;first=0;tokens=60",
  resumed: "sim-text;rate=2;first=0;tokens=61",
};
const catalogue = catalogueOf(Object.entries(models).map(([id, model]) => ({ id, model }))).replace(
  'id: "resumed", ',
  'id: "resumed", resume: true, deterministic: true, ',
);
const messages = [{ role: "user" as const, content: "Tell me something long." }];

const environmentOf = (gateway: Gateway, directory: string): Record<string, string> => ({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  DATABASE_DIRECTORY: directory,
});

interface Seen {
  requestId: string;
  usage: { prompt_tokens: number; completion_tokens: number } | undefined;
  error: string | undefined | null;
}

/** One request; `begun` is called at its first content. */
async function ask(gateway: Gateway, model: string, stream: boolean, begun = () => {}, headers = {}): Promise<Seen> {
  const body = { model, messages, stream, ...(stream && { stream_options: { include_usage: true } }) };
  const response = await gateway.post(body, { headers });
  const requestId = response.headers.get("x-request-id") as string;
  if (!stream) {
    const { usage } = (await response.json()) as { usage: Seen["usage"] };
    return { requestId, usage, error: undefined };
  }
  const read = await readStream(response, (chunks) => chunks > 3 && begun());
  const [, usage] =
    /"usage":(\{"prompt_tokens".*?\})[,}]/.exec(read.text.replaceAll(/,"\w+_details":\{[^}]*\}/g, "")) ?? [];
  return { requestId, usage: usage === undefined ? undefined : JSON.parse(usage), error: read.error?.code };
}

/** The records of these requests, once all are there. */
async function recordsFor(control: TestControl, seen: readonly Seen[]): Promise<Map<string, LedgerRecord>> {
  let storedRecords = new Map<string, LedgerRecord>();
  await until(
    "every request is in the ledger",
    async () => {
      const records = await recordsOf(control);
      assert.equal(new Set(records.map(({ id }) => id)).size, records.length);
      storedRecords = new Map(records.map((record) => [record.requestId, record]));
      return seen.every(({ requestId }) => storedRecords.has(requestId));
    },
    30_000,
  );
  return storedRecords;
}

test("a killed worker: restarted and resumed generations count once, for their last attempt; lost ones cost nothing", async (context) => {
  await using gateway = await startGateway({ processes: "all", workers: ["chat=64", "chat=64"], catalogue });
  await using control = await startControl(environmentOf(gateway, nextDirectory()));
  const count = 10;
  let begun = 0;
  // In turn, so that both workers run both.
  const streams = Array.from({ length: 2 * count }, (_, index) => {
    let hasBegun = false;
    return ask(gateway, index % 2 === 0 ? "paced" : "resumed", true, () => {
      if (!hasBegun) begun++;
      hasBegun = true;
    });
  });
  await until("all streams flow", () => begun === streams.length, 20_000);
  const late = Array.from({ length: count }, () => ask(gateway, "late", false));
  await until("the late ones run", async () => (await gateway.seen(models.late)).length === count);
  await gateway.workers[0]?.kill();
  const seen = await Promise.all([...streams, ...late]);
  const records = await recordsFor(control, seen);
  const ended = { again: 0, lost: 0, undisturbed: 0 };
  for (const { requestId, usage, error } of seen) {
    const record = records.get(requestId) as LedgerRecord;
    if (error !== undefined) {
      ended.lost++;
      assert.deepEqual([error, record.outcome, record.cost, record.model], ["worker_lost", "failed", "0", "paced"]);
      continue;
    }
    assert.ok(usage, requestId);
    assert.equal(record.outcome, "complete");
    assert.equal(nanoOfRecord(record), nanoCostOf(usage), record.model);
    if (record.attempts > 1) ended.again++;
    else ended.undisturbed++;
  }
  context.diagnostic(JSON.stringify(ended));
  assert.ok(ended.again > 0 && ended.lost > 0 && ended.undisturbed > 0);
  await assertTotals(control, [...records.values()]);
  // The simulator saw each attempt; the ledger has the tokens of the whole answers only.
  for (const model of ["paced", "late"] as const) {
    const whole = (await gateway.seen(models[model])).filter(({ outcome }) => outcome === "completed");
    const billed = [...records.values()].filter((record) => record.model === model && record.outcome === "complete");
    assert.equal(billed.length, whole.length, model);
    if (model === "paced")
      assert.equal(sum(billed.map(({ tokens }) => tokens.output)), sum(whole.map(({ chunksSent }) => chunksSent)));
  }
});

const sum = (numbers: readonly number[]): number => numbers.reduce((total, number) => total + number, 0);

test("the ledger has the tokens of the simulator's journal", async () => {
  await using gateway = await startGateway({ catalogue });
  await using control = await startControl(environmentOf(gateway, nextDirectory()));
  const seen = await Promise.all(
    Array.from({ length: 40 }, (_, index) => ask(gateway, index % 2 === 0 ? "fast" : "paced", true)),
  );
  const records = [...(await recordsFor(control, seen)).values()];
  for (const model of ["fast", "paced"] as const) {
    const journal = await gateway.seen(models[model]);
    const own = records.filter((record) => record.model === model);
    assert.equal(own.length, journal.length);
    assert.equal(sum(own.map(({ tokens }) => tokens.output)), sum(journal.map(({ chunksSent }) => chunksSent)));
  }
  await assertTotals(control, records);
});

test("control killed again and again under load, with the embedded database: its lock, its replay, every answer once", async () => {
  await using gateway = await startGateway({
    catalogue,
    isDurable: true,
    environment: { USAGE_DIRECTORY: nextDirectory() },
  });
  const environment = environmentOf(gateway, nextDirectory());
  using load = startLoad(gateway, 4, () => gateway.url);
  for (let round = 1; round <= 4; round++) {
    await using control = await startControlProcess(environment);
    await assert.rejects(startControlProcess(environment), /already uses the embedded database/);
    const goal = load.costs.size + 150;
    await until("there was some load", () => load.costs.size >= goal, 60_000);
    await control.role.kill();
  }
  await load.stop();
  await using control = await startControlProcess(environment);
  await assertComplete(control, load.costs);
});

test("the embedded database killed in mid-write, several times: every record of the stream once", async (context) => {
  await using redis = await startRedis({ isDurable: true });
  const own = await connectRedis(redis.url, "request");
  const stream = new UsageStream({
    redis: own,
    keyspace: keyspaceOf("sluice"),
    directory: nextDirectory(),
    log: pino({ level: "silent" }),
  });
  const count = 100_000;
  for (let index = 1; index <= count; index++) {
    stream.write(usageRecord({ generationId: `gen_written_${index}`, cost: String(index) }));
    if (index % 1_000 === 0) await stream.flush();
  }
  await stream.close();
  own.disconnect();
  await using gateway = await startGateway({ workers: [] });
  const environment = { ...environmentOf(gateway, nextDirectory()), REDIS_URL: redis.url };
  const whenKilled: number[] = [];
  for (let strike = 1; strike <= 3; strike++) {
    await using control = await startControlProcess(environment);
    let stored = 0;
    const goal = strike * 10_000;
    await until(
      "it writes",
      async () => {
        stored = await storedBy(control);
        return stored >= goal;
      },
      60_000,
    );
    await control.role.kill();
    whenKilled.push(stored);
  }
  context.diagnostic(`records in the database when it was killed: ${whenKilled.join(", ")} of ${count}`);
  assert.ok(whenKilled.every((stored) => stored < count));
  await using control = await startControlProcess(environment);
  await until("everything is stored", async () => (await storedBy(control)) >= count, 60_000);
  const { total } = await control.get<{ total: { requests: number; cost: string } }>("/usage");
  assert.deepEqual([total.requests, Math.round(Number(total.cost) * 1e9)], [count, (count * (count + 1)) / 2]);
});

/** Records that the ledger has. */
async function storedBy(control: TestControl): Promise<number> {
  const { total } = await control.get<{ total: { requests: number } }>("/usage");
  return total.requests;
}

test("replays of an idempotent request and a resumed stream: one generation, one cost", async () => {
  await using gateway = await startGateway({ ingresses: 2, catalogue });
  await using control = await startControl(environmentOf(gateway, nextDirectory()));
  const headers = { "idempotency-key": "once" };
  await Promise.all([1, 2, 3].map(() => ask(gateway, "late", false, undefined, headers)));
  await ask(gateway, "late", false, undefined, headers);
  assert.equal((await gateway.seen(models.late)).length, 1);
  // A caller that breaks off, and comes back to another ingress.
  const body = { model: "paced", messages, stream: true, stream_options: { include_usage: true } };
  const broken = new AbortController();
  const first = await gateway.post(body, { headers: { "x-sluice-resumable": "true" }, signal: broken.signal });
  let text = "";
  for await (const part of first.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.split("\n\n").length > 5) break;
  }
  broken.abort();
  const lastId = [...text.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] as string;
  const second = await gateway.post(body, {
    url: gateway.ingresses[1]?.urls.api as string,
    headers: { "last-event-id": lastId },
  });
  assert.match(await second.text(), /data: \[DONE\]\n\n$/);
  assert.equal((await gateway.seen(models.paced)).length, 1);
  // A request after all others: what they wrote is in the ledger with it.
  const last = await ask(gateway, "fast", false);
  const records = await recordsFor(control, [
    last,
    { requestId: first.headers.get("x-request-id") as string, usage: undefined, error: undefined },
  ]);
  const all = [...records.values()];
  assert.deepEqual(all.map(({ model, tokens }) => `${model} ${tokens.output}`).sort(), [
    "fast 8",
    "late 12",
    "paced 60",
  ]);
  await assertTotals(control, all);
});
