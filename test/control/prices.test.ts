/** Prices: differences to the shipped list, applied list prices, and the cost of a change. */
import assert from "node:assert/strict";
import { readListPrices } from "#catalogue/list-prices.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { operator, startApi } from "./api.ts";
import { onBoth } from "./databases.ts";
import { usageRecord } from "./records.ts";

const groq = { dialect: "openai-chat", baseUrl: "https://api.groq.com/openai/v1" };
const target = "openai/gpt-oss-120b";
const model = { prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: "groq", model: target }] };

async function startHere(database: Parameters<typeof startApi>[0]) {
  for (const table of ["catalogue_revisions", "catalogue_active"] as const) await database.deleteFrom(table).execute();
  const api = await startApi(database);
  const call = (method: string, path: string, body?: object, revision = 0) =>
    api.call(operator, method, `/catalogue/${path}`, body, { "if-match": `"${revision}"` });
  await call("PUT", "upstreams/groq", groq, 0);
  await call("PUT", "models/oss", model, 1);
  return { api, call, [Symbol.asyncDispose]: () => api[Symbol.asyncDispose]() };
}

onBoth("differences to the list are shown and applied, at once or from a day on", async (database) => {
  await using opened = await startHere(database);
  const { call } = opened;
  const listed = readListPrices().vendors.groq?.models[target];
  assert.ok(listed !== undefined && listed.inputPerMillion > 0);
  const { items } = (await call("GET", "prices")).body;
  assert.deepEqual(
    items.map(({ model, source, state }: Record<string, unknown>) => [model, source, state]),
    [
      ["one", "file", "unknown"],
      ["oss", "database", "different"],
    ],
  );
  const [, oss] = items;
  assert.equal(oss.listPrices.inputPerMillion, listed.inputPerMillion);
  assert.ok(
    oss.differences.some(
      ({ price, difference }: Record<string, unknown>) => price === "inputPerMillion" && difference === "dearer",
    ),
  );
  const item = { model: "oss", upstream: "groq", target };
  const later = await call("POST", "prices/apply", { items: [{ ...item, from: "2100-01-01" }] }, 2);
  assert.equal(later.status, 200, later.text);
  const pricesNow = async () =>
    (await call("GET", "entries")).body.models.find(({ name }: { name: string }) => name === "oss").entry.prices;
  const dated = await pricesNow();
  assert.equal(dated.inputPerMillion, 1);
  assert.equal(dated.periods[0].from, "2100-01-01");
  assert.equal(dated.periods[0].inputPerMillion, listed.inputPerMillion);
  assert.equal((await call("POST", "prices/apply", { items: [item] }, 3)).status, 200);
  assert.equal((await pricesNow()).inputPerMillion, listed.inputPerMillion);
  assert.equal((await call("GET", "prices")).body.items[1].state, "equal");
  assert.equal((await call("POST", "prices/apply", { items: [{ ...item, model: "one" }] }, 4)).status, 409);
  assert.equal((await call("POST", "prices/apply", { items: [{ ...item, target: "unknown" }] }, 4)).status, 404);
});

onBoth("a target with prices of its own gets the list prices itself", async (database) => {
  await using opened = await startHere(database);
  const { call } = opened;
  const own = { ...model, route: [{ upstream: "groq", model: target, prices: model.prices }] };
  assert.equal((await call("PUT", "models/oss", own, 2)).status, 200);
  const items = [{ model: "oss", upstream: "groq", target }];
  assert.equal((await call("POST", "prices/apply", { items }, 3)).status, 200);
  const { entry } = (await call("GET", "entries")).body.models.find(({ name }: { name: string }) => name === "oss");
  assert.deepEqual(entry.prices, model.prices);
  assert.equal(entry.route[0].prices.inputPerMillion, readListPrices().vendors.groq?.models[target]?.inputPerMillion);
  assert.equal((await call("GET", "prices")).body.items[1].state, "equal");
});

onBoth("an estimate prices the usage of the last 30 days anew, with the factors of groups", async (database) => {
  await using opened = await startHere(database);
  const { call } = opened;
  const receivedAt = Date.now() - 86_400_000;
  const tokens = { inputTokens: 1_000_000, outputTokens: 500_000, cachedInputTokens: 0, reasoningTokens: 0 };
  const used = { ...tokens, cacheWriteTokens: 0, model: "oss", modelAnswered: "oss", receivedAt };
  await insertUsage(database, [
    usageRecord({ ...used, group: "default", cost: "3000000000" }),
    usageRecord({ ...used, group: "last", cost: "3000000000" }),
    usageRecord({ ...used, group: "last", cost: "3000000000", receivedAt: Date.parse("2020-01-01") }),
  ]);
  const ask = async (body: object) => (await call("POST", "prices/estimate", { model: "oss", ...body })).body;
  const same = await ask({ prices: model.prices });
  assert.deepEqual([same.requests, same.inputTokens, same.outputTokens, same.isExact], [2, 2_000_000, 1_000_000, true]);
  assert.deepEqual([Number(same.present), Number(same.proposed)], [4, 4]);
  const dearer = await ask({ prices: { inputPerMillion: 2, outputPerMillion: 2, perRequest: 0.5 } });
  assert.equal(Number(dearer.proposed), 7);
  const ratio = await ask({ prices: model.prices, priceRatios: { last: 1.5 } });
  assert.equal(Number(ratio.proposed), 5);
  const period = await ask({ prices: { ...model.prices, periods: [{ from: "2000-01-01", ratio: 0.5 }] } });
  assert.equal(Number(period.proposed), 2);
  const tiered = { ...model.prices, tiers: [{ aboveInputTokens: 1, inputPerMillion: 9 }] };
  assert.equal((await ask({ prices: tiered })).isExact, false);
  assert.equal((await call("POST", "prices/estimate", { model: "none", prices: model.prices })).status, 404);
  assert.equal((await call("POST", "prices/estimate", { model: "oss", prices: { inputPerMillion: -1 } })).status, 400);
});

onBoth("names of an object's own methods are names like others", async (database) => {
  await using opened = await startHere(database);
  const { api, call } = opened;
  await call("PUT", "groups/constructor", { models: ["*"], priceRatio: 2 }, 2);
  const route = [{ upstream: "groq", model: "constructor" }];
  const added = await call("PUT", "models/constructor", { ...model, route }, 3);
  assert.equal(added.status, 200, added.text);
  const used = { model: "constructor", group: "constructor", receivedAt: Date.now() - 86_400_000 };
  await insertUsage(database, [usageRecord({ ...used, inputTokens: 1_000_000 })]);
  const estimate = await call("POST", "prices/estimate", {
    model: "constructor",
    prices: model.prices,
    priceRatios: {},
  });
  assert.equal(estimate.status, 200, estimate.text);
  const { items } = (await call("GET", "prices")).body;
  const { state } = items.find((item: { model: string }) => item.model === "constructor");
  assert.equal(state, "unknown");
  const apply = (item: object) => call("POST", "prices/apply", { items: [{ upstream: "groq", ...item }] }, 4);
  assert.equal((await apply({ model: "toString", target })).status, 409);
  assert.equal((await apply({ model: "constructor", target: "constructor" })).status, 404);
  assert.equal((await call("DELETE", "upstreams/constructor", undefined, 4)).status, 404);
  const { body } = await api.call(operator, "GET", "/catalogue/entries");
  assert.equal(body.revision, 4);
});
