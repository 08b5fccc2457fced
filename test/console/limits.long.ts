/** Limits that apply to a key now, the groups of an account, and each group's models. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { record } from "./usage-support.ts";

const browser = await startConsole({
  catalogue: catalogueOf([{ id: "fast", model: "sim-fast" }]).replace(
    "groups:\n",
    'groups:\n  limited: { models: ["*"], accountLimits: { budgetPerMonth: 8, requestsPerMinute: 90 } }\n',
  ),
});
after(() => browser[Symbol.asyncDispose]());

test("the page of a key shows what is used of its limits, what remains, and what its account has spent", async () => {
  const limits = { requestsPerMinute: 60, budgetPerDay: 0.5, budgetTotal: 20 };
  const body = { account: "default", group: "default", name: "limited", limits };
  const { id } = (await (await browser.control.call("POST", "/keys", body)).json()) as { id: string };
  for (const colorScheme of ["light", "dark"] as const) {
    await using opened = await browser.open(`/keys/${id}`, { colorScheme });
    const { page } = opened;
    const row = (name: string) => page.getByRole("region", { name: "Limits now" }).getByRole("row", { name });
    await row("Requests per minute").waitFor();
    const cells = (name: string) => row(name).getByRole("cell").allTextContents();
    assert.deepEqual((await cells("Requests per minute")).slice(1), ["This key", "0 of 60", "60", "Not in use"]);
    assert.deepEqual((await cells("Budget per day")).slice(2, 4), ["$0.00 of $0.50", "$0.50"]);
    assert.deepEqual((await cells("Budget in total")).slice(3), ["$20.00", "Never"]);
    await page.getByText("$0.00 this month").waitFor();
    await assertAccessible(page);
  }
});

test("an operator chooses the groups of an account, and sees which models each group has", async () => {
  await using opened = await browser.open("/accounts/default");
  const { page } = opened;
  await page.getByText("Groups: All groups").waitFor();
  await page.getByRole("button", { name: "Groups" }).click();
  await page.getByRole("switch", { name: "All groups" }).click();
  await page.getByRole("combobox", { name: "Groups" }).click();
  await page.getByRole("option", { name: "default" }).click();
  await page.keyboard.press("Tab");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Groups: default").waitFor();
  await page.getByRole("link", { name: "Models of the groups" }).click();
  const table = page.getByRole("table");
  await table.getByRole("columnheader", { name: /^default × 1/ }).waitFor();
  assert.ok((await table.getByRole("img", { name: "Yes" }).count()) > 0);
  await assertAccessible(page);
});

test("the page of an account has its limits with bars", async () => {
  await browser.addAccount("bars");
  const body = { account: "bars", group: "limited", name: "one of the account" };
  assert.equal((await browser.control.call("POST", "/keys", body)).status, 201);
  await using opened = await browser.open("/accounts/bars");
  const { page } = opened;
  const row = (name: string) => page.getByRole("region", { name: "Limits now" }).getByRole("row", { name });
  await row("Requests per minute").getByText("0 of 90").waitFor();
  await row("Budget per month").getByText("$0.00 of $8.00").waitFor();
  await assertAccessible(page);
});

test("a key over its budget says so, and its alert is on the start page", async () => {
  const ids = await Promise.all(
    ["spent", "thrifty"].map(async (name) => {
      const body = { account: "default", group: "default", name, limits: { budgetPerDay: 0.5 } };
      return ((await (await browser.control.call("POST", "/keys", body)).json()) as { id: string }).id;
    }),
  );
  await record(browser, "default", [{ keyId: ids[0] as string, receivedAt: Date.now(), cost: "1000000000" }]);
  await using opened = await browser.open("/keys");
  const { page } = opened;
  const row = (name: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
  await row("spent").getByText("Over budget").waitFor();
  await row("thrifty").getByText("Live").waitFor();
  await page.getByRole("link", { name: "Start", exact: true }).click();
  // The budget in Redis follows the ledger within a minute, and the alert half a minute later.
  await page.getByText("A budget is spent").waitFor({ timeout: 150_000 });
  await page
    .getByRole("navigation")
    .getByRole("img", { name: /^Alerts of the last week: \d+$/ })
    .waitFor();
  await assertAccessible(page);
});
