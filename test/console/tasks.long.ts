/**
 * Twenty-four tasks of five people, each from the start page on, with the console alone. Clicks are
 * counted as the browser sees them; docs/console.md has the table.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { after, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { sendMessage, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { startScriptedUpstream } from "../support/upstream.ts";
import { record } from "./usage-support.ts";

const secret = { CREDENTIALS_SECRET: "a secret for the credentials of these tests" };
const browser = await startConsole(
  {
    workers: ["chat=8,image=2"],
    environment: secret,
    catalogue: catalogueOf([
      { id: "fast", model: "sim-text;rate=0;first=0" },
      { id: "slow", model: "sim-text;rate=2;first=0;tokens=400" },
      { id: "broken", model: "sim-text;status=500" },
      { id: "picture", model: "sim-image", queue: "image" },
    ]),
  },
  { ...secret, WEBHOOK_NETWORKS: "127.0.0.0/8" },
);
after(() => browser[Symbol.asyncDispose]());
const { control, gateway } = browser;
const receiver = await startScriptedUpstream((response) => response.writeHead(204).end());
after(() => receiver[Symbol.asyncDispose]());

const key = await browser.addAccount("research");
const now = Date.now();
await browser.addAccount("finance");
await record(browser, "finance", [
  { receivedAt: now, model: "fast", modelAnswered: "fast", cost: "1250000000" },
  { receivedAt: now, model: "slow", modelAnswered: "slow", cost: "2000000000" },
]);

async function put(path: string, entry: object): Promise<void> {
  const { revision } = await control.get<{ revision: number }>("/catalogue/entries");
  const response = await control.call("PUT", `/catalogue/${path}`, entry, { "if-match": `"${revision}"` });
  assert.equal(response.status, 200, await response.text());
}
await put("upstreams/one", { dialect: "openai-chat", baseUrl: `${gateway.simulatorUrl}/v1` });
await put("upstreams/two", { dialect: "openai-chat", baseUrl: `${gateway.simulatorUrl}/v1` });
await put("models/routed", {
  prices: { inputPerMillion: 1, outputPerMillion: 2 },
  route: [
    { upstream: "one", model: "sim-fast", weight: 3 },
    { upstream: "two", model: "sim-fast", weight: 1 },
  ],
});

const call = (model: string, more: object = {}) =>
  gateway.post({ model, messages: [{ role: "user", content: "Hello" }], ...more }, { key });

interface Task {
  person: string;
  name: string;
  clicks: number;
  /** Before the person begins. */
  prepare?(): Promise<unknown>;
  run(page: Page): Promise<void>;
}

const go = (page: Page, name: string) => page.getByRole("link", { name, exact: true }).first().click();
const press = (place: Page | Locator, name: string | RegExp) =>
  place.getByRole("button", { name, exact: true }).first().click();
const dialogOf = (page: Page) => page.getByRole("dialog");

async function choose(page: Page, field: string, option: string): Promise<void> {
  await page.getByRole("combobox", { name: field, exact: true }).click();
  await page.getByRole("option", { name: option, exact: true }).click();
}

/** The text of the file that a click downloads. */
async function download(page: Page, click: () => Promise<void>): Promise<{ name: string; text: string }> {
  const [event] = await Promise.all([page.waitForEvent("download"), click()]);
  return { name: event.suggestedFilename(), text: await readFile(await event.path(), "utf8") };
}

