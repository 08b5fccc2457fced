/**
 * The settings page: fields of the environment, bad input at its field, the name everywhere, a test
 * mail, and the question before records are deleted.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startIdentityProvider } from "../control/identity-provider.ts";
import { startMailServer } from "../control/mail-server.ts";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());

const svg =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/><script>alert(1)</script></svg>';

test("a name and a logo appear in the page, its tab and the sign-in page, and the logo runs no script", async () => {
  await using opened = await browser.open("/settings", { expected: /400|script/ });
  const { page } = opened;
  const general = page.getByRole("region", { name: "General" });
  await general.getByRole("textbox", { name: "Name" }).fill("Acme AI");
  await page.setInputFiles("input[type=file]", {
    name: "logo.svg",
    mimeType: "image/svg+xml",
    buffer: Buffer.from("no"),
  });
  await general.getByRole("button", { name: "Save" }).click();
  await general.getByText("This is no PNG or SVG file").waitFor();
  await page.setInputFiles("input[type=file]", {
    name: "logo.svg",
    mimeType: "image/svg+xml",
    buffer: Buffer.from(svg),
  });
  await general.getByRole("button", { name: "Save" }).click();
  await general.getByText("Saved.").waitFor();
  await page.getByRole("navigation").getByText("Acme AI").waitFor();
  assert.equal(await page.title(), "Settings · Acme AI");
  await page.waitForFunction("document.querySelector('nav img').naturalWidth > 0");
  const logo = await fetch(new URL((await page.locator("nav img").getAttribute("src")) as string, browser.control.url));
  assert.equal(logo.headers.get("content-type"), "image/svg+xml");
  assert.match(logo.headers.get("content-security-policy") ?? "", /^default-src 'none';.*sandbox/);
  assert.equal(logo.headers.get("x-content-type-options"), "nosniff");
  await assertAccessible(page);
  await using outside = await browser.open("/?error=SIGN_IN_FIRST", { isSignedIn: false });
  await outside.page.getByText("Acme AI").waitFor();
  await outside.page.getByText("Sign in here first").waitFor();
});

test("a variable's field is read-only, a wrong address is named at its field, and a test mail arrives", async () => {
  await using mails = await startMailServer();
  await using opened = await browser.open("/settings", { expected: /400/ });
  const { page } = opened;
  const baseUrl = page.getByLabel("Base URL");
  assert.equal(await baseUrl.inputValue(), browser.gateway.url);
  assert.equal(await baseUrl.getAttribute("readonly"), "");
  await page.getByText("Set by the environment variable GATEWAY_URL").waitFor();
  const mail = page.getByRole("region", { name: "Mail" });
  const server = mail.getByRole("textbox", { name: "Mail server" });
  assert.equal(await mail.getByRole("button", { name: "Send a test mail" }).isDisabled(), true);
  await server.fill("mail.example.com");
  await mail.getByRole("button", { name: "Save" }).click();
  await mail.getByText("smtp:// or smtps://, then the host").waitFor();
  await server.fill(mails.url);
  await mail.getByRole("button", { name: "Save" }).click();
  await mail.getByRole("button", { name: "Send a test mail" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("To").fill("ada@example.com");
  await dialog.getByRole("button", { name: "Send" }).click();
  await mail.getByText("The mail server took the mail for ada@example.com.").waitFor();
  assert.match(await mails.next(), /^To: ada@example\.com/m);
  assert.equal(await server.inputValue(), "");
});

test("fewer days of records are saved only after the question", async () => {
  await using opened = await browser.open("/settings");
  const { page } = opened;
  const retention = page.getByRole("region", { name: "Retention" });
  await retention.getByLabel("Days of usage records").fill("30");
  await retention.getByRole("button", { name: "Save" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("older than 30 days are deleted within an hour").waitFor();
  const days = async () => (await browser.control.get<{ usageDays: { value: number } }>("/settings")).usageDays.value;
  assert.equal(await days(), 400);
  await dialog.getByRole("button", { name: "Save" }).click();
  await retention.getByText("Saved.").waitFor();
  assert.equal(await days(), 30);
});

test("a provider is tested with values that are not saved, and saved without showing its secret", async () => {
  await using provider = await startIdentityProvider({
    ...{ sub: "ada", email: "ada@example.com", name: "Ada", groups: ["eng"] },
  });
  await using opened = await browser.open("/settings");
  const { page } = opened;
  const section = page.getByRole("region", { name: "OpenID Connect" });
  await section.getByRole("textbox", { name: "Issuer" }).fill(provider.issuer);
  await section.getByRole("textbox", { name: "Client id" }).fill("sluice");
  await section.getByRole("textbox", { name: "Client secret" }).fill("a-secret-of-the-provider");
  await section.getByRole("textbox", { name: "Roles by group" }).fill("eng=missing:member");
  const [popup] = await Promise.all([
    page.context().waitForEvent("page"),
    section.getByRole("button", { name: "Test the sign-in" }).click(),
  ]);
  await popup.getByText("ada@example.com may sign in.").waitFor();
  await popup.getByText("missing: member (this account does not exist)").waitFor();
  await popup.getByText('"sub": "ada"').waitFor();
  await popup.close();
  const stored = async () => browser.control.get<Record<"oidcIssuer", { source: string }>>("/settings");
  assert.equal((await stored()).oidcIssuer.source, "default");
  await section.getByRole("button", { name: "Save" }).click();
  await section.getByText("Saved.").waitFor();
  assert.equal((await stored()).oidcIssuer.source, "stored");
  assert.ok(!JSON.stringify(await stored()).includes("a-secret-of-the-provider"));
  await assertAccessible(page);
});
