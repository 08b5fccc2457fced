/** The playground draws Markdown, and nothing of an answer becomes HTML. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
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

/** Texts as models write them, and what a reader sees. */
const readings: [string, string][] = [
  ["- [ ] open\n- [x] done", "☐ open\n☑ done"],
  ["1. [ ] open\n\n   more", "☐ open\nmore"],
  ["a &amp; b &lt;i&gt; &copy; &#8364; &nosuch; `&amp;`", "a & b <i> © € &nosuch; &amp;"],
  ["| a |\n| - |\n| one<br>two |", "a\none\ntwo"],
  ["[bad](javascript&#58;alert(1)) ![far](https://example.com/a.png)", "bad far"],
];

/** Texts that would take a browser long, or more calls than its stack has. */
const largeTexts = [
  ">".repeat(1_000),
  ">".repeat(20_000),
  "- ".repeat(3_000),
  `${"*".repeat(1_900)}a${"*".repeat(1_900)}`,
  `${"*".repeat(20_000)}a`,
  `${"a".repeat(100_000)}@`,
  "_a".repeat(50_000),
  "word ".repeat(100_000),
];

/** Answers of a model with exactly this text. */
async function answerWith(page: Page, text: string): Promise<void> {
  const event = JSON.stringify({ choices: [{ index: 0, delta: { content: text }, finish_reason: "stop" }] });
  await page.unroute("**/v1/chat/completions");
  await page.route("**/v1/chat/completions", (route) =>
    route.fulfill({
      contentType: "text/event-stream",
      headers: { "access-control-allow-origin": "*" },
      body: `data: ${event}\n\ndata: [DONE]\n\n`,
    }),
  );
  await sendMessage(page, "Hello");
}

test("tasks, entities and line breaks are read", async () => {
  await using opened = await browser.open("/playground?model=sim-fast");
  const { page } = opened;
  for (const [index, [text, reading]] of readings.entries()) {
    await answerWith(page, text);
    const answer = page.locator(".markdown").nth(index);
    await answer.waitFor();
    // biome-ignore lint/performance/useDomNodeTextContent: line breaks are part of the reading.
    const lines = (await answer.innerText()).split("\n").filter((line) => line !== "");
    assert.equal(lines.join("\n"), reading);
  }
  const links = page.locator(".markdown a");
  assert.deepEqual(await links.evaluateAll((all) => all.map((link) => link.getAttribute("href"))), [
    "https://example.com/a.png",
  ]);
});

test("answers that are large or nested deeply leave the page usable", async () => {
  await using opened = await browser.open("/playground?model=sim-fast");
  const { page } = opened;
  for (const text of largeTexts) {
    await answerWith(page, text);
    await page.locator(".markdown").waitFor();
    await page.getByRole("button", { name: "New chat" }).click({ timeout: 3_000 });
    await page.locator(".markdown").waitFor({ state: "detached" });
  }
});
