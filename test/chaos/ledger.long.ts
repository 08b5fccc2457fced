/** The ledger while processes, Redis and Postgres die: every answer is in it once, at the cost that its caller saw. */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { nanoOf } from "#ledger/money.ts";
import { startControl, type TestControl } from "../support/control.ts";
import { catalogueOf, type Gateway, startGateway, until } from "../support/gateway.ts";
import { startPostgres } from "../support/postgres.ts";

const postgres = await startPostgres();
const directory = await mkdtemp(join(tmpdir(), "sluice-ledger-"));
after(async () => {
  await postgres[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

const paced = "sim-text;tokens=400;rate=40;first=0";
const catalogue = catalogueOf([
  { id: "fast", model: "sim-text;rate=0;first=0" },
  { id: "paced", model: paced },
]);
const messages = [{ role: "user" as const, content: "Hello" }];

interface LedgerRecord {
  id: string;
  requestId: string;
  outcome: string;
  cost: string;
  tokens: { input: number; output: number };
}

const start = (options = {}): Promise<Gateway> =>
  startGateway({ catalogue, isDurable: true, environment: { USAGE_DIRECTORY: directory }, ...options });

const environmentOf = async (gateway: Gateway): Promise<Record<string, string>> => ({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
  DATABASE_URL: await postgres.createDatabase(),
});

/** All records of the log, and that the totals say the same. */
async function recordsOf(control: TestControl): Promise<LedgerRecord[]> {
  const records: LedgerRecord[] = [];
  for (let cursor: string | null = ""; cursor !== null; ) {
    const page: { items: LedgerRecord[]; nextCursor: string | null } = await control.get(
      `/usage/records?limit=500${cursor && `&cursor=${cursor}`}`,
    );
    records.push(...page.items);
    cursor = page.nextCursor;
  }
  return records;
}

async function assertTotals(control: TestControl, records: readonly LedgerRecord[]): Promise<void> {
  const { total } = await control.get<{ total: { requests: number; cost: string; outputTokens: number } }>("/usage");
  const cost = records.reduce((sum, record) => sum + Math.round(Number(record.cost) * 1e9), 0);
  assert.deepEqual(
    [total.requests, Math.round(Number(total.cost) * 1e9), total.outputTokens],
    [records.length, cost, records.reduce((sum, { tokens }) => sum + tokens.output, 0)],
  );
}

/** Sends requests one after the other from several clients until told to stop; resolves to what they cost, by request. */
function startLoad(gateway: Gateway, clients: number, urlOf: (client: number) => string) {
  const costs = new Map<string, number>();
  let isOver = false;
  const running = Array.from({ length: clients }, async (_, client) => {
    while (!isOver) {
      const answer = await gateway
        .client({ url: urlOf(client) })
        .chat.completions.create({ model: "fast", messages })
        .withResponse()
        .catch(() => undefined);
      const usage = answer?.data.usage;
      if (answer === undefined || usage === undefined) continue;
      const nano = (usage.prompt_tokens * nanoOf(1) + usage.completion_tokens * nanoOf(2)) / 1_000_000;
      costs.set(answer.response.headers.get("x-request-id") as string, nano);
    }
  });
  return {
    costs,
    async stop() {
      isOver = true;
      await Promise.all(running);
    },
    /** For a test that fails before it stops the load. */
    [Symbol.dispose]() {
      isOver = true;
    },
  };
}

/** Every answer that a caller got is in the ledger once, at its cost, and the totals are the sum of the records. */
async function assertComplete(control: TestControl, costs: ReadonlyMap<string, number>): Promise<void> {
  let records: LedgerRecord[] = [];
  await until(
    "every answer is in the ledger",
    async () => {
      records = await recordsOf(control);
      const known = new Set(records.map(({ requestId }) => requestId));
      return [...costs.keys()].every((id) => known.has(id));
    },
    60_000,
  );
  const byRequest = Map.groupBy(records, ({ requestId }) => requestId);
  for (const [requestId, nano] of costs) {
    const found = byRequest.get(requestId) ?? [];
    assert.equal(found.length, 1, requestId);
    assert.equal(Math.round(Number(found[0]?.cost) * 1e9), nano, requestId);
  }
  await assertTotals(control, records);
}

test("a killed ingress: the worker records what its callers had, and each generation once", async () => {
  await using gateway = await start({ processes: "all", ingresses: 2 });
  await using control = await startControl(await environmentOf(gateway));
  const victim = gateway.ingresses[1];
  const streams = await Promise.all(
    Array.from({ length: 5 }, () =>
      gateway.post({ model: "paced", messages, stream: true }, { url: victim?.urls.api as string }),
    ),
  );
  for (const stream of streams) await stream.body?.getReader().read();
  using load = startLoad(gateway, 4, (client) => gateway.ingresses[client % 2]?.urls.api as string);
  await until("there was some load", () => load.costs.size > 100);
  await victim?.kill();
  await until("there was more load", () => load.costs.size > 200);
  await load.stop();
  await assertComplete(control, load.costs);
  await until(
    "the streams of the killed ingress are in the ledger",
    async () => (await recordsOf(control)).filter(({ outcome }) => outcome === "left").length === 5,
    60_000,
  );
  const records = await recordsOf(control);
  for (const record of records.filter(({ outcome }) => outcome === "left")) assert.ok(Number(record.cost) > 0);
  await assertTotals(control, records);
});

test("control stopped and started, Postgres killed, Redis killed: nothing is lost or counted twice", async () => {
  await using gateway = await start();
  const environment = await environmentOf(gateway);
  using load = startLoad(gateway, 6, () => gateway.url);
  const more = async (count: number) => {
    const goal = load.costs.size + count;
    await until("there was some load", () => load.costs.size >= goal, 60_000);
  };
  {
    await using _ = await startControl(environment);
    await more(200);
  }
  await more(300);
  await using control = await startControl(environment);
  await more(100);
  await postgres.kill();
  await more(300);
  await postgres.start();
  await more(100);
  await gateway.redis.restart();
  await more(300);
  gateway.redis.pause();
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  gateway.redis.resume();
  await more(200);
  await load.stop();
  await assertComplete(control, load.costs);
});
