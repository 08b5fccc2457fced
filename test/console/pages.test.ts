/** Every page in a real browser: nothing that axe finds serious, no error, no foreign request; in both colour schemes, both languages, and on a phone. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());

const body = { model: "sim-fast", messages: [{ role: "user", content: "Hello" }] };
await browser.gateway.post(body);
const { items: keys } = await browser.control.get<{ items: { id: string }[] }>("/keys");

/** The title in English and in Chinese. */
const titles: Record<string, [string, string]> = {
  "/": ["Start", "开始"],
  "/keys": ["Keys", "密钥"],
  "/models": ["Models", "模型"],
  "/playground": ["Playground", "试验场"],
  "/usage": ["Usage", "用量"],
  "/requests": ["Requests", "请求"],
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

test("pages for people who are not signed in, a page that is not there, and one of a key that is not", async () => {
  await using opened = await browser.open("/usage?range=7d", { isSignedIn: false, expected: /400|404/ });
  const { page } = opened;
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.match(page.url(), /\/sign-in\?to=/);
  await assertAccessible(page);
  for (const path of ["/invitation#token=unknown", "/password#token=unknown"]) {
    await page.goto(`${browser.control.url}${path}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await assertAccessible(page);
  }
  await using signedIn = await browser.open("/keys/key_unknown", { expected: /404/ });
  await signedIn.page.getByText("Nothing is here").waitFor();
  await signedIn.page.goto(`${browser.control.url}/no-such-page`);
  await signedIn.page.getByText("Nothing is here").waitFor();
});

test("the page and its files: no inline script, strict policy, long caching, nothing secret", async () => {
  const headers = { accept: "text/html" };
  const page = await fetch(`${browser.control.url}/keys`, { headers });
  const policy = page.headers.get("content-security-policy") ?? "";
  assert.match(policy, /^default-src 'self'; style-src 'self' 'unsafe-inline';/);
  assert.doesNotMatch(policy, /unsafe-eval|script-src/);
  assert.ok(policy.includes(`connect-src 'self' ${browser.gateway.url};`));
  const html = await page.text();
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)/);
  const files = [...html.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)].map(([, file]) => file as string);
  assert.ok(files.length >= 2);
  for (const file of files) {
    const response = await fetch(`${browser.control.url}${file}`);
    assert.match(response.headers.get("cache-control") ?? "", /immutable/);
    assert.ok(!(await response.text()).includes(browser.gateway.key));
  }
  const outside = await fetch(`${browser.control.url}/assets/..%2f..%2fpackage.json`, { headers });
  assert.notEqual(outside.headers.get("content-type"), "application/json; charset=utf-8");
  assert.equal((await fetch(`${browser.control.url}/api/v1/nothing`, { headers })).status, 404);
  assert.ok(keys.length > 0);
});
