/** The statement of an account and month: sums by model and key, and its form on paper. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";
import { record } from "./usage-support.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());
const receivedAt = Date.now();
const month = new Date(receivedAt).toISOString().slice(0, 7);
const one = { receivedAt, model: "alpha", modelAnswered: "alpha", inputTokens: 1_000, outputTokens: 200 };
await browser.addAccount("research");
await record(browser, "research", [
  { ...one, cost: "1250000000" },
  { ...one, cost: "250000000" },
  { ...one, model: "beta", modelAnswered: "beta", cost: "2000000000" },
]);

test("a month has its lines and its total, and another one nothing", async () => {
  await using opened = await browser.open(`/accounts/research/statement?month=${month}`);
  const { page } = opened;
  await page.getByRole("heading", { level: 1, name: "Statement of research" }).waitFor();
  await page.getByText("in UTC, so far").waitFor();
  await page.getByRole("row", { name: "alpha 2 2,000 400 $1.50" }).waitFor();
  await page.getByRole("row", { name: "Total 3 3,000 600 $3.50" }).first().waitFor();
  await assertAccessible(page);
  await page.emulateMedia({ media: "print" });
  assert.equal(await page.getByRole("link", { name: "Keys", exact: true }).isVisible(), false);
  assert.equal(await page.getByRole("button", { name: "Print" }).isVisible(), false);
  await page.emulateMedia({ media: "screen" });
  await page.getByLabel("Month").fill("2020-04");
  await page.getByText("Nothing was used in this month.").first().waitFor();
});
