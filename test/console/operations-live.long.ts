/**
 * The page on operations in a real browser: it controls queues and generations, and shows how
 * workers come and go.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";

const catalogue = catalogueOf([{ id: "slow", model: "sim-text;rate=2;first=0;tokens=400" }]);
const browser = await startConsole({ processes: "workers", workers: ["chat=8", "chat=8"], catalogue });
after(() => browser[Symbol.asyncDispose]());
const { control, gateway } = browser;

interface State {
  queues: { name: string; running: number; capacity: number; workers: number }[];
  processes: { id: string; role: string; pid: number; isLate: boolean }[];
}
const state = () => control.get<State>("/operations");

test("operators pause a queue and stop a generation, each with a reason that callers see", async () => {
  await using opened = await browser.open("/operations", { expected: /400.*stop/ });
  const { page } = opened;
  const body = { model: "slow", stream: true, messages: [{ role: "user", content: "Hello" }] };
  const response = await gateway.post(body);
  const read = readStream(response);
  const stop = page.getByRole("button", { name: /^Stop gen_/ });
  await stop.click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("its caller gets an error with the reason").waitFor();
  const reason = dialog.getByLabel("Reason");
  // A value that the browser lets through and the API refuses is marked at the field.
  await reason.fill(" ");
  await dialog.getByRole("button", { name: "Stop" }).click();
  await page.locator("[aria-invalid=true]").waitFor();
  await reason.fill("runs too long");
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Stop" }).click();
  const { error } = await read;
  assert.match(error?.message ?? "", /runs too long$/);
  await stop.waitFor({ state: "detached" });

  const queue = page.getByRole("region", { name: "Queues" }).getByRole("row", { name: /^chat / });
  const act = async (name: string) => {
    await page.getByRole("button", { name: "Actions for chat" }).click();
    await page.getByRole("menuitem", { name }).click();
  };
  await act("Pause");
  await reason.fill("the upstream moves");
  await dialog.getByRole("button", { name: "Pause" }).click();
  await queue.getByText("Paused").waitFor();
  await queue.getByText(/^the upstream moves \(/).waitFor();
  await act("Resume");
  await dialog.getByRole("button", { name: "Resume" }).click();
  await queue.getByText("Accepting").waitFor();
});

test("operators see a load live, a killed worker, and drain another", async () => {
  await using opened = await browser.open("/operations");
  const { page } = opened;
  const queue = page.getByRole("region", { name: "Queues" }).getByRole("row", { name: /^chat / });
  await queue.getByText("0 / 16").waitFor();

  const leave = new AbortController();
  const body = {
    model: "slow",
    stream: true,
    messages: [{ role: "user", content: "Hello" }],
  };
  const streams = await Promise.all(Array.from({ length: 6 }, () => gateway.post(body, { signal: leave.signal })));
  assert.deepEqual(new Set(streams.map(({ status }) => status)), new Set([200]));
  await queue.getByText("6 / 16").waitFor();
  await assertAccessible(page);

  await gateway.workers[0]?.kill();
  const processes = page.getByRole("region", { name: "Processes" });
  await processes.getByText("No report").waitFor();
  await queue.getByText(/ \/ 8$/).waitFor();
  leave.abort();

  const { processes: all } = await state();
  const worker = all.find(({ role, isLate }) => role === "worker" && !isLate);
  assert.ok(worker);
  await page.getByRole("button", { name: `Drain ${worker.id}` }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Drain", exact: true }).click();
  await until(
    "the worker has ended and left",
    async () => !(await state()).processes.some(({ id }) => id === worker.id),
  );
  await page.getByText("No worker").first().waitFor();
  const { items } = await control.get<{ items: { action: string; subject: string }[] }>("/audit");
  assert.equal(items.find(({ action }) => action === "drainProcess")?.subject, `worker ${worker.id}`);
});

test("the live view refuses strangers and pages of other origins", async () => {
  const url = `${control.url.replace("http", "ws")}/api/v1/operations/live`;
  const closed = await new Promise<string>((resolve) => {
    const socket = new WebSocket(url);
    socket.onopen = () => resolve("open");
    socket.onerror = () => resolve("refused");
  });
  assert.equal(closed, "refused");
  const { url: link } = (await (await control.call("POST", "/sign-in-links", {})).json()) as { url: string };
  const response = await fetch(link, { redirect: "manual" });
  const cookie = response.headers
    .getSetCookie()
    .map((text) => text.split(";", 1)[0])
    .join("; ");
  const { WebSocket: Client } = await import("ws");
  const outcomeFor = (origin: string) =>
    new Promise<number>((resolve) => {
      const socket = new Client(url, { headers: { cookie }, origin });
      socket.on("open", () => {
        resolve(101);
        socket.terminate();
      });
      socket.on("unexpected-response", (_request, { statusCode = 0 }) => resolve(statusCode));
      socket.on("error", () => {});
    });
  assert.deepEqual([await outcomeFor(control.url), await outcomeFor("http://evil.example")], [101, 403]);
});
