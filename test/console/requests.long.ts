/** The log of requests, and the page of one, in a real browser. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { record } from "./usage-support.ts";

const catalogue = `${catalogueOf([{ id: "fast", model: "sim-text;rate=0;first=0" }])}  - id: second-try
    retries: 1
    queue: chat
    prices: { inputPerMillion: 1, outputPerMillion: 2 }
    route:
      - { upstream: simulator, model: "sim-text;status=500" }
      - { upstream: simulator, model: "sim-text;rate=0;first=0" }
`;
const browser = await startConsole({ catalogue });
after(() => browser[Symbol.asyncDispose]());

const now = Date.now();
const log = "section[aria-label=Requests]";
const messages = [{ role: "user" as const, content: "Hello" }];

test("a long log loads as it is scrolled, and draws only what is in sight", async () => {
  await record(
    browser,
    "long-log",
    Array.from({ length: 1_200 }, (_, index) => ({ receivedAt: now - index * 1_000 })),
  );
  await using opened = await browser.open("/requests?account=long-log");
  const { page } = opened;
  await page.getByText("100 loaded").waitFor();
  for (const count of ["300", "600", "1,200"])
    await until(`${count} are loaded`, async () => {
      await page.locator(log).evaluate((element) => {
        element.scrollTop = element.scrollHeight;
      });
      return page.getByText(`${count} loaded`).isVisible();
    });
  assert.ok((await page.locator(`${log} tbody tr`).count()) < 100);
  const times = await page
    .locator(`${log} tbody a[title*=":"]`)
    .evaluateAll((links) => links.map((link) => link.title));
  const newestFirst = [...times].sort((left, right) => Date.parse(right) - Date.parse(left));
  assert.deepEqual(times, newestFirst);
});

test("on a phone the rows are cards, which load as they are scrolled, and filters are folded", async () => {
  await using opened = await browser.open("/requests?account=long-log&group=default", {
    viewport: { width: 390, height: 844 },
  });
  const { page } = opened;
  await page.getByText("100 loaded").waitFor();
  const width = await page.locator(log).evaluate(({ scrollWidth, clientWidth }) => [scrollWidth, clientWidth]);
  assert.equal(width[0], width[1], "nothing is beside the screen");
  await until("more are loaded", async () => {
    await page.locator(log).evaluate((element) => {
      element.scrollTop = element.scrollHeight;
    });
    return page.getByText("300 loaded").isVisible();
  });
  const places = await page
    .locator(`${log} tbody tr[data-index]`)
    .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect()).map(({ top, bottom }) => [top, bottom]));
  assert.ok(places.length > 3 && places.length < 60, `${places.length} cards`);
  for (const [place, [top = 0]] of places.entries())
    assert.ok(place === 0 || Math.abs(top - (places[place - 1]?.[1] ?? 0)) < 2, "a card begins where one ends");
  const model = page.getByRole("combobox", { name: "Model" });
  assert.equal(await model.isVisible(), false);
  await page.getByRole("button", { name: "Filters (1)" }).click();
  await model.waitFor();
});

test("filters narrow the log, and a drag over the plot narrows its range", async () => {
  await record(browser, "filtered-log", [
    { receivedAt: now - 1_000 },
    { receivedAt: now - 2_000, outcome: "refused", status: 429, errorCode: "rate_limited" },
    { receivedAt: now - 3_000, outcome: "failed", status: 502, errorCode: "upstream_failed" },
  ]);
  await using opened = await browser.open("/requests?account=filtered-log&range=24h");
  const { page } = opened;
  await page.getByText("3 loaded").waitFor();
  await page.getByRole("combobox", { name: "Error" }).click();
  await page.getByRole("option", { name: "rate_limited" }).click();
  await page.getByText("1 loaded").waitFor();
  assert.match(page.url(), /errorCode=rate_limited/);
  for (const total of [/^Answered\s*0$/, /^Refused\s*1$/, /^Failed\s*0$/])
    await page.getByText(total).first().waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("option", { name: "rate_limited" }).waitFor({ state: "hidden" });

  const plot = page.locator(".u-over");
  const box = await plot.boundingBox();
  assert.ok(box);
  await page.mouse.move(box.x + box.width * 0.25, box.y + 20);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.5, box.y + 20, { steps: 4 });
  await page.mouse.up();
  await page.waitForURL(/range=custom/);
  const { searchParams } = new URL(page.url());
  const hours = (Date.parse(searchParams.get("to") ?? "") - Date.parse(searchParams.get("from") ?? "")) / 3_600_000;
  assert.ok(hours >= 5.5 && hours <= 7, `${hours}`);
  await page.goBack();
  await page.waitForURL(/range=24h/);
});

test("while it is live, new requests appear on top and are marked", async () => {
  const account = "live-log";
  const key = await browser.gateway.createKey("default", { account });
  await record(browser, account, [{ receivedAt: now - 1_000 }]);
  await using opened = await browser.open(`/requests?account=${account}&live=1`);
  const { page } = opened;
  await page.getByText("1 loaded").waitFor();
  await browser.gateway.post({ model: "fast", messages }, { key });
  await page.locator(".fresh-row").waitFor();
  await page.getByText("2 loaded").waitFor();
  assert.match((await page.locator(`${log} tbody tr`).first().textContent()) ?? "", /fast/);

  const becomes = (state: "hidden" | "visible") =>
    page.evaluate(`
      Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
      document.dispatchEvent(new Event("visibilitychange", { bubbles: true }));`);
  await becomes("hidden");
  await browser.gateway.post({ model: "fast", messages }, { key });
  await until("the ledger has it", async () => {
    const { items } = await browser.control.get<{ items: object[] }>(`/usage/records?account=${account}`);
    return items.length === 3;
  });
  assert.ok(await page.getByText("2 loaded").isVisible());
  await becomes("visible");
  await page.getByText("3 loaded").waitFor();
});

test("any id opens the request, whose cost is explained to the last digit", async () => {
  const account = "explained";
  const key = await browser.gateway.createKey("default", { account });
  const response = await browser.gateway.post({ model: "fast", messages }, { key });
  const requestId = response.headers.get("x-request-id") ?? "";
  await response.text();
  let own: { cost: string; id: string } | undefined;
  await until("the ledger has it", async () => {
    const { items } = await browser.control.get<{ items: { cost: string; id: string }[] }>(
      `/usage/records?account=${account}`,
    );
    [own] = items;
    return own !== undefined;
  });
  await using opened = await browser.open("/requests");
  const { page } = opened;
  await page.getByLabel(/^Id of a request/).fill(requestId);
  await page.getByRole("button", { name: "Open" }).click();
  await page.getByRole("heading", { name: "fast" }).waitFor();
  assert.equal(Number((await page.locator("[data-cost]").textContent())?.replace("$", "")), Number(own?.cost));
  assert.equal(await page.getByText("do not give the recorded cost").count(), 0);
  for (const phase of ["Admission queue", "Waits for a worker", "Until the first content", "Answer"])
    await page.getByRole("cell", { name: phase, exact: true }).waitFor();
  await page.getByText(own?.id ?? "", { exact: true }).waitFor();
});

test("a request that needed several calls shows each with its outcome", async () => {
  const account = "several-calls";
  const key = await browser.gateway.createKey("default", { account });
  await (await browser.gateway.post({ model: "second-try", messages }, { key })).text();
  let id: string | undefined;
  await until("the ledger has it", async () => {
    const { items } = await browser.control.get<{ items: { id: string }[] }>(`/usage/records?account=${account}`);
    id = items[0]?.id;
    return id !== undefined;
  });
  await using opened = await browser.open(`/requests/${id}`);
  const { page } = opened;
  await page.getByText("Calls of upstreams: 2").waitFor();
  const outcomes = await page
    .locator("[data-call]")
    .evaluateAll((rows) => rows.map((row) => row.getAttribute("data-call")));
  assert.deepEqual(outcomes, ["upstream_failed", "answered"]);
  await page.getByText("upstream_failed 500").waitFor();
});

test("an error is put in words", async () => {
  const [refused] = await record(browser, "refused", [
    { outcome: "refused", status: 429, errorCode: "budget_exhausted", cost: "0", unitPrices: null, boundMs: null },
  ]);
  await using opened = await browser.open(`/requests/${refused?.generationId}`);
  const { page } = opened;
  await page.getByText("The budget of the key, its group or its account is spent.").waitFor();
  await page.getByText("Nothing was billed.").waitFor();
});

test("an unknown id says that nothing is there", async () => {
  await using opened = await browser.open("/requests/req_unknown", { expected: /404/ });
  await opened.page.getByText("Nothing is here").waitFor();
});

for (const colorScheme of ["light", "dark"] as const)
  test(`the log and a request are accessible (${colorScheme})`, async () => {
    const account = `accessible-${colorScheme}`;
    await record(browser, account, [
      { receivedAt: now - 5_000 },
      { receivedAt: now - 6_000, outcome: "failed", status: 502, errorCode: "upstream_failed" },
      { receivedAt: now - 7_000, outcome: "refused", status: 429, errorCode: "rate_limited" },
      { receivedAt: now - 8_000, outcome: "left" },
    ]);
    await using opened = await browser.open(`/requests?account=${account}`, { colorScheme });
    const { page } = opened;
    await page.getByText("4 loaded").waitFor();
    await page.locator("canvas").waitFor();
    await assertAccessible(page);
    await page.locator(`${log} tbody a`).first().click();
    await page.locator("[data-cost]").waitFor();
    await assertAccessible(page);
  });
