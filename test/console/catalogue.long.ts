/**
 * The catalogue's page: lines that a change adds and removes, before it is saved and after, and the
 * line of a mistake.
 */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());

test("a proposed and a saved change show their lines, and a mistake its line", async () => {
  const file = browser.gateway.catalogueFile;
  const text = await readFile(file, "utf8");
  await using opened = await browser.open("/catalogue?tab=file");
  const { page } = opened;
  const proposed = page.getByRole("textbox", { name: "Proposed file" });
  const check = () => page.getByRole("button", { name: "Check" }).click();
  const changed = `${text.trimEnd()}\n# one more line\n`;
  await proposed.fill(changed);
  await check();
  const lines = page.getByRole("region", { name: "Lines that differ" });
  await lines.getByRole("img", { name: "added" }).first().waitFor();
  assert.match((await lines.textContent()) ?? "", /# one more line/);
  await assertAccessible(page);
  await proposed.fill(`${text.trimEnd()}\nnonsense: 1\n`);
  await check();
  const mistake = page.getByRole("region", { name: "The place of the mistake" });
  await mistake.getByRole("img", { name: "the mistake is in this line" }).waitFor();
  assert.match((await mistake.textContent()) ?? "", /nonsense: 1/);
  await proposed.fill("");
  await writeFile(file, changed);
  await page.getByRole("heading", { name: /^The last change/ }).waitFor();
  assert.match((await lines.textContent()) ?? "", /# one more line/);
});
