/** Batches in the console, on the real stack: progress, errors in words, cancelling. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import { assertAccessible, startConsole } from "../support/console.ts";
import { catalogueOf } from "../support/gateway.ts";
import { until } from "../support/time.ts";

const browser = await startConsole({
  catalogue: catalogueOf([
    { id: "fast", model: "sim-fast" },
    { id: "slow", model: "sim-fast;head=20000" },
  ]),
});
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
  await using opened = await browser.open("/batches");
  const { page } = opened;
  const rowOf = (id: string) => page.getByRole("row").filter({ has: page.getByRole("link", { name: id }) });
  await rowOf(good).getByText("Completed", { exact: true }).waitFor();
  await rowOf(mixed).getByText("Completed with errors", { exact: true }).waitFor();
  await rowOf(mixed).getByRole("img", { name: "Requests: Done 1, Failed 1" }).waitFor();
  await assertAccessible(page);
  await page.getByRole("link", { name: mixed }).click();
  await page.getByRole("heading", { level: 1, name: mixed }).waitFor();
  await page.getByText("2 of 2").waitFor();
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
  await page.getByRole("button", { name: "Cancel the batch" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the batch" }).click();
  await page.getByText("Being cancelled").waitFor();
  assert.equal((await client.batches.retrieve(id)).status, "cancelling");
});
