/**
 * The dialogs of the page on operations, and the view for a screen on a wall, in a real browser.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const catalogue = catalogueOf([
  { id: "slow", model: "sim-text;rate=2;first=0;tokens=400" },
  { id: "picture", model: "sim-image", queue: "image" },
]);
// A keep-alive is a head with status 200, after which a cleared queue cannot answer 503.
const environment = { KEEP_ALIVE_MS: "3600000" };
const browser = await startConsole({ workers: ["chat=8,image=2"], catalogue, environment });
after(() => browser[Symbol.asyncDispose]());
const { control, gateway } = browser;
const body = { model: "slow", stream: true, messages: [{ role: "user", content: "Hello" }] };

test("a queue is drained until a time and cleared, and a circuit breaker is kept open and closed, each after a question", async () => {
  await using opened = await browser.open("/operations");
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  const queue = page.getByRole("region", { name: "Queues" }).getByRole("row", { name: /^chat / });
  const act = async (name: string) => {
    await page.getByRole("button", { name: "Actions for chat" }).click();
    await page.getByRole("menuitem", { name }).click();
  };
  await act("Drain");
  await dialog.getByText("New requests are refused with 503").waitFor();
  // Without a reason the form is not sent.
  await dialog.getByRole("button", { name: "Drain" }).click();
  await dialog.getByLabel("Reason").fill("maintenance");
  await dialog.getByRole("combobox", { name: "Ends" }).click();
  await page.getByRole("option", { name: "In an hour" }).click();
  await dialog.getByRole("button", { name: "Drain" }).click();
  await queue.getByText("Draining").waitFor();
  await queue.getByText(/^maintenance \(.*until/).waitFor();
  await until("callers are refused", async () => {
    const response = await gateway.post(body);
    await response.body?.cancel();
    return response.status === 503 && Number(response.headers.get("retry-after")) > 3_000;
  });
  await act("Resume");
  await dialog.getByRole("button", { name: "Resume" }).click();
  await queue.getByText("Accepting").waitFor();

  assert.equal((await control.call("POST", "/operations/queues/chat/pause", { reason: "stuck" })).status, 202);
  await queue.getByText("Paused").waitFor();
  const leave = new AbortController();
  const running = Array.from({ length: 9 }, () => gateway.post(body, { signal: leave.signal }).catch(() => undefined));
  await page.getByText("9 now").waitFor();
  await queue.getByText("default 9").waitFor();
  await act("Clear");
  await dialog.getByText(/: 9 at the moment/).waitFor();
  await assertAccessible(page);
  await dialog.getByLabel("Reason").fill("starting over");
  await dialog.getByRole("button", { name: "Clear" }).click();
  await page.getByText("9 requests were ended").waitFor();
  for (const response of await Promise.all(running)) assert.equal(response?.status, 503);
  leave.abort();
  assert.equal((await control.call("POST", "/operations/queues/chat/resume", {})).status, 202);

  const target = "simulator/sim-image";
  await page.getByRole("button", { name: /^Show \d+ idle$/ }).click();
  await page.getByRole("button", { name: `Keep open ${target}` }).click();
  await dialog.getByLabel("Reason").fill("wrong pictures");
  await dialog.getByRole("button", { name: "Keep open" }).click();
  await page.getByRole("region", { name: "Needs attention" }).getByText(target).waitFor();
  const runbook = page.getByRole("link", { name: "Runbook: Circuit breaker open" });
  const guide = await page.request.get(new URL((await runbook.getAttribute("href")) as string, control.url).href);
  assert.match(await guide.text(), /^### Circuit breaker open$/m);
  await page.getByRole("button", { name: `Close ${target}` }).click();
  await dialog.getByRole("button", { name: "Close" }).click();
  await page.getByRole("button", { name: `Keep open ${target}` }).waitFor();
});

test("ticked generations are stopped together", async () => {
  const running = [1, 2, 3].map(() => gateway.post(body));
  await using opened = await browser.open("/operations", { viewport: { width: 1440, height: 900 } });
  const { page } = opened;
  const dialog = page.getByRole("dialog");
  await page.getByText("3 now").waitFor();
  const stop = page.getByRole("button", { name: /^Stop gen_/ }).first();
  await stop.waitFor();
  const table = page.getByRole("region", { name: "Running generations" }).last();
  const hiddenPx = await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  assert.ok(hiddenPx <= 0, `${hiddenPx} px of the table, which ends with Stop, are out of sight`);
  await page.getByRole("button", { name: "Tick all 3" }).click();
  await page
    .getByRole("checkbox", { name: /^Tick gen_/ })
    .first()
    .uncheck();
  await page.getByRole("button", { name: "Stop 2", exact: true }).click();
  await dialog.getByLabel("Reason").fill("a loop");
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Stop", exact: true }).click();
  await page.getByText("2 generations were stopped").waitFor();
  await page.getByText("1 now").waitFor();
  await page.getByRole("button", { name: /^Stop gen_/ }).click();
  await dialog.getByLabel("Reason").fill("the last");
  await dialog.getByRole("button", { name: "Stop", exact: true }).click();
  for (const response of running) await (await response).body?.cancel().catch(() => undefined);
});

test("the running list is filtered by the address", async () => {
  await using opened = await browser.open("/operations?model=slow&queue=chat");
  const { page } = opened;
  const leave = new AbortController();
  const response = await gateway.post(body, { signal: leave.signal });
  await page.getByText("1 now").waitFor();
  await page.getByRole("combobox", { name: "Queue" }).click();
  await page.getByRole("option", { name: "image" }).click();
  await page.getByText("0 now").waitFor();
  assert.equal(new URL(page.url()).searchParams.get("queue"), "image");
  leave.abort();
  await response.body?.cancel().catch(() => undefined);
});

for (const colorScheme of ["light", "dark"] as const)
  test(`the page and its dialog are accessible and fit a phone: ${colorScheme}`, async () => {
    await using opened = await browser.open("/operations", { colorScheme, viewport: { width: 390, height: 844 } });
    const { page } = opened;
    await page.getByRole("region", { name: "Queues" }).waitFor();
    await assertAccessible(page);
    assert.ok(await page.evaluate("document.documentElement.scrollWidth <= 390"));
    await page.getByRole("button", { name: "Actions for chat" }).click();
    await page.getByRole("menuitem", { name: "Clear" }).click();
    await page.getByRole("dialog").getByLabel("Reason").waitFor();
    await assertAccessible(page);
  });

test("the wall screen shows large figures, and marks them when no data comes", async () => {
  await using opened = await browser.open("/operations/wall", { viewport: { width: 1920, height: 1080 } });
  const { page } = opened;
  const figures = page.locator(".wall-figures strong");
  await figures.first().waitFor();
  await assertAccessible(page);
  assert.equal(await page.getByRole("navigation").count(), 0);
  assert.ok((await figures.first().evaluate((element) => element.getBoundingClientRect().height)) > 80);
  gateway.redis.pause();
  try {
    await page.getByText("No data since").waitFor();
    await assertAccessible(page);
  } finally {
    gateway.redis.resume();
  }
  await page.getByText("No data since").waitFor({ state: "detached" });
});
