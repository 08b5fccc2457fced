/**
 * Bad input in every form, in both languages: the error stands at its field, and nothing that was
 * typed is lost.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Locator, Page } from "playwright-core";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());
const { control } = browser;
const expected = /400|401|409/;
const english = { expected };
const chinese = { expected, locale: "zh-CN", viewport: { width: 390, height: 844 } };

/** Reads the error of an input, which the input refers to. */
async function assertError(input: Locator, text: string | RegExp): Promise<void> {
  const page = input.page();
  await page.locator(".mantine-InputWrapper-error").getByText(text).first().waitFor();
  assert.equal(await input.getAttribute("aria-invalid"), "true");
  const described = ((await input.getAttribute("aria-describedby")) ?? "").split(" ").filter((id) => id !== "");
  const texts = await Promise.all(described.map((id) => page.locator(`[id="${id}"]`).textContent()));
  const all = texts.join(" ");
  assert.ok(typeof text === "string" ? all.includes(text) : text.test(all), `${all} has no ${text}`);
}

const bidi = "\u202egnp.exe";
const long = "x".repeat(101);
const badNames: [name: string, english: string, chinese: string][] = [
  ["", "Fill this in.", "请填写此项。"],
  ["   ", "visible character", "可见字符"],
  [bidi, "change the direction", "改变文字方向"],
];

async function openKeyForm(page: Page, button: string): Promise<Locator> {
  await page.getByRole("button", { name: button }).first().click();
  return page.getByRole("dialog");
}

test("a key: names, times, budgets, models, addresses, origins and tags", async () => {
  await using opened = await browser.open("/keys", english);
  const { page } = opened;
  const dialog = await openKeyForm(page, "Create key");
  const send = () => dialog.getByRole("button", { name: "Create key" }).click();
  const name = dialog.getByRole("textbox", { name: "Name" });
  for (const [bad, text] of badNames) {
    await name.fill(bad);
    await send();
    await assertError(name, text);
    assert.equal(await name.inputValue(), bad);
  }
  await name.fill(long);
  assert.equal((await name.inputValue()).length, 100);
  await name.fill("forms 🧾");
  const expires = dialog.getByLabel("Expires");
  await expires.fill("2020-01-01T00:00");
  await send();
  await assertError(expires, "The time is in the past.");
  await expires.fill("");

  await dialog.getByRole("button", { name: "Limits and budgets" }).click();
  const budget = dialog.getByRole("textbox", { name: "Budget per month" });
  await budget.fill("-1");
  await send();
  await assertError(budget, "At least 0.");
  await budget.fill("99999999");
  // The error also opens the section that its field is in.
  await dialog.getByRole("button", { name: "Limits and budgets" }).click();
  await send();
  await assertError(budget, "At most 1000000.");
  await budget.fill("20");
  const requests = dialog.getByRole("textbox", { name: "Requests per minute" });
  await requests.pressSequentially("1x2");
  assert.equal(await requests.inputValue(), "12");

  await dialog.getByRole("button", { name: "Models, addresses and tags" }).click();
  for (const [label, bad, text] of [
    ["Models", "no-such-model", /no model "no-such-model"/],
    ["Addresses", "1.2.3", /neither an IP address/],
    ["Web origins", "https://app.example.com/path", "without a path"],
    ["Tags", "x".repeat(61), "At most 60 characters."],
  ] as const) {
    const list = dialog.getByLabel(label, { exact: true }).and(page.locator("input"));
    await list.fill(bad);
    await list.press("Enter");
    await send();
    await assertError(list, text);
    if (label === "Models") await assertAccessible(page);
    await list.focus();
    await list.press("Backspace");
  }
  await send();
  await page.getByText(/^sk-sluice-/).waitFor();
  await page.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("link", { name: "forms 🧾" }).click();

  await page.getByRole("button", { name: "Rotate" }).click();
  const hours = page.getByRole("textbox", { name: "Overlap in hours" });
  for (const [bad, text] of [
    ["-3", "At least 0."],
    ["721", "At most 720."],
    ["", "Fill this in."],
  ] as const) {
    await hours.fill(bad);
    await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
    await assertError(hours, text);
    assert.equal(await hours.inputValue(), bad);
  }
});

test("a key in Chinese on a phone", async () => {
  await using opened = await browser.open("/keys", chinese);
  const { page } = opened;
  const dialog = await openKeyForm(page, "创建密钥");
  const send = () => dialog.getByRole("button", { name: "创建密钥" }).click();
  const name = dialog.getByRole("textbox", { name: "名称" });
  for (const [bad, , text] of badNames) {
    await name.fill(bad);
    await send();
    await assertError(name, text);
  }
  await name.fill("手机");
  const expires = dialog.getByLabel("过期时间");
  await expires.fill("2020-01-01T00:00");
  await send();
  await assertError(expires, "时间已过");
  await assertAccessible(page);
  await expires.fill("");
  await send();
  await page.getByText(/^sk-sluice-/).waitFor();
});

