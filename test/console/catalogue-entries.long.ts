/** The catalogue's entries in the console: read-only ones of the file, and those made here. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { readListPrices } from "#catalogue/list-prices.ts";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { record } from "./usage-support.ts";

const browser = await startConsole({ catalogue: catalogueOf([{ id: "from-file", model: "sim-fast" }]) });
after(() => browser[Symbol.asyncDispose]());
const { control } = browser;

interface Entries {
  revision: number;
  models: {
    name: string;
    entry: { prices: Record<string, unknown>; route: { upstream: string; weight?: number }[] };
  }[];
}
const readEntries = () => control.get<Entries>("/catalogue/entries");
const routeNow = async () => {
  const { models } = await readEntries();
  return models.find(({ name }) => name === "vendor/new")?.entry.route.map(({ upstream }) => upstream);
};

async function put(path: string, body: object): Promise<void> {
  const { revision } = await readEntries();
  const response = await control.call("PUT", `/catalogue/${path}`, body, { "if-match": `"${revision}"` });
  assert.equal(response.status, 200, await response.text());
}

const upstream = { dialect: "openai-chat", baseUrl: `${browser.gateway.simulatorUrl}/v1` };
await put("upstreams/one", upstream);
await put("upstreams/two", upstream);
const model = {
  prices: { inputPerMillion: 1, outputPerMillion: 2 },
  route: [
    { upstream: "one", model: "sim-fast", weight: 3 },
    { upstream: "two", model: "sim-fast", weight: 1 },
  ],
};
await put(`models/${encodeURIComponent("vendor/new")}`, model);

const apply = async (page: Page) => {
  await page.getByRole("button", { name: "Check and put in force" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("region", { name: "Lines that differ" }).waitFor();
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Put in force" }).click();
};

test("entries have a badge of their source, and those of the file are read-only", async () => {
  await using opened = await browser.open("/catalogue");
  const { page } = opened;
  const rowOf = (name: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name }) });
  await rowOf("from-file").getByText("File", { exact: true }).waitFor();
  await rowOf("vendor/new").getByText("Console", { exact: true }).waitFor();
  await assertAccessible(page);
  await page.getByRole("link", { name: "from-file" }).click();
  await page.getByText("and is changed there").waitFor();
  assert.equal(await page.getByRole("button", { name: "Add a target" }).count(), 0);
  assert.ok(await page.getByRole("textbox", { name: "Input, per million tokens", exact: true }).isDisabled());
  await assertAccessible(page);
});

test("targets move by keyboard and by dragging; a price changes; the change is shown before it is made", async () => {
  await using opened = await browser.open(`/catalogue/models/${encodeURIComponent("vendor/new")}`);
  const { page } = opened;
  await page.getByText("75% of the requests").waitFor();
  await assertAccessible(page);
  await page.getByRole("button", { name: "Move two / sim-fast up" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("textbox", { name: "Output, per million tokens", exact: true }).fill("2.5");
  await apply(page);
  await page.getByRole("region", { name: "Not in force yet" }).waitFor({ state: "detached" });
  assert.deepEqual(await routeNow(), ["two", "one"]);
  const { models } = await readEntries();
  assert.equal(models.find(({ name }) => name === "vendor/new")?.entry.prices.outputPerMillion, 2.5);
  const cards = page.getByRole("listitem");
  await cards.nth(1).locator("[draggable]").dragTo(cards.nth(0));
  await apply(page);
  await page.getByRole("region", { name: "Not in force yet" }).waitFor({ state: "detached" });
  assert.deepEqual(await routeNow(), ["one", "two"]);
});

test("an edit that another one has overtaken is refused, and says so", async () => {
  await using opened = await browser.open(`/catalogue/models/${encodeURIComponent("vendor/new")}`, { expected: /409/ });
  const { page } = opened;
  await page.getByRole("button", { name: "Move two / sim-fast up" }).click();
  await put(`models/${encodeURIComponent("vendor/new")}`, { ...model, contextWindow: 1_000 });
  await page.getByRole("button", { name: "Check and put in force" }).click();
  await page
    .getByRole("dialog")
    .getByRole("alert")
    .getByText(/has changed this meanwhile/)
    .waitFor();
  assert.deepEqual(await routeNow(), ["one", "two"]);
});

test("an entry is added and removed as text, and a mistake is said in words", async () => {
  await using opened = await browser.open("/catalogue?tab=groups", { expected: /400/ });
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Add a group" }).click();
  await dialog.getByRole("textbox", { name: "Name" }).fill("partners");
  await dialog.getByRole("textbox", { name: /JSON/ }).fill('{ "models": ["*"], "weight": "x" }');
  await dialog.getByRole("button", { name: "Check the change" }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByRole("button", { name: "Cancel", exact: true }).last().click();
  await page.getByRole("button", { name: "Add a group" }).click();
  await dialog.getByRole("textbox", { name: "Name" }).fill("partners");
  await dialog.getByRole("button", { name: "Check the change" }).click();
  await dialog.getByRole("button", { name: "Put in force" }).click();
  await page.getByRole("button", { name: "Actions on partners" }).click();
  await page.getByRole("menuitem", { name: "Remove" }).click();
  await dialog.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("cell", { name: "partners", exact: true }).waitFor({ state: "detached" });
});

const target = "openai/gpt-oss-120b";
const readModel = async (id: string) => (await readEntries()).models.find(({ name }) => name === id)?.entry;

test("list prices are compared, ticked and applied, with the cost of last month at them", async () => {
  await put("upstreams/groq", { dialect: "openai-chat", baseUrl: "https://api.groq.com/openai/v1" });
  await put("models/oss", { ...model, route: [{ upstream: "groq", model: target }] });
  const million = { inputTokens: 1_000_000, outputTokens: 0, cost: "1000000000" };
  await record(browser, "default", [
    { model: "oss", modelAnswered: "oss", receivedAt: Date.now() - 86_400_000, ...million },
  ]);
  await using opened = await browser.open("/catalogue?tab=prices");
  const { page } = opened;
  const tick = page.getByRole("checkbox", { name: `Apply the list prices of groq / ${target} to oss` });
  await tick.check();
  await assertAccessible(page);
  await page.getByRole("button", { name: "Check list prices of 1, at once" }).click();
  const dialog = page.getByRole("dialog");
  const estimate = dialog.getByRole("table", { name: "Usage of the last 30 days" }).getByRole("row").nth(1);
  const cells = estimate.getByRole("cell");
  await cells.nth(4).waitFor();
  const list = readListPrices().vendors.groq?.models[target]?.inputPerMillion;
  assert.deepEqual(await cells.allTextContents(), ["oss", "1", "$1.00", "$1.00", `$${list}`]);
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Put in force" }).click();
  await tick.waitFor({ state: "detached" });
  assert.equal((await readModel("oss"))?.prices.inputPerMillion, list);
});

test("other prices are planned from a day on, with the cost of last month at them, and taken back", async () => {
  await using opened = await browser.open("/catalogue/models/oss");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Plan other prices from a day" }).click();
  await dialog.getByLabel("First day").fill("2100-01-01");
  await dialog.getByRole("textbox", { name: "Input, per million tokens", exact: true }).fill("3");
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Plan", exact: true }).click();
  await page.getByText("from 2100-01-01").waitFor();
  await page.getByRole("button", { name: "Check and put in force" }).click();
  await dialog.getByRole("cell", { name: "$3.00" }).waitFor();
  await dialog.getByRole("button", { name: "Put in force" }).click();
  await dialog.waitFor({ state: "detached" });
  assert.deepEqual((await readModel("oss"))?.prices.periods, [{ from: "2100-01-01", inputPerMillion: 3 }]);
  await page.getByRole("button", { name: "Remove from 2100-01-01" }).click();
  await page.getByText("from 2100-01-01").waitFor({ state: "detached" });
});

test("a request is tried, with the target that answers and why, and with a target that counts as failing", async () => {
  await using opened = await browser.open(`/catalogue/models/${encodeURIComponent("vendor/new")}`);
  const { page } = opened;
  const order = page.getByRole("table", { name: "Targets in the order in which they were tried" });
  const rowOf = (name: string) => order.getByRole("row").filter({ hasText: name });
  await page.getByRole("checkbox", { name: "one / sim-fast" }).check();
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await page.getByText("two / sim-fast answered").waitFor();
  await rowOf("two / sim-fast").getByText("Answered").waitFor();
  await assertAccessible(page);
  await page.getByRole("checkbox", { name: "one / sim-fast" }).uncheck();
  await page.getByRole("checkbox", { name: "two / sim-fast" }).check();
  await page.getByRole("button", { name: "Try", exact: true }).click();
  await page.getByText("one / sim-fast answered").waitFor();
  await page.getByRole("link", { name: "Times and cost" }).click();
  await page.getByText("Cost").first().waitFor();
});
