/**
 * Batches, files and webhooks in the console, on the real stack: from a file that is dropped to its
 * results.
 */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import OpenAI from "openai";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const catalogue = catalogueOf([
  { id: "fast", model: "sim-fast" },
  { id: "slow", model: "sim-fast;head=20000" },
]);
const browser = await startConsole({ catalogue }, { WEBHOOK_NETWORKS: "127.0.0.0/8" });
after(() => browser[Symbol.asyncDispose]());
const client = new OpenAI({
  baseURL: `${browser.gateway.url}/v1`,
  apiKey: await browser.addAccount("research"),
  maxRetries: 0,
});

const lineOf = (id: string, body: object = {}) =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "fast", messages: [{ role: "user", content: "Hello" }], ...body },
  });

async function createBatch(lines: string[]): Promise<string> {
  const file = await client.files.create({ file: new File([lines.join("\n")], "input.jsonl"), purpose: "batch" });
  const { id } = await client.batches.create({
    input_file_id: file.id,
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  return id;
}

const isOver = async (id: string) => ["completed", "failed"].includes((await client.batches.retrieve(id)).status);

test("a completed batch is green only if all of its requests succeeded", async () => {
  const [good, mixed] = await Promise.all([
    createBatch([lineOf("a"), lineOf("b")]),
    createBatch([lineOf("a"), lineOf("b", { temperature: "hot" })]),
  ]);
  await until("the batches are over", async () => (await isOver(good)) && (await isOver(mixed)));
  await using opened = await browser.open("/batches", { viewport: { width: 1280, height: 800 } });
  const { page } = opened;
  const rowOf = (id: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name: id }) });
  await rowOf(good).getByText("Completed", { exact: true }).waitFor();
  await rowOf(mixed).getByText("Completed with errors", { exact: true }).waitFor();
  await rowOf(mixed).getByRole("img", { name: "Requests: Done 1, Failed 1" }).waitFor();
  const table = page.getByRole("region", { name: "Batches" });
  const hiddenWidth = await table.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth);
  assert.ok(hiddenWidth <= 0, `${hiddenWidth} px of the list are cut at 1280 px`);
  await assertAccessible(page);
  await page.getByRole("link", { name: mixed }).click();
  await page.getByRole("heading", { level: 1, name: mixed }).waitFor();
  await page.getByText("2 of 2").waitFor();
  await page.getByText("The request is not valid.").waitFor();
  await page.getByRole("cell", { name: "b", exact: true }).waitFor();
  const downloading = page.waitForEvent("download");
  await page.getByRole("link", { name: "Download the errors" }).click();
  const download = await downloading;
  assert.equal(download.suggestedFilename(), `${mixed}_error.jsonl`);
  assert.match(await readFile(await download.path(), "utf8"), /"custom_id":"b"/);
  await assertAccessible(page);
});

test("an input at fault: nothing ran, and the faults are in words, by line", async () => {
  const id = await createBatch([lineOf("a"), "{ nonsense", lineOf("c", { model: "none" }), lineOf("a")]);
  await until("the batch has failed", () => isOver(id));
  await using opened = await browser.open(`/batches/${id}`);
  const { page } = opened;
  await page.getByText("Refused by the check").waitFor();
  await page.getByText("Nothing of this batch ran, and nothing was charged").waitFor();
  await page.getByText("The line is not valid JSON.").waitFor();
  await page.getByText("An earlier request has the same custom_id.").waitFor();
  for (const line of [2, 3, 4]) await page.getByText(`Line ${line}`, { exact: true }).waitFor();
  await assertAccessible(page);
});