test("accounts, invitations and tokens", async () => {
  await using opened = await browser.open("/accounts", english);
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Create account" }).first().click();
  const create = () => dialog.getByRole("button", { name: "Create account" }).click();
  const name = dialog.getByRole("textbox", { name: "Name" });
  const id = dialog.getByRole("textbox", { name: "Id" });
  await create();
  await assertError(name, "Fill this in.");
  await name.fill("Twice");
  await id.fill("not an id 🙈");
  await create();
  await assertError(id, "Only letters, digits");
  await id.fill("default");
  await create();
  await assertError(id, "exists already");
  assert.equal(await name.inputValue(), "Twice");
  await id.fill("twice");
  await create();
  await page.getByRole("heading", { name: "Twice" }).waitFor();

  await page.getByRole("button", { name: "Invite" }).click();
  const email = dialog.getByRole("textbox", { name: "E-mail address" });
  for (const bad of ["nobody", "a b@example.com"]) {
    await email.fill(bad);
    await dialog.getByRole("button", { name: "Invite" }).click();
    await assertError(email, "not an e-mail address");
  }
  await page.keyboard.press("Escape");

  await page.goto(`${control.url}/people`);
  await page.getByRole("button", { name: "Create token" }).click();
  const send = () => dialog.getByRole("button", { name: "Create token" }).click();
  await dialog.getByRole("textbox", { name: "Name" }).fill("scopes");
  const scopes = dialog.getByLabel("Operations", { exact: true }).and(page.locator("input"));
  await scopes.focus();
  for (let count = 0; count < 3; count++) await scopes.press("Backspace");
  await send();
  await assertError(scopes, "At least one entry.");
  for (const [bad, text] of [
    ["list keys", "A scope is the name"],
    ["nosuch", /no operation "nosuch"/],
  ] as const) {
    await scopes.fill(bad);
    await scopes.press("Enter");
    await send();
    await assertError(scopes, text);
    await scopes.press("Backspace");
  }
});

test("the profile, its password and the second factor", async () => {
  await using opened = await browser.open("/me", english);
  const { page } = opened;
  const name = page.getByRole("textbox", { name: "Name", exact: true });
  const email = page.getByRole("textbox", { name: "E-mail address" });
  await name.fill(bidi);
  await page.getByRole("button", { name: "Save" }).click();
  await assertError(name, "change the direction");
  await name.fill("Ada");
  await email.fill("nobody");
  await page.getByRole("button", { name: "Save" }).click();
  await assertError(email, "not an e-mail address");
  await email.fill("ada@example.com");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved", { exact: true }).waitFor();
  const password = page.getByRole("textbox", { name: "New password" });
  for (const [bad, text] of [
    ["", "Fill this in."],
    ["short", "At least 12 characters."],
  ] as const) {
    await password.fill(bad);
    await page.getByRole("button", { name: "Set password" }).click();
    await assertError(password, text);
  }
  await password.fill("correct horse battery");
  await page.getByRole("button", { name: "Set password" }).click();
  await page.getByText("Password set", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Turn on" }).click();
  const dialog = page.getByRole("dialog");
  const own = dialog.getByRole("textbox", { name: "Your password" });
  await own.fill("wrong horse battery");
  await dialog.getByRole("button", { name: "Turn on" }).click();
  await assertError(own, "The password is not right.");
  await own.fill("correct horse battery");
  await dialog.getByRole("button", { name: "Turn on" }).click();
  const code = dialog.getByRole("textbox", { name: "Code" });
  await code.fill("000000");
  await dialog.getByRole("button", { name: "Turn on" }).click();
  await assertError(code, "The code is not right.");
});

test("sign-in and a new password, in Chinese", async () => {
  await using opened = await browser.open("/sign-in", { ...chinese, isSignedIn: false });
  const { page } = opened;
  await page.getByRole("button", { name: "登录", exact: true }).click();
  await assertError(page.getByRole("textbox", { name: "电子邮件地址" }), "请填写此项。");
  await page.getByRole("textbox", { name: "电子邮件地址" }).fill("nobody@example.com");
  await page.getByRole("textbox", { name: "密码" }).fill("wrong horse battery");
  await page.getByRole("button", { name: "登录", exact: true }).click();
  await page.getByRole("alert").getByText("地址或密码不正确。").waitFor();
  assert.equal(await page.getByRole("textbox", { name: "电子邮件地址" }).inputValue(), "nobody@example.com");
});
