/** From a client's call to the ledger: real Redis, ingress, worker and control. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { nanoOf } from "#ledger/money.ts";
import { encodeUsageRecord } from "#ledger/usage-record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startControl } from "../support/control.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { usageRecord } from "./records.ts";

interface UsageRecords {
  items: {
    id: string;
    requestId: string;
    outcome: string;
    status: number;
    errorCode: string | null;
    cost: string;
    tokens: { input: number; output: number };
    price: { inputPerMillion: string; outputPerMillion: string } | null;
    upstream: string;
    target: string;
    boundMs: number | null;
    chunks: number;
  }[];
  nextCursor: string | null;
}

const gateway = await startGateway({
  catalogue: catalogueOf([
    { id: "fast", model: "sim-text;rate=0;first=0" },
    { id: "broken", model: "sim-text;status=400" },
    { id: "endless", model: "sim-text;tokens=100000;rate=50;first=0" },
  ]),
});
const control = await startControl({
  REDIS_URL: gateway.redis.url,
  SLUICE_CATALOGUE: gateway.catalogueFile,
  SIMULATOR_URL: gateway.simulatorUrl,
});
after(async () => {
  await control[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
});

const messages = [{ role: "user" as const, content: "Hello" }];
const recordsOf = (query: string) => control.get<UsageRecords>(`/usage/records?${query}`);
const only = async (query: string) => {
  let records: UsageRecords["items"] = [];
  await until("the ledger has the record", async () => {
    records = (await recordsOf(query)).items;
    return records.length > 0;
  });
  assert.equal(records.length, 1);
  return records[0] as UsageRecords["items"][number];
};

test("a call is in the ledger within two seconds, with its cost to the last unit", async () => {
  const key = await gateway.createKey("default", { account: "first" });
  const { usage } = await gateway.client({ key }).chat.completions.create({ model: "fast", messages });
  const since = performance.now();
  const record = await only("account=first");
  assert.ok(performance.now() - since < 2_000);
  assert.deepEqual(
    [record.outcome, record.status, record.upstream, record.target, record.price?.inputPerMillion],
    ["complete", 200, "simulator", "sim-text;rate=0;first=0", "1"],
  );
  assert.deepEqual([record.tokens.input, record.tokens.output], [usage?.prompt_tokens, usage?.completion_tokens]);
  const nano = (record.tokens.input * nanoOf(1) + record.tokens.output * nanoOf(2)) / 1_000_000;
  assert.equal(Math.round(Number(record.cost) * 1e9), nano);
  assert.ok(record.boundMs !== null && record.chunks > 0);

  const sums = await control.get<{ total: { requests: number; cost: string }; rows: object[] }>(
    "/usage?account=first&by=model,key",
  );
  assert.equal(sums.total.requests, 1);
  assert.equal(sums.total.cost, record.cost);
  assert.equal(sums.rows.length, 1);
  const csv = await (await control.call("GET", "/usage.csv?account=first&by=model")).text();
  assert.match(csv, /^time,model,requests,.*\r\n.*,fast,1,/);
  const recordOf = (id: string) => control.get<{ keyName: string | null }>(`/usage/records/${id}`);
  await until("control knows the key", async () => (await recordOf(record.id)).keyName !== null);
  assert.deepEqual(await recordOf(record.requestId), await recordOf(record.id));
});

test("texts of callers that Postgres cannot store are in the ledger with replaced characters", async () => {
  const key = await gateway.createKey("default", { account: "odd-texts" });
  const users = ["a\u0000b", "a\ud800b", `${"x".repeat(199)}\u{1f600}`];
  for (const user of users) await gateway.client({ key }).chat.completions.create({ model: "fast", messages, user });
  await until("the ledger has the records", async () => (await recordsOf("account=odd-texts")).items.length === 3);
  const { items } = await control.get<{ items: { user: string }[] }>("/usage/records?account=odd-texts");
  assert.deepEqual(items.map(({ user }) => user).reverse(), ["a\ufffdb", "a\ufffdb", `${"x".repeat(199)}\ufffd`]);
});

test("a record that the database refuses holds up no other, and is kept", async (context) => {
  const redis = await connectRedis(gateway.redis.url, "request");
  context.after(() => redis.disconnect());
  const keyspace = keyspaceOf("sluice");
  const [refused, ...good] = [{ calls: 3_000_000_000 }, {}, {}].map((more) =>
    encodeUsageRecord(usageRecord({ account: "beside-refused", ...more })),
  );
  await redis.xadd(keyspace.usage, "*", "r", [good[0], refused, good[1]].join("\n"));
  await until("the ledger has the others", async () => (await recordsOf("account=beside-refused")).items.length === 2);
  const invalid = await redis.xrange(keyspace.usageInvalid, "-", "+");
  assert.deepEqual(
    invalid.map(([, fields]) => fields),
    [["r", refused]],
  );
  const metrics = await (await fetch(`${control.operations}/metrics`)).text();
  assert.match(metrics, /^sluice_ledger_invalid_records 1$/m);
});

test("refusals, failures and callers who leave have records too", async () => {
  const key = await gateway.createKey("default", { account: "second", limits: { requestsPerMinute: 2 } });
  const ask = (model: string, signal?: AbortSignal) =>
    gateway.post({ model, messages, stream: true }, { key, ...(signal && { signal }) });
  assert.equal((await ask("broken")).status, 400);
  const leaving = new AbortController();
  await (await ask("endless", leaving.signal)).body?.getReader().read();
  leaving.abort();
  assert.equal((await ask("fast")).status, 429);
  await until("all three are in the ledger", async () => (await recordsOf("account=second")).items.length === 3);
  const { items } = await recordsOf("account=second");
  const [refused, failed, left] = ["refused", "failed", "left"].map((outcome) =>
    items.find((item) => item.outcome === outcome),
  );
  assert.deepEqual([refused?.status, refused?.errorCode, refused?.cost], [429, "rate_limited", "0"]);
  assert.deepEqual([failed?.status, failed?.cost], [400, "0"]);
  assert.ok(Number(left?.cost) > 0);
});

test("pages of the log join without gaps, and filters are checked", async () => {
  const key = await gateway.createKey("default", { account: "third" });
  await Promise.all(Array.from({ length: 7 }, () => gateway.post({ model: "fast", messages }, { key })));
  await until("all are in the ledger", async () => (await recordsOf("account=third")).items.length === 7);
  const whole = await recordsOf("account=third");
  const paged: string[] = [];
  let cursor: string | null = "";
  while (cursor !== null) {
    const page: UsageRecords = await recordsOf(`account=third&limit=3${cursor && `&cursor=${cursor}`}`);
    paged.push(...page.items.map(({ id }) => id));
    cursor = page.nextCursor;
  }
  assert.deepEqual(
    paged,
    whole.items.map(({ id }) => id),
  );
  for (const query of ["by=account,model,key", "by=secret", "interval=week", "timeZone=Mars/Base", "from=yesterday"])
    assert.equal((await control.call("GET", `/usage?${query}`)).status, 400, query);
  for (const path of ["/usage", "/usage.csv", "/usage/records", "/usage/records.csv"])
    for (const [from, status] of [
      ["2031-05-21T00:00:00Z", 200],
      ["2031-05-21T00:00:01Z", 400],
    ] as const) {
      const query = `${path}?from=${from}&to=2031-05-21T00:00:00Z`;
      assert.equal((await control.call("GET", query)).status, status, query);
    }
  for (const interval of ["none", "half-hour", "hour", "day", "month"])
    for (const path of ["/usage", "/usage.csv"]) {
      const query = `${path}?interval=${interval}&timeZone=Mars/Base`;
      assert.equal((await control.call("GET", query)).status, 400, query);
    }
  assert.equal((await control.call("GET", "/usage/records?cursor=x")).status, 400);
});

test("a caller reads the usage and the budgets of its own key with that key alone", async () => {
  const key = await gateway.createKey("default", {
    account: "fourth",
    limits: { budgetPerDay: 0.0001, budgetTotal: 5 },
  });
  const read = async <Answer>(path: string) => {
    const response = await fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${key}` } });
    assert.equal(response.status, 200, path);
    return (await response.json()) as Answer;
  };
  interface OwnUsage {
    today: { requests: number; cost: string };
    this_month: { cost: string };
    total: { cost: string };
    budgets: { period: string; limit: number; spent: number; remaining: number }[];
  }
  assert.equal((await read<OwnUsage>("/v1/usage")).today.requests, 0);
  await until("the budget is spent", async () => {
    const answer = await (await gateway.post({ model: "fast", messages }, { key })).json();
    return (
      (answer as { error?: { message: string } }).error?.message.includes("has spent its budget of 0.0001 USD") === true
    );
  });
  let total = { cost: "" };
  await until("the key sees what the ledger has, and the ledger what the budget has", async () => {
    ({ total } = await control.get<{ total: { cost: string } }>("/usage?account=fourth"));
    const { today, budgets } = await read<OwnUsage>("/v1/usage");
    return today.cost === total.cost && budgets[0]?.spent === Number(total.cost);
  });
  await until("nothing is missing", async () => {
    const { today } = await read<OwnUsage>("/v1/usage");
    return today.requests > 1 && today.cost !== "0" && today.cost === total.cost;
  });
  const own = await read<OwnUsage>("/v1/usage");
  assert.deepEqual([own.this_month.cost, own.total.cost], [total.cost, total.cost]);
  assert.deepEqual(
    own.budgets.map(({ period, spent }) => [period, spent]),
    [
      ["day", Number(total.cost)],
      ["total", Number(total.cost)],
    ],
  );
  const { info } = await read<{ info: { spend: number; max_budget: number } }>("/key/info");
  assert.deepEqual([info.spend, info.max_budget], [Number(total.cost), 0.0001]);
  const { data } = await read<{ data: { usage: number; usage_daily: number; limit: number } }>("/api/v1/key");
  assert.deepEqual([data.usage, data.usage_daily, data.limit], [Number(total.cost), Number(total.cost), 0.0001]);
  assert.equal((await fetch(`${gateway.url}/v1/usage`)).status, 401);
});
