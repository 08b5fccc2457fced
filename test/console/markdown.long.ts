/** The playground draws Markdown, and nothing of an answer becomes HTML. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, sendMessage, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());

const message = [
  "# Plan",
  "Some **bold** words and `code`.",
  "- first",
  "- second",
  "```js",
  "const answer = 42;",
  "```",
  "| a | b |",
  "| - | - |",
  "| 1 | 2 |",
  "",
  "<img src=x onerror=alert(1)> [bad](javascript:alert(1)) [good](https://example.com/)",
].join("\n");

test("headings, lists, code with a button, tables and links; HTML and other links stay text", async () => {
  await using opened = await browser.open("/playground?model=sim-fast");
  const { page } = opened;
  await sendMessage(page, `\n\n${message}`);
  const answer = page.locator(".markdown").last();
  await answer.getByRole("link", { name: "good" }).waitFor();
  await answer.getByRole("heading", { name: "Plan" }).waitFor();
  assert.equal(await answer.locator("strong").textContent(), "bold");
  assert.equal(await answer.getByRole("listitem").count(), 2);
  await answer.getByRole("button", { name: "Copy" }).waitFor();
  assert.equal(await answer.getByRole("cell").count(), 2);
  assert.equal(await answer.locator("img").count(), 0);
  assert.equal(await answer.getByRole("link").count(), 1);
  await assertAccessible(page);
});
