/**
 * Pages without a session, pages that are not there, and what control serves a browser.
 * pages.long.ts opens every page.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";

const browser = await startConsole();
after(() => browser[Symbol.asyncDispose]());

test("pages for people who are not signed in, a page that is not there, and one of a key that is not", async () => {
  await using opened = await browser.open("/usage?range=7d", { isSignedIn: false, expected: /400|404/ });
  const { page } = opened;
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.match(page.url(), /\/sign-in\?to=/);
  await page.getByRole("note").getByText("npx sluice operator link").waitFor();
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

test("a session that ends while a page is open leads to the sign-in, and back to the page", async () => {
  await using opened = await browser.open("/operations", { expected: /401/ });
  const { page } = opened;
  await page.getByRole("region", { name: "Queues" }).waitFor();
  const { items } = (await (await browser.control.call("GET", "/users")).json()) as { items: { id: string }[] };
  await browser.control.call("DELETE", `/users/${items[0]?.id}/sessions`);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  assert.equal(new URL(page.url()).searchParams.get("to"), "/operations");
});

test("the first load of the start page has at most 300 kB", async () => {
  await using opened = await browser.open("/models");
  const { page } = opened;
  // The code of other pages is loaded while the browser is idle.
  await page.addInitScript("globalThis.requestIdleCallback = () => 0");
  await page.goto(`${browser.control.url}/`);
  await page.getByRole("heading", { name: "Call a model" }).waitFor();
  const entries = (await page.evaluate(
    "performance.getEntries().map(({ name, encodedBodySize = 0 }) => [name, encodedBodySize])",
  )) as [string, number][];
  const sizes = entries.filter(([name]) => !name.includes("/api/")).map(([, size]) => size);
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  assert.ok(sizes.length > 5 && bytes > 100_000 && bytes <= 300_000, `${bytes} bytes`);
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
    assert.equal(response.headers.get("content-encoding"), "gzip");
    assert.ok(!(await response.text()).includes(browser.gateway.key));
  }
  const openApi = await fetch(`${browser.control.url}/api/v1/openapi.json`);
  assert.deepEqual([openApi.headers.get("content-encoding"), openApi.headers.get("vary")], ["gzip", "accept-encoding"]);
  assert.ok(((await openApi.json()) as { paths: object }).paths);
  const plain = { "accept-encoding": "identity" };
  assert.equal(
    (await fetch(`${browser.control.url}/api/v1/openapi.json`, { headers: plain })).headers.get("content-encoding"),
    null,
  );
  const outside = await fetch(`${browser.control.url}/assets/..%2f..%2fpackage.json`, { headers });
  assert.notEqual(outside.headers.get("content-type"), "application/json; charset=utf-8");
  assert.equal((await fetch(`${browser.control.url}/api/v1/nothing`, { headers })).status, 404);
});
