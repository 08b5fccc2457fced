/** The audit log in words, filtered by person, object, action and day. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());
await browser.addAccount("research");
await browser.addAccount("finance");
await browser.control.call("POST", "/accounts", { id: "acc_1", name: "Legal" });

test("entries are sentences, and a click on a person or an object shows only theirs", async () => {
  await using opened = await browser.open("/audit");
  const { page } = opened;
  const table = page.getByRole("region", { name: "Audit log" });
  await table.getByRole("button", { name: "Created an account" }).first().waitFor();
  await assertAccessible(page);
  await table.getByRole("button", { name: "Only key test" }).first().waitFor();
  await table.getByRole("button", { name: "Only account Legal" }).click();
  await page.getByRole("button", { name: "Only account Legal ×" }).click();
  await table.getByRole("button", { name: "Only account research" }).click();
  await page.getByRole("button", { name: "Only account research ×" }).waitFor();
  await table.getByRole("button", { name: "Only account finance" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Only account research ×" }).click();
  await table.getByRole("button", { name: "Only account finance" }).waitFor();
  await page
    .getByRole("textbox", { name: "Action" })
    .or(page.getByRole("combobox", { name: "Action" }))
    .click();
  await page.getByRole("option", { name: "Created a key" }).click();
  await table.getByRole("button", { name: "Created an account" }).first().waitFor({ state: "detached" });
  await table.getByRole("button", { name: "Created a key" }).nth(1).waitFor();
  assert.equal(await table.getByRole("button", { name: "Created a key" }).count(), 2);
  await page.getByLabel("From day").fill("2001-01-01");
  await page.getByLabel("To day").fill("2001-01-02");
  await page.getByText("No entry matches").waitFor();
  await assertAccessible(page);
});
