/**
 * From a clean start to the first answer of a new vendor, with the console alone; its clicks are
 * counted.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Locator } from "playwright-core";
import { assertAccessible, sendMessage, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";

const secret = { CREDENTIALS_SECRET: "a secret for the credentials of these tests" };
const browser = await startConsole(
  { catalogue: catalogueOf([{ id: "first", model: "sim-fast" }]), environment: secret },
  secret,
);
after(() => browser[Symbol.asyncDispose]());
const credential = "sk-of-the-new-vendor-7f3a";
const clicksMax = 7;
const msMax = 120_000;

test("a vendor is added, tested and called within two minutes and seven clicks", async () => {
  await using opened = await browser.open("/");
  const { page } = opened;
  const startedAt = performance.now();
  let clicks = 0;
  const click = async (target: Locator) => {
    await target.click();
    clicks++;
  };
  const dialog = page.getByRole("dialog");
  await click(page.getByRole("link", { name: "Catalogue", exact: true }));
  await click(page.getByRole("tab", { name: "Upstreams" }));
  await click(page.getByRole("button", { name: "Add an upstream" }));
  await dialog.getByRole("button", { name: "Anthropic", exact: true }).waitFor();
  await assertAccessible(page);
  await click(dialog.getByRole("button", { name: "Another server" }));
  await dialog.getByRole("textbox", { name: "Base URL" }).fill(`${browser.gateway.simulatorUrl}/v1`);
  await dialog.getByLabel("Credential").first().fill(credential);
  assert.equal(await dialog.getByLabel("Credential").first().getAttribute("autocomplete"), "new-password");
  await click(dialog.getByRole("button", { name: "Test and fetch models" }));
  await dialog.getByText(/sim-text answered in/).waitFor();
  await dialog.getByText(/^Answer: You said/).waitFor();
  assert.ok(await dialog.getByRole("checkbox", { name: "sim-text" }).isChecked());
  await assertAccessible(page);
  await click(dialog.getByRole("button", { name: /^Add with \d models/ }));
  await click(dialog.getByRole("link", { name: "Try sim-text" }));
  await page.getByRole("button", { name: "Attach images" }).waitFor();
  await sendMessage(page, "Good morning");
  await page.getByText(/You said: Good morning/).waitFor();
  assert.ok(clicks <= clicksMax, `${clicks} clicks`);
  assert.ok(performance.now() - startedAt < msMax);
});

test("a credential is never shown again: not in pages, nor in answers of the API", async () => {
  await using opened = await browser.open("/catalogue?tab=credentials");
  const { page } = opened;
  const bodies: string[] = [];
  page.on("response", async (response) => {
    if (response.url().includes("/api/v1/")) bodies.push(await response.text().catch(() => ""));
  });
  await page.getByRole("cell", { name: "…7f3a" }).waitFor();
  await assertAccessible(page);
  await page.getByRole("button", { name: "Replace compatible" }).click();
  const value = page.getByRole("dialog").getByLabel("New value").first();
  assert.equal(await value.inputValue(), "");
  assert.equal(await value.getAttribute("autocomplete"), "new-password");
  await assertAccessible(page);
  await value.fill("sk-another-value-91bc");
  await page.getByRole("dialog").getByRole("button", { name: "Replace" }).click();
  await page.getByRole("cell", { name: "…91bc" }).waitFor();
  await page.goto(`${browser.control.url}/catalogue?tab=upstreams`);
  await page.getByRole("cell", { name: "stored:compatible" }).waitFor();
  for (const text of [...bodies, await page.content()])
    for (const secretValue of [credential, "sk-another-value-91bc"]) assert.ok(!text.includes(secretValue));
});

test("an upstream that does not answer says why, in words", async () => {
  await using opened = await browser.open("/catalogue?tab=upstreams");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Add an upstream" }).click();
  await dialog.getByRole("button", { name: "Another server" }).click();
  await dialog.getByRole("textbox", { name: "Base URL" }).fill("http://127.0.0.1:9/v1");
  await dialog.getByRole("button", { name: "Test and fetch models" }).click();
  await dialog
    .getByRole("alert")
    .getByText(/\w+ \w+/)
    .first()
    .waitFor();
  await assertAccessible(page);
});

test("what was added is one revision, which is compared, taken back, and imported again", async () => {
  const text = await (await browser.control.call("GET", "/catalogue/export?source=database")).text();
  await using opened = await browser.open("/catalogue?tab=revisions");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByText("In force", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Compare 1" }).click();
  await dialog.getByText("sim-reasoning").first().waitFor();
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Close" }).click();
  const importText = async (yaml: string, mode: string) => {
    await page.getByRole("button", { name: "Import entries" }).click();
    await dialog.getByRole("textbox", { name: "Catalogue as YAML" }).fill(yaml);
    await dialog.getByRole("combobox", { name: "Entries that the text lacks" }).click();
    await page.getByRole("option", { name: mode }).click();
    await dialog.getByRole("button", { name: "Check the import" }).click();
    await dialog.getByRole("region", { name: "Lines that differ" }).waitFor();
    await dialog.getByRole("button", { name: "Put in force" }).click();
    await dialog.waitFor({ state: "detached" });
  };
  await importText("upstreams: {}", "are removed");
  await page.getByRole("button", { name: "Restore 1" }).click();
  await dialog.getByRole("region", { name: "Lines that differ" }).waitFor();
  await dialog.getByRole("button", { name: "Restore" }).click();
  await dialog.waitFor({ state: "detached" });
  const restored = await (await browser.control.call("GET", "/catalogue/export?source=database")).text();
  assert.equal(restored, text);
});
