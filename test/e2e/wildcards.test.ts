/** Models that no entry of the catalogue names, passed through by a wildcard. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

const upstream = await startScriptedUpstream(jsonAnswer(chatCompletion));
const gateway = await startGateway({
  catalogue: `groups:
  default: { models: ["*"] }
  narrow: { models: ["vendor/gpt-*"] }
  poor: { models: ["*"], keyLimits: { budgetPerDay: 0.000001 } }
publicGroup: default
upstreams:
  vendor: { dialect: openai-chat, baseUrl: "${upstream.url}", circuitBreakerFailuresMax: 2 }
models:
  - id: "vendor/*"
    prices: { inputPerMillion: 1, outputPerMillion: 2 }
    pricesByModel: { gpt-listed: { inputPerMillion: 3, outputPerMillion: 4 } }
    retries: 0
    route: [{ upstream: vendor, model: "*" }]
  - { id: "free/*", prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [{ upstream: vendor, model: "*" }] }
  - { id: "priced/*", pricesByModel: { one: { inputPerMillion: 1, outputPerMillion: 1 } }, route: [{ upstream: vendor, model: "*" }] }
`,
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const ask = async (model: string, key = gateway.key) => {
  const response = await gateway.post({ model, messages: [{ role: "user", content: "hello" }] }, { key });
  // biome-ignore lint/suspicious/noExplicitAny: an answer or an error.
  return { status: response.status, body: (await response.json()) as any };
};
const get = async (path: string) => {
  const response = await fetch(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${gateway.key}` } });
  // biome-ignore lint/suspicious/noExplicitAny: a list, a model or an error.
  return { status: response.status, body: (await response.json()) as any };
};

test("a request goes to the upstream with the rest of the name, and its answer has the whole name", async () => {
  const { status, body } = await ask("vendor/gpt-foo");
  assert.deepEqual([status, body.model], [200, "vendor/gpt-foo"]);
  assert.equal(upstream.last().json.model, "gpt-foo");
});

test("its usage record has the whole name and the wildcard's prices, and metrics have one name for all of them", async () => {
  for (const model of ["vendor/gpt-a", "vendor/gpt-b", "vendor/gpt-listed"])
    assert.equal((await ask(model)).status, 200);
  let records = "";
  await until("the records", async () => {
    records = JSON.stringify(await redis.xrange(keyspaceOf("sluice").usage, "-", "+"));
    return records.includes("vendor/gpt-listed");
  });
  assert.ok(records.includes("vendor/gpt-a") && records.includes("vendor/gpt-b"));
  let metrics = "";
  await until("the tokens", async () => {
    metrics = await metricsOf(gateway.workers[0]);
    return /^sluice_tokens_total\{model="vendor\/gpt-listed",kind="input"\} [1-9]/m.test(metrics);
  });
  assert.match(metrics, /^sluice_tokens_total\{model="vendor\/\*",kind="input"\} [1-9]/m);
  assert.ok(!metrics.includes("gpt-a"));
});

test("lists have the models with prices of their own; every other one can be retrieved", async () => {
  const { data } = (await get("/v1/models")).body;
  assert.deepEqual(
    data.map(({ id }: { id: string }) => id),
    ["vendor/gpt-listed", "priced/one"],
  );
  for (const path of ["vendor/gpt-foo", "vendor%2Fgpt-foo"]) {
    const { status, body } = await get(`/v1/models/${path}`);
    assert.deepEqual([status, body.id, body.pricing.prompt], [200, "vendor/gpt-foo", "0.000001"], path);
  }
});

test("a model without a price, and one outside of the key's group, does not exist", async () => {
  const narrow = await gateway.createKey("narrow");
  const own = await gateway.createKey("default", { models: ["vendor/gpt-*"] });
  const calls = upstream.requests.length;
  for (const [model, key] of [
    ["priced/two", gateway.key],
    ["vendor/../files", gateway.key],
    ["vendor/o9", narrow],
    ["vendor/o9", own],
  ] as const) {
    const { status, body } = await ask(model, key);
    assert.deepEqual([status, body.error.code], [404, "model_not_found"], model);
  }
  assert.equal(upstream.requests.length, calls);
  for (const key of [narrow, own]) assert.equal((await ask("vendor/gpt-9", key)).status, 200);
});

test("a spent budget refuses a model with the wildcard's price, and not a free one", async () => {
  const key = await gateway.createKey("poor");
  await until("the budget is spent", async () => (await ask("vendor/gpt-foo", key)).status === 429);
  assert.equal((await ask("free/anything", key)).status, 200);
});

test("all models that are not listed share the circuit breaker of their target", async () => {
  upstream.answerWith(jsonAnswer({ error: { message: "down" } }, 500));
  await ask("vendor/gpt-1");
  await ask("vendor/gpt-2");
  const status = async () => (await fetch(`${gateway.workers[0]?.urls.operations}/status`)).text();
  await until("the circuit breaker is open", async () =>
    (await status()).includes('{"target":"vendor/*","state":"open"}'),
  );
  assert.ok(!(await status()).includes("gpt-1"));
});
