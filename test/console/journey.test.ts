/** From the first sign-in link to a revoked key, in a real browser on the real stack. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { APIError } from "openai";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { isLong } from "../support/long.ts";
import { until } from "../support/time.ts";

const catalogue = catalogueOf([{ id: "priced", model: "sim-text;rate=0;first=0;tokens=64" }]);
const browser = await startConsole({ catalogue });
after(() => browser[Symbol.asyncDispose]());
const { control, gateway } = browser;
const password = "correct horse battery";

test("sign-in link, password, sign-in, key, a call, its usage and cost, revocation, 401", async () => {
  await using opened = await browser.open("/");
  const { page } = opened;
  await page.getByRole("link", { name: "Set a password" }).click();
  await page.getByRole("textbox", { name: "E-mail address" }).fill("ada@example.com");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  await page.getByRole("textbox", { name: "New password" }).fill(password);
  await page.getByRole("button", { name: "Set password" }).click();
  await page.getByText("Password set", { exact: true }).waitFor();

  await page.getByRole("button", { name: "Sign out", exact: true }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.getByRole("textbox", { name: "E-mail address" }).fill("ada@example.com");
  await page.getByRole("textbox", { name: "Password" }).fill(password);
  await page.getByRole("button", { name: "Sign in", exact: true }).click();

  await page.getByRole("link", { name: "Keys", exact: true }).click();
  await page.getByRole("button", { name: "Create key" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name" }).fill("journey");
  await dialog.getByRole("button", { name: "Create key" }).click();
  const key = await page.getByText(/^sk-sluice-/).textContent();
  assert.ok(key);
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("link", { name: "journey" }).waitFor();
  assert.ok(!(await page.content()).includes(key), "the key is shown once");

  const call = () =>
    gateway
      .client({ key })
      .chat.completions.create({ model: "priced", messages: [{ role: "user", content: "Hello" }] });
  const { usage } = await call();
  assert.ok(usage);
  const cost = (usage.prompt_tokens * 1 + usage.completion_tokens * 2) / 1_000_000;
  await page.getByRole("link", { name: "journey" }).click();
  const shown = page.getByTitle(`$${cost.toFixed(9).replace(/0+$/, "")}`).first();
  await shown.waitFor({ timeout: 30_000 });

  await page.getByRole("button", { name: "Revoke" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByText("Revoked", { exact: true }).first().waitFor();
  await assert.rejects(
    async () => {
      for (;;) await call();
    },
    (error) => error instanceof APIError && error.status === 401,
  );
});

test("what a page of another account asks for is not found", { skip: !isLong }, async () => {
  const response = await control.call("POST", "/accounts", { name: "Other", id: "other" });
  assert.equal(response.status, 201);
  const invitation = (await (await control.call("POST", "/accounts/other/invitations", { role: "owner" })).json()) as {
    url: string;
  };
  await using opened = await browser.open("/", { isSignedIn: false, expected: /404|403/ });
  const { page } = opened;
  await page.goto(invitation.url);
  await page.getByRole("textbox", { name: "Your name" }).fill("Bob");
  await page.getByRole("textbox", { name: "Your e-mail address" }).fill("bob@example.com");
  await page.getByRole("textbox", { name: "A new password" }).fill(password);
  await page.getByRole("button", { name: "Accept" }).click();
  await page.getByRole("link", { name: "Keys", exact: true }).waitFor();
  assert.equal(await page.getByRole("link", { name: "Operations" }).count(), 0);
  const { items } = await control.get<{ items: { id: string }[] }>("/keys?account=default");
  for (const path of [`/keys/${items[0]?.id}`, "/accounts/default"]) {
    await page.goto(`${control.url}${path}`);
    await page.getByText("Nothing is here").waitFor();
  }
});

test("an account stores content: it is shown when somebody asks, and gone when storing ends", {
  skip: !isLong,
}, async () => {
  await using opened = await browser.open("/accounts/default", { expected: /400/ });
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Store content" }).click();
  await dialog.getByRole("textbox", { name: "Days" }).fill("91");
  await dialog.getByRole("button", { name: "Store content" }).click();
  await dialog.getByText("At most 90.").waitFor();
  await dialog.getByRole("textbox", { name: "Days" }).fill("3");
  await dialog.getByRole("button", { name: "Store content" }).click();
  await page.getByText("Stored for 3 days.").waitFor();

  const created = await control.call("POST", "/keys", { account: "default", name: "stores", group: "default" });
  const { key } = (await created.json()) as { key: string };
  await until("the key is known", async () => (await gateway.post({}, { key })).status !== 401);
  const messages = [
    { role: "system" as const, content: "Speak of herons." },
    { role: "user" as const, content: "Zanzibar?" },
  ];
  const request = gateway.client({ key }).chat.completions.create({ model: "priced", messages, stream: true });
  const { data: stream, response } = await request.withResponse();
  for await (const _ of stream);
  const id = response.headers.get("x-request-id") as string;
  await until("the content is stored", async () => {
    const record = await control.call("GET", `/usage/records/${id}`);
    return record.ok && ((await record.json()) as { hasContent: boolean }).hasContent;
  });
  await page.goto(`${control.url}/requests/${id}`);
  await page.getByRole("button", { name: "Show content" }).waitFor();
  assert.ok(!(await page.content()).includes("Zanzibar"));
  await page.getByRole("button", { name: "Show content" }).click();
  await page.getByText("Speak of herons.").waitFor();
  await page.getByText("Zanzibar?", { exact: true }).waitFor();
  await assertAccessible(page);
  await page.getByRole("radiogroup", { name: "View" }).getByText("Request").click();
  await page.getByText('"content": "Zanzibar?"').waitFor();
  await page.getByRole("button", { name: "Hide" }).click();
  assert.ok(!(await page.content()).includes("Zanzibar"));

  await page.goto(`${control.url}/accounts/default`);
  await page.getByRole("button", { name: "Stop storing" }).click();
  await dialog.getByText("cannot be restored").waitFor();
  await dialog.getByRole("button", { name: "Stop storing" }).click();
  await page.getByRole("button", { name: "Store content" }).waitFor();
  assert.equal((await control.call("GET", `/usage/records/${id}/content`)).status, 404);
});