let requestId = "";
const open: Response[] = [];
const tasks: Task[] = [
  {
    person: "Newcomer",
    name: "Set a password after the first link",
    clicks: 3,
    async run(page) {
      await go(page, "Set a password");
      await page.getByRole("textbox", { name: "E-mail address" }).fill("ada@example.com");
      await press(page, "Save");
      await page.getByText("Saved", { exact: true }).waitFor();
      await page.getByRole("textbox", { name: "New password" }).fill("correct horse battery");
      await press(page, "Set password");
      await page.getByText("Password set", { exact: true }).waitFor();
    },
  },
  {
    person: "Newcomer",
    name: "Call a model from the page, and see its cost",
    clicks: 1,
    async run(page) {
      await press(page, "Run");
      await page.getByText(/You said: Hello/).waitFor();
      await page
        .locator("dl > div", { hasText: "Cost" })
        .locator("dd")
        .filter({ hasText: /^\$0\.0/ })
        .waitFor();
    },
  },
  {
    person: "Newcomer",
    name: "Create a key, with the code for a client",
    clicks: 5,
    async run(page) {
      await press(page, "Create a key");
      await page.getByLabel("Name").fill("mine");
      await press(page, "Create key");
      await page.getByText(/^sk-sluice-/).waitFor();
      await press(page, "I have stored it");
      await choose(page, "Client", "curl");
      await page.getByText(/Bearer sk-sluice-/).waitFor();
    },
  },
  {
    person: "Newcomer",
    name: "Find a model and its price",
    clicks: 2,
    async run(page) {
      await go(page, "Models");
      await page.getByLabel("Search models").fill("slow");
      await go(page, "slow");
      await page.getByRole("region", { name: "Prices" }).getByText("$2.00").first().waitFor();
    },
  },
  {
    person: "Developer",
    name: "Talk to a model in the playground",
    clicks: 1,
    async run(page) {
      await go(page, "Playground");
      await sendMessage(page, "Good morning");
      await page.getByText(/You said: Good morning/).waitFor();
    },
  },
  {
    person: "Developer",
    name: "Find why a request failed, by its id",
    clicks: 2,
    async prepare() {
      const response = await call("broken");
      requestId = response.headers.get("x-request-id") ?? "";
      await response.text();
      await until("the ledger has it", async () => (await control.call("GET", `/usage/records/${requestId}`)).ok);
    },
    async run(page) {
      await go(page, "Requests");
      await page.getByLabel(/^Id of a request/).fill(requestId);
      await press(page, "Open");
      await page.getByText("upstream_failed 500").first().waitFor();
    },
  },
  {
    person: "Developer",
    name: "Limit a key to ten requests a minute",
    clicks: 5,
    async run(page) {
      await go(page, "Keys");
      await press(page, "Create key");
      const dialog = dialogOf(page);
      await dialog.getByRole("textbox", { name: "Name" }).fill("limited");
      await press(dialog, "Limits and budgets");
      await dialog.getByRole("textbox", { name: "Requests per minute" }).fill("10");
      await press(dialog, "Create key");
      await page.getByText(/^sk-sluice-/).waitFor();
      await press(page, "I have stored it");
      await page.getByRole("link", { name: "limited", exact: true }).waitFor();
    },
  },
  {
    person: "Developer",
    name: "Rotate a key",
    clicks: 5,
    async run(page) {
      await go(page, "Keys");
      await go(page, "limited");
      await press(page, "Rotate");
      await press(dialogOf(page), "Rotate");
      await page.getByText(/^sk-sluice-/).waitFor();
      await press(page, "I have stored it");
    },
  },
  {
    person: "Developer",
    name: "Run a file of requests as a batch, and download its output",
    clicks: 4,
    async run(page) {
      const line = (id: string) =>
        JSON.stringify({
          custom_id: id,
          method: "POST",
          url: "/v1/chat/completions",
          body: { model: "fast", messages: [{ role: "user", content: "Hello" }] },
        });
      await go(page, "Batches");
      await page
        .getByRole("link", { name: "New batch" })
        .or(page.getByRole("link", { name: "Run a file" }))
        .first()
        .click();
      await page.getByRole("button", { name: "Choose a file" }).and(page.locator(":enabled")).waitFor();
      const buffer = Buffer.from(`${line("a")}\n${line("b")}`);
      await page.setInputFiles("input[type=file]", { name: "input.jsonl", mimeType: "application/jsonl", buffer });
      await press(page, "Run 2 requests");
      await page.getByText("Completed", { exact: true }).waitFor();
      const { text } = await download(page, () => page.getByRole("link", { name: "Download the output" }).click());
      assert.match(text, /"custom_id":"b"/);
    },
  },
  {
    person: "Developer",
    name: "Add a webhook, and test it",
    clicks: 7,
    async run(page) {
      await go(page, "Webhooks");
      await choose(page, "Account", "research");
      await press(page, "Add a webhook");
      const dialog = dialogOf(page);
      await dialog.getByRole("textbox", { name: "Name" }).fill("receiver");
      await dialog.getByRole("textbox", { name: "Address" }).fill(`${receiver.origin}/events`);
      await press(dialog, "Add a webhook");
      await dialog.getByText(/^whsec_/).waitFor();
      await press(dialog, "I have stored it");
      await press(page, "Test receiver");
      await page.getByRole("region", { name: "Deliveries" }).getByText("Delivered").waitFor();
    },
  },
  {
    person: "Operator on call",
    name: "See that a queue is paused, and resume it",
    clicks: 4,
    prepare: () => control.call("POST", "/operations/queues/image/pause", { reason: "maintenance" }),
    async run(page) {
      await go(page, "Operations");
      await page.getByRole("region", { name: "Needs attention" }).getByText(/image/).first().waitFor();
      await press(page, "Actions for image");
      await page.getByRole("menuitem", { name: "Resume" }).click();
      await press(dialogOf(page), "Resume");
      await page
        .getByRole("row", { name: /^image / })
        .getByText("Accepting")
        .waitFor();
    },
  },
  {
    person: "Operator on call",
    name: "Stop generations that hang",
    clicks: 4,
    async prepare() {
      for (let count = 0; count < 3; count++) open.push(await call("slow", { stream: true }));
    },
    async run(page) {
      await go(page, "Operations");
      await page.getByText("3 now").waitFor();
      await page.getByRole("button", { name: /^Tick all/ }).click();
      await page.getByRole("button", { name: /^Stop 3/ }).click();
      await dialogOf(page).getByLabel("Reason").fill("they hang");
      await press(dialogOf(page), "Stop");
      await page.getByText("3 generations were stopped").waitFor();
      for (const response of open) await response.body?.cancel().catch(() => undefined);
    },
  },
  {
    person: "Operator on call",
    name: "Keep callers away from a target that fails",
    clicks: 4,
    async run(page) {
      await go(page, "Operations");
      await page
        .getByRole("button", { name: /^Show \d+ idle$/ })
        .first()
        .click();
      await press(page, "Keep open simulator/sim-image");
      await dialogOf(page).getByLabel("Reason").fill("wrong pictures");
      await press(dialogOf(page), "Keep open");
      await page.getByRole("region", { name: "Needs attention" }).getByText("simulator/sim-image").waitFor();
    },
  },
  {
    person: "Operator on call",
    name: "Revoke a key that leaked",
    clicks: 4,
    async run(page) {
      await go(page, "Keys");
      await go(page, "mine");
      await press(page, "Revoke");
      await press(dialogOf(page), "Revoke");
      await page.getByText("Revoked", { exact: true }).first().waitFor();
    },
  },
  {
    person: "Operator on call",
    name: "Take a change of the catalogue back",
    clicks: 4,
    async run(page) {
      await go(page, "Catalogue");
      await page.getByRole("tab", { name: "Revisions" }).click();
      await press(page, "Restore 2");
      await dialogOf(page).getByRole("region", { name: "Lines that differ" }).waitFor();
      await press(dialogOf(page), "Restore");
      await dialogOf(page).waitFor({ state: "detached" });
      const { models } = await control.get<{ models: { name: string }[] }>("/catalogue/entries");
      assert.ok(!models.some(({ name }) => name === "routed"));
      await put("models/routed", {
        prices: { inputPerMillion: 1, outputPerMillion: 2 },
        route: [
          { upstream: "one", model: "sim-fast", weight: 3 },
          { upstream: "two", model: "sim-fast", weight: 1 },
        ],
      });
    },
  },
  {
    person: "Finance",
    name: "Compare the cost of the accounts",
    clicks: 3,
    async run(page) {
      await go(page, "Usage");
      await choose(page, "Group by", "Group by: Account");
      await page.getByRole("row", { name: /^finance \$3\.25 / }).waitFor();
    },
  },
  {
    person: "Finance",
    name: "Print an account's month",
    clicks: 3,
    async run(page) {
      await go(page, "Accounts");
      await go(page, "finance");
      await go(page, "Statement of the month");
      await page
        .getByRole("row", { name: /^Total 2 .*\$3\.25$/ })
        .first()
        .waitFor();
    },
  },
  {
    person: "Finance",
    name: "Download the usage as CSV",
    clicks: 3,
    async run(page) {
      await go(page, "Usage");
      await press(page, "CSV");
      const { text } = await download(page, () => page.getByRole("menuitem", { name: /^Groups/ }).click());
      assert.match(text.split("\r\n", 1)[0] ?? "", /cost/);
    },
  },
  {
    person: "Finance",
    name: "See what a price change would have cost, and plan it",
    clicks: 6,
    async run(page) {
      await go(page, "Catalogue");
      await go(page, "routed");
      await press(page, "Plan other prices from a day");
      const dialog = dialogOf(page);
      await dialog.getByLabel("First day").fill("2100-01-01");
      await dialog.getByRole("textbox", { name: "Input, per million tokens", exact: true }).fill("3");
      await press(dialog, "Plan");
      await press(page, "Check and put in force");
      await dialog.getByRole("region", { name: "Lines that differ" }).waitFor();
      await press(dialog, "Put in force");
      await page.getByRole("region", { name: "Not in force yet" }).waitFor({ state: "detached" });
    },
  },
  {
    person: "Admin of another gateway",
    name: "Add a vendor, and get its first answer",
    clicks: 7,
    async run(page) {
      const dialog = dialogOf(page);
      await go(page, "Catalogue");
      await page.getByRole("tab", { name: "Upstreams" }).click();
      await press(page, "Add an upstream");
      await press(dialog, "Another server");
      await dialog.getByRole("textbox", { name: "Base URL" }).fill(`${gateway.simulatorUrl}/v1`);
      await dialog.getByLabel("Credential").first().fill("sk-of-the-new-vendor-7f3a");
      await press(dialog, "Test and fetch models");
      await dialog.getByRole("button", { name: /^Add with \d+ models?/ }).click();
      await dialog.getByRole("link", { name: /^Try / }).click();
      await page.getByRole("button", { name: "Attach images" }).waitFor();
      await sendMessage(page, "Good morning");
      await page.getByText(/You said: Good morning/).waitFor();
    },
  },
  {
    person: "Admin of another gateway",
    name: "Replace a credential",
    clicks: 4,
    async run(page) {
      await go(page, "Catalogue");
      await page.getByRole("tab", { name: "Credentials" }).click();
      await press(page, "Replace compatible");
      await dialogOf(page).getByLabel("New value").first().fill("sk-another-value-91bc");
      await press(dialogOf(page), "Replace");
      await page.getByRole("cell", { name: "…91bc" }).waitFor();
    },
  },
  {
    person: "Admin of another gateway",
    name: "Prefer another target of a model",
    clicks: 5,
    async run(page) {
      await go(page, "Catalogue");
      await go(page, "routed");
      await press(page, "Move two / sim-fast up");
      await press(page, "Check and put in force");
      await press(dialogOf(page), "Put in force");
      await page.getByRole("region", { name: "Not in force yet" }).waitFor({ state: "detached" });
    },
  },
  {
    person: "Admin of another gateway",
    name: "See which target answers when one fails",
    clicks: 4,
    async run(page) {
      await go(page, "Catalogue");
      await go(page, "routed");
      await page.getByRole("checkbox", { name: "two / sim-fast" }).check();
      await press(page, "Try");
      await page
        .getByText(/one \/ sim-fast.*answered|answered.*one \/ sim-fast/i)
        .first()
        .waitFor();
    },
  },
  {
    person: "Admin of another gateway",
    name: "Make an account and invite its owner",
    clicks: 5,
    async run(page) {
      const dialog = dialogOf(page);
      await go(page, "Accounts");
      await press(page, "Create account");
      await dialog.getByRole("textbox", { name: "Name" }).fill("Sales");
      await dialog.getByRole("textbox", { name: "Id" }).fill("sales");
      await press(dialog, "Create account");
      await press(page, "Invite");
      await dialog.getByRole("textbox", { name: "E-mail address" }).fill("bob@example.com");
      await press(dialog, "Invite");
      await dialog.getByText(/http/).first().waitFor();
    },
  },
];

const guide = await readFile(new URL("../../docs/console.md", import.meta.url), "utf8");
for (const { person, name, clicks, prepare, run } of tasks)
  test(`${person}: ${name}`, { timeout: 120_000 }, async () => {
    assert.match(guide, new RegExp(`^\\| ${person} +\\| ${name} +\\| +${clicks} \\|$`, "m"));
    await prepare?.();
    await using opened = await browser.open("/", { expected: /404/, reducedMotion: "reduce" });
    let counted = 0;
    await opened.page.exposeFunction("countClick", () => counted++);
    const listen =
      'addEventListener("click", ({ isTrusted, detail }) => isTrusted && detail > 0 && countClick(), true)';
    await opened.page.context().addInitScript(listen);
    await opened.page.evaluate(listen);
    await run(opened.page);
    assert.equal(counted, clicks);
  });