test("a running batch shows what is done, and is cancelled", async () => {
  const id = await createBatch([
    lineOf("a"),
    ...Array.from({ length: 20 }, (_, n) => lineOf(`s-${n}`, { model: "slow" })),
  ]);
  await until("one request is done", async () => (await client.batches.retrieve(id)).request_counts?.completed === 1);
  await using opened = await browser.open(`/batches/${id}`);
  const { page } = opened;
  await page.getByText("1 of 21").waitFor();
  await page.getByText("Deadline in 23 hours").waitFor();
  await page.getByRole("img", { name: "Requests: Done 1, Running 20" }).waitFor();
  await page.getByRole("button", { name: "Cancel the batch" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the batch" }).click();
  await page.getByText("Being cancelled").waitFor();
  assert.equal((await client.batches.retrieve(id)).status, "cancelling");
});

test("a dropped file is checked before anything runs; then it runs in two clicks", async () => {
  const before = (await client.batches.list()).data.length;
  await using opened = await browser.open("/batches/new");
  const { page } = opened;
  const drop = async (lines: string[]) => {
    const file = `new File([${JSON.stringify(lines.join("\n"))}], "input.jsonl")`;
    const data = await page.evaluateHandle(
      `(() => { const transfer = new DataTransfer(); transfer.items.add(${file}); return transfer; })()`,
    );
    await page
      .getByRole("region", { name: "Drop a file of requests here" })
      .dispatchEvent("drop", { dataTransfer: data });
  };
  await page.getByRole("button", { name: "Choose a file" }).and(page.locator(":enabled")).waitFor();
  await drop([lineOf("a"), "{ nonsense", lineOf("a")]);
  await page.getByText("input.jsonl cannot run").waitFor();
  await page.getByText("Line 2", { exact: true }).waitFor();
  await page.getByText("Line 3", { exact: true }).waitFor();
  await assertAccessible(page);
  await drop([lineOf("a"), lineOf("b")]);
  await page.getByText("input.jsonl has no fault").waitFor();
  await assertAccessible(page);
  assert.equal((await client.batches.list()).data.length, before, "nothing was created");
  await page.getByRole("button", { name: "Run 2 requests" }).click();
  await page.getByText("Completed", { exact: true }).waitFor();
  await page.getByRole("link", { name: "Download the output" }).waitFor();
});

test("files show their size and the space of their account, and are deleted", async () => {
  const file = await client.files.create({ file: new File(["notes"], "notes.txt"), purpose: "user_data" });
  await using opened = await browser.open("/files?account=research&purpose=user_data", { expected: /404/ });
  const { page } = opened;
  await page.getByRole("cell", { name: "5 B", exact: true }).waitFor();
  await page.getByRole("img", { name: /^Space of the account: Used/ }).waitFor();
  await assertAccessible(page);
  await page.getByRole("button", { name: "Delete notes.txt" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
  await page.getByText("No files").waitFor();
  await assert.rejects(client.files.retrieve(file.id), { status: 404 });
});

test("a webhook: its secret is shown once, and its deliveries have their attempts", async () => {
  const statuses = [500, 200, 200];
  const received: string[] = [];
  const server = createServer((request, response) => {
    received.push(String(request.headers["webhook-id"]));
    request.resume();
    response.writeHead(statuses.shift() ?? 200).end();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  after(() => server.close());
  await using opened = await browser.open("/webhooks?account=research");
  const { page } = opened;
  await page.getByRole("button", { name: "Add a webhook" }).first().click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("textbox", { name: "Name" }).fill("receiver");
  const { port } = server.address() as AddressInfo;
  await dialog.getByRole("textbox", { name: "Address" }).fill(`http://127.0.0.1:${port}/events`);
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Add a webhook" }).click();
  const secret = await dialog.getByText(/^whsec_/).textContent();
  await dialog.getByRole("button", { name: "I have stored it" }).click();
  await page.getByRole("button", { name: "Test receiver" }).click();
  const row = page.getByRole("region", { name: "Deliveries" }).getByRole("row").nth(1);
  await row.getByText("Delivered").waitFor();
  assert.ok(secret && !(await page.content()).includes(secret));
  await row.getByRole("button", { name: /^Attempts 2/ }).click();
  await dialog.getByRole("cell", { name: "500", exact: true }).waitFor();
  await assertAccessible(page);
  await dialog.getByRole("button", { name: "Close" }).click();
  await row.getByRole("button", { name: /^Repeat/ }).click();
  await until("the event has arrived again", async () => received.length === 3);
  assert.equal(new Set(received).size, 1, "a repeated event has the same id");
});
