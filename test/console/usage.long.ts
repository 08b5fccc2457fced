/** The page on usage in a real browser. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";
import { record } from "./usage-support.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());

const hour = 3_600_000;
const now = Date.now();
const account = "usage-page";
await record(
  browser,
  account,
  Array.from({ length: 240 }, (_, index) => ({
    model: `model-${index % 12}`,
    modelAnswered: `model-${index % 12}`,
    keyId: `key_${index % 3}`,
    receivedAt: now - (index % 40) * hour,
    cost: String(1_234_567 * ((index % 12) + 1)),
    upstreamCost: String(1_000_000 * ((index % 12) + 1)),
    ...(index % 20 === 0 && { outcome: "failed" as const, errorCode: "upstream_failed", status: 502, cost: "0" }),
  })),
);
interface Sums {
  total: { requests: number; cost: string; margin: string; inputTokens: number };
}
/** With ordinary spaces. */
const plain = (text: string) => text.replaceAll("\u202f", " ");
const page = (more = "") => `/usage?account=${account}&range=7d${more}`;

test("the total of the table, the tiles and the CSV are those of the API", async () => {
  const { total } = await browser.control.get<Sums>(`/usage?account=${account}&interval=none`);
  await using opened = await browser.open(page());
  const { page: tab } = opened;
  const cost = tab.locator("[data-total=cost] span");
  await cost.waitFor();
  const exact = new Intl.NumberFormat("en", {
    style: "currency",
    currency: "USD",
    currencyDisplay: "narrowSymbol",
    maximumFractionDigits: 9,
  }).format(total.cost as Intl.StringNumericLiteral);
  assert.equal(await cost.getAttribute("title"), exact);
  assert.equal(await tab.locator("[data-measure=cost]").getAttribute("title"), exact);
  assert.equal(await tab.locator("[data-total=requests]").textContent(), String(total.requests));
  assert.equal(await tab.locator("[data-measure=requests]").textContent(), String(total.requests));

  await tab.getByRole("button", { name: "CSV" }).click();
  const download = tab.waitForEvent("download");
  await tab.getByRole("menuitem", { name: /^Groups/ }).click();
  const csv = await readFile(await (await download).path(), "utf8");
  const [names = [], ...rows] = csv
    .trim()
    .split("\r\n")
    .map((line) => line.split(","));
  assert.equal(rows.length, 12);
  const place = names.indexOf("cost");
  const sum = rows.reduce((all, row) => all + Math.round(Number(row[place]) * 1e9), 0);
  assert.equal(sum, Math.round(Number(total.cost) * 1e9));
});

test("the plot has the eight largest groups and the others, and the same figures as a table", async () => {
  await using opened = await browser.open(page("&measure=requests&interval=day"));
  const { page: tab } = opened;
  const legend = tab.locator("[data-legend]");
  await legend.getByText("Others").waitFor();
  assert.equal(await legend.locator("svg").count(), 9);
  await tab.getByRole("img", { name: "Requests over time, by Model" }).waitFor();
  await tab.getByRole("button", { name: "Show figures" }).click();
  const figures = tab.getByRole("region", { name: "Requests over time, by Model" });
  await figures.waitFor();
  const cells = await figures.locator("tbody td.number").allTextContents();
  assert.equal(
    cells.reduce((sum, text) => sum + Number(text), 0),
    240,
  );
});

test("what is chosen is in the address, and survives a reload", async () => {
  await using opened = await browser.open(page());
  const { page: tab } = opened;
  await tab.getByRole("button", { name: /^Error rate/ }).click();
  await tab.getByRole("combobox", { name: "Group by" }).click();
  await tab.getByRole("option", { name: "Group by: Key" }).click();
  await tab.getByRole("switch", { name: "Compare with the period before" }).check();
  await tab.waitForURL(/compare=1/);
  const search = new URL(tab.url()).searchParams;
  assert.deepEqual([search.get("measure"), search.get("by"), search.get("account")], ["errorRate", "key", account]);
  await tab.reload();
  await tab.getByRole("img", { name: "Error rate over time, by Key" }).waitFor();
  await tab.locator("[data-legend]").getByText("Period before").waitFor();
  await tab.getByRole("columnheader", { name: "Change: Error rate" }).waitFor();
  assert.equal(await tab.locator("[data-legend] svg").count(), 4);
});

test("a filter is chosen from what was used", async () => {
  await using opened = await browser.open(page());
  const { page: tab } = opened;
  await tab.getByRole("combobox", { name: "Model" }).click();
  await tab.getByRole("option", { name: "model-7" }).click();
  await tab.waitForURL(/model=model-7/);
  await tab.locator("[data-total=requests]").getByText("20", { exact: true }).waitFor();
});

