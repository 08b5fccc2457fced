/**
 * Every page in a real browser: nothing that axe finds serious, no error, no foreign request; in
 * both colour schemes, both languages, and on a phone.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());
await browser.gateway.post({ model: "sim-fast", messages: [{ role: "user", content: "Hello" }] });

/** The title in English and in Chinese. */
const titles: Record<string, [string, string]> = {
  "/": ["Start", "开始"],
  "/keys": ["Keys", "密钥"],
  "/models": ["Models", "模型"],
  "/playground": ["Playground", "试验场"],
  "/usage": ["Usage", "用量"],
  "/requests": ["Requests", "请求"],
  "/batches": ["Batches", "批处理"],
  "/batches/new": ["New batch", "新建批处理"],
  "/files": ["Files", "文件"],
  "/webhooks": ["Webhooks", "Webhook"],
  "/operations": ["Operations", "运维"],
  "/catalogue": ["Catalogue", "目录"],
  "/accounts": ["Accounts", "账户"],
  "/people": ["People", "人员"],
  "/audit": ["Audit log", "审计日志"],
  "/me": ["Profile and sign-in", "个人资料与登录"],
};

test("every page in English, light, on a desktop", async () => {
  await using opened = await browser.open("/");
  for (const [path, [title]] of Object.entries(titles)) {
    await opened.page.goto(`${browser.control.url}${path}`);
    await opened.page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
    await assertAccessible(opened.page);
  }
});

test("every page in Chinese, dark, on a phone, without a sideways scroll", async () => {
  await using opened = await browser.open("/", {
    colorScheme: "dark",
    locale: "zh-CN",
    viewport: { width: 390, height: 844 },
  });
  for (const [path, [, title]] of Object.entries(titles)) {
    await opened.page.goto(`${browser.control.url}${path}`);
    await opened.page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
    await assertAccessible(opened.page);
    const page = opened.page.locator("html");
    const scrolls = await page.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
    assert.ok(scrolls <= 0, `${path} is ${scrolls} px too wide`);
    assert.equal(await page.getAttribute("data-mantine-color-scheme"), "dark");
  }
});

test("the actions of a row on a phone are in its card", async () => {
  await using opened = await browser.open("/people", { viewport: { width: 390, height: 844 } });
  const { page } = opened;
  await page.getByRole("button", { name: "End sessions" }).first().waitFor();
  const table = page.getByRole("region", { name: "People" }).last();
  const hiddenPx = await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  assert.ok(hiddenPx <= 0, `${hiddenPx} px are out of sight`);
});