test("a view is saved, opened in another browser, shared, and removed after a question", async () => {
  await using opened = await browser.open(page("&measure=tokens&by=key"));
  const { page: tab } = opened;
  await tab.getByRole("button", { name: "Views" }).click();
  await tab.getByRole("button", { name: "Save this view" }).click();
  await tab.getByLabel("Name").fill("Tokens by key");
  await tab.getByRole("button", { name: "Save", exact: true }).click();
  await tab.getByRole("dialog").waitFor({ state: "hidden" });
  await using elsewhere = await browser.open("/usage");
  const { page: other } = elsewhere;
  await other.getByRole("button", { name: "Views" }).click();
  await assertAccessible(other);
  await other.getByRole("button", { name: "Tokens by key", exact: true }).click();
  await other.getByRole("img", { name: "Tokens over time, by Key" }).waitFor();
  await other.getByRole("button", { name: "Views" }).click();
  await other.getByRole("button", { name: "Change Tokens by key" }).click();
  await other.getByRole("combobox", { name: "Who sees it" }).click();
  await other.getByRole("option", { name: "Members of" }).first().click();
  await other.getByRole("button", { name: "Save", exact: true }).click();
  await other.getByRole("dialog").waitFor({ state: "hidden" });
  await other.getByRole("button", { name: "Views" }).click();
  await other.getByText("Shared with").waitFor();
  await other.getByRole("button", { name: "Remove Tokens by key" }).click();
  await other.getByRole("dialog").getByText("for all members of").waitFor();
  await other.getByRole("button", { name: "Remove", exact: true }).click();
  await other.getByRole("dialog").waitFor({ state: "hidden" });
  await other.getByRole("button", { name: "Views" }).click();
  await other.getByText("No saved views yet").waitFor();
});

test("amounts that are unknown are dashes, and sums without them say so", async () => {
  const one = { receivedAt: now, cost: "2000000000", upstreamCost: "500000000", cachedInputTokens: 0 };
  const of = (model: string, more: object) => ({ ...one, model, modelAnswered: model, ...more });
  await browser.addAccount("unknown-amounts");
  await record(browser, "unknown-amounts", [
    of("known", {}),
    of("unknown", { upstreamCost: null }),
    of("searches", { otherUnits: [["webSearches", 1, null]] }),
  ]);
  await using opened = await browser.open("/usage?account=unknown-amounts&range=7d");
  const { page: tab } = opened;
  const rowOf = async (name: string) =>
    (await tab.locator("tr", { hasText: name }).locator("td").allTextContents()).slice(1, 4).map(plain);
  await tab.locator("[data-total=cost]").waitFor();
  assert.deepEqual(await rowOf("known"), ["$2.00", "$0.50", "$1.50"]);
  assert.deepEqual(await rowOf("unknown"), ["$2.00", "–", "–"]);
  assert.deepEqual(await rowOf("searches"), ["≥ $2.00", "$0.50", "≈ $1.50"]);
  assert.deepEqual(await rowOf("Total"), ["≥ $6.00", "≥ $1.00", "≈ $3.00"]);
  const tile = (name: string) => tab.locator(`[data-measure=${name}]`).textContent();
  assert.equal(plain((await tile("cost")) ?? ""), "≥ $6.00");
  assert.equal(await tile("cacheSaving"), "–");
  await tab.goto(`${browser.control.url}/accounts/unknown-amounts/statement`);
  await tab.getByRole("row", { name: /^searches 1 \d+ \d+ ≥\s\$2\.00$/ }).waitFor();
  await tab.getByText("≥ at least; a part is unknown").first().waitFor();
});

test("the columns that a person hides stay hidden", async () => {
  await using opened = await browser.open(page());
  const { page: tab } = opened;
  const failed = tab.getByRole("columnheader", { name: "Failed" });
  await failed.waitFor();
  await tab.getByRole("button", { name: "Columns" }).click();
  await tab.getByRole("menuitemcheckbox", { name: "Failed" }).click();
  await failed.waitFor({ state: "detached" });
  await tab.reload();
  await tab.getByRole("columnheader", { name: "Requests" }).waitFor();
  assert.equal(await failed.count(), 0);
});

test("an account without usage says so", async () => {
  await using opened = await browser.open("/usage?account=nobody");
  await opened.page.getByText("No usage matches").waitFor();
  await opened.page.getByText("No usage in this time").waitFor();
});

for (const colorScheme of ["light", "dark"] as const)
  test(`the page is accessible (${colorScheme})`, async () => {
    await using opened = await browser.open(page("&compare=1"), { colorScheme });
    await opened.page.locator("[data-total=cost]").waitFor();
    await opened.page.locator("canvas").waitFor();
    await assertAccessible(opened.page);
  });

test("the name of a CSV has the first and the last day of the person's time zone", async () => {
  const days = "&range=custom&from=2026-10-31T15:00:00Z&to=2026-11-30T15:00:00Z";
  await using opened = await browser.open(page(days), { timezoneId: "Asia/Tokyo" });
  const { page: tab } = opened;
  await tab.getByRole("button", { name: "CSV" }).click();
  const download = tab.waitForEvent("download");
  await tab.getByRole("menuitem", { name: /^Groups/ }).click();
  assert.equal((await download).suggestedFilename(), "usage-2026-11-01-to-2026-11-30.csv");
});
