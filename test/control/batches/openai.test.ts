/** OpenAI's batches with the official client, for a model of another dialect's upstream. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI, { toFile } from "openai";
import { startFilesGateway } from "../../support/files.ts";
import { until } from "../../support/time.ts";

const catalogue = `
groups:
  default: { models: ["*"] }
  narrow: { models: ["test/claude"] }
upstreams:
  simulator: { dialect: anthropic-messages, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  vendor: { dialect: openai-responses, batchApi: true, baseUrl: "\${SIMULATOR_URL}/v1" }
  embedder: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: test/claude, prices: { inputPerMillion: 1000, outputPerMillion: 1000, serviceTiers: { batch: 0.5 } }, route: [{ upstream: simulator, model: sim-fast }] }
  - { id: test/vendor, prices: { inputPerMillion: 1000, outputPerMillion: 1000, serviceTiers: { batch: 0.5 } }, route: [{ upstream: vendor, model: sim-fast }] }
  - { id: test/embedding, prices: { inputPerMillion: 1, outputPerMillion: 0 }, route: [{ upstream: embedder, model: sim-embedding }] }
  - { id: test/slow, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-fast;head=5000" }] }
`;

await using opened = new AsyncDisposableStack();
const { gateway, control, addAccount, objects } = opened.use(
  await startFilesGateway({ catalogue, withBatches: true, control: { VENDOR_BATCH_POLL_SECONDS: "1" } }),
);
const resources = opened.move();
after(() => resources.disposeAsync());

const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });

const chatLine = (id: string, more: object = {}) =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model: "test/claude", messages: [{ role: "user", content: `hello ${id}` }], ...more },
  });

async function upload(client: OpenAI, lines: string): Promise<string> {
  const file = await client.files.create({ file: await toFile(Buffer.from(lines), "in.jsonl"), purpose: "batch" });
  return file.id;
}

async function run(
  client: OpenAI,
  lines: string,
  endpoint: "/v1/chat/completions" | "/v1/embeddings" = "/v1/chat/completions",
) {
  const created = await client.batches.create({
    input_file_id: await upload(client, lines),
    endpoint,
    completion_window: "24h",
    metadata: { run: "1" },
  });
  assert.equal(created.status, "validating");
  assert.deepEqual(created.metadata, { run: "1" });
  let batch = created;
  await until("the end of the batch", async () => {
    batch = await client.batches.retrieve(created.id);
    return ["completed", "failed", "expired", "cancelled"].includes(batch.status);
  });
  return batch;
}

const contentOf = async (client: OpenAI, id: string | undefined) =>
  (await (await client.files.content(id ?? "")).text())
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

test("a batch runs at an upstream of another dialect, at the batch price", async () => {
  const client = clientOf(await addAccount("runs"));
  const lines = Array.from({ length: 30 }, (_, index) => chatLine(`line-${index}`)).concat(
    chatLine("bad", { temperature: "hot" }),
  );
  const batch = await run(client, lines.join("\n"));
  assert.equal(batch.status, "completed");
  assert.deepEqual(batch.request_counts, { total: 31, completed: 30, failed: 1 });
  assert.equal(batch.model, "test/claude");
  const output = await contentOf(client, batch.output_file_id);
  assert.deepEqual(
    output.map(({ custom_id }) => custom_id),
    Array.from({ length: 30 }, (_, index) => `line-${index}`),
  );
  for (const { response, error } of output) {
    assert.deepEqual([response.status_code, error], [200, null]);
    assert.equal(response.body.object, "chat.completion");
    assert.match(response.request_id, /^req_/);
  }
  const [error, ...others] = await contentOf(client, batch.error_file_id);
  assert.equal(others.length, 0);
  assert.deepEqual([error.custom_id, error.response.status_code, error.error], ["bad", 400, null]);
  assert.match(error.response.body.error.message, /temperature/);

  type Entry = { id: string; serviceTier: string | null; status: number; price: { serviceRatio: number } | null };
  let items: Entry[] = [];
  await until("the ledger has all lines", async () => {
    items = (await control.get<{ items: Entry[] }>("/usage/records?account=runs&limit=100")).items;
    return items.length >= 31;
  });
  assert.equal(items.length, 31);
  assert.equal(new Set(items.map(({ id }) => id)).size, 31);
  for (const { serviceTier, status, price } of items)
    if (status === 200) {
      assert.match(serviceTier ?? "", /^batch/);
      assert.equal(price?.serviceRatio, 0.5);
    }
});

test("the usage of a batch is whole when it has ended", async () => {
  const client = clientOf(await addAccount("counts"));
  for (let runs = 0; runs < 5; runs++) {
    const batch = await run(client, [1, 2].map((place) => chatLine(`line-${place}`)).join("\n"));
    const output = await contentOf(client, batch.output_file_id);
    const tokens = output.reduce((sum, { response }) => sum + response.body.usage.total_tokens, 0);
    assert.ok(tokens > 0);
    assert.equal(batch.usage?.total_tokens, tokens);
  }
});

test("only files are left when a batch is over", async () => {
  const client = clientOf(await addAccount("left"));
  const batch = await run(client, chatLine("a"));
  await client.files.delete(batch.input_file_id);
  await client.files.delete(batch.output_file_id ?? "");
  const { data } = await client.batches.list();
  assert.equal(data.length, 1);
  await until("its lines are deleted", async () => !(await objects()).some((name) => /^b[0-9a-f]{64}$/.test(name)));
});

test("lines run in a batch of their vendor, others one by one", async () => {
  const client = clientOf(await addAccount("vendor"));
  const lines = Array.from({ length: 6 }, (_, index) =>
    chatLine(`line-${index}`, index % 3 === 0 ? {} : { model: "test/vendor" }),
  );
  const batch = await run(client, lines.join("\n"));
  assert.deepEqual(batch.request_counts, { total: 6, completed: 6, failed: 0 });
  const output = await contentOf(client, batch.output_file_id);
  assert.deepEqual(
    output.map(({ custom_id, response }) => [custom_id, response.body.object, response.body.model]),
    lines.map((_, index) => [`line-${index}`, "chat.completion", index % 3 === 0 ? "test/claude" : "test/vendor"]),
  );
  let items: { cost: string }[] = [];
  await until("the records", async () => {
    items = (await control.get<{ items: typeof items }>("/usage/records?account=vendor&limit=100")).items;
    return items.length === 6;
  });
  const { usage } = await client.batches.retrieve(batch.id);
  const cost = items.reduce((sum, record) => sum + Number(record.cost), 0);
  assert.equal(cost.toFixed(6), ((usage?.total_tokens ?? 0) / 2_000).toFixed(6));
  const left = (await (await fetch(`${gateway.simulatorUrl}/v1/files`)).json()) as { data: object[] };
  assert.deepEqual(left.data, []);
});

test("a file with faults is refused with each line, and costs nothing", async () => {
  const client = clientOf(await addAccount("faults"));
  const batch = await run(
    client,
    [chatLine("a"), "{", chatLine("a"), chatLine("b", { stream: true }), chatLine("c", { model: "none" })].join("\n"),
  );
  assert.equal(batch.status, "failed");
  assert.deepEqual(
    batch.errors?.data?.map(({ line, code, param }) => [line, code, param]),
    [
      [2, "invalid_json_line", null],
      [3, "duplicate_custom_id", "custom_id"],
      [4, "invalid_request", "body.stream"],
      [5, "model_not_found", "body.model"],
    ],
  );
  assert.equal(batch.output_file_id, null);
  const { items } = await control.get<{ items: object[] }>("/usage/records?account=faults&limit=100");
  assert.deepEqual(items, []);
});

test("batches are listed, paged, and each account's own", async () => {
  const client = clientOf(await addAccount("lists"));
  const other = clientOf(await addAccount("other"));
  const ids: string[] = [];
  for (let index = 0; index < 3; index++) ids.push((await run(client, chatLine(`${index}`))).id);
  const page = await client.batches.list({ limit: 2 });
  assert.deepEqual(
    page.data.map(({ id }) => id),
    [ids[2], ids[1]],
  );
  assert.equal(page.hasNextPage(), true);
  assert.deepEqual(
    (await page.getNextPage()).data.map(({ id }) => id),
    [ids[0]],
  );
  assert.deepEqual((await other.batches.list()).data, []);
  for (const call of [() => other.batches.retrieve(ids[0] ?? ""), () => other.batches.cancel(ids[0] ?? "")])
    await assert.rejects(call, { status: 404 });
  await assert.rejects(client.batches.cancel(ids[0] ?? ""), { status: 400 });
});

const refusals: [name: string, body: object, status: number, param: string][] = [
  ["an unknown file", { input_file_id: "file-000000000000000000000000" }, 404, "input_file_id"],
  ["no file", { input_file_id: undefined }, 404, "input_file_id"],
  ["another endpoint", { endpoint: "/v1/audio/speech" }, 400, "endpoint"],
  ["another window", { completion_window: "1h" }, 400, "completion_window"],
  ["a list as metadata", { metadata: [] }, 400, "metadata"],
  ["a number in metadata", { metadata: { a: 1 } }, 400, "metadata"],
  ["an early expiry", { output_expires_after: { anchor: "created_at", seconds: 5 } }, 400, "output_expires_after"],
];
for (const [name, body, status, param] of refusals)
  test(`a batch with ${name} is refused`, async () => {
    const client = clientOf(await addAccount(`refused-${name.replaceAll(" ", "-")}`));
    const request = {
      input_file_id: await upload(client, chatLine("a")),
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
      ...body,
    };
    await assert.rejects(client.batches.create(request as OpenAI.BatchCreateParams), { status, param });
  });

test("embeddings run too, and a cancelled batch ends", async () => {
  const client = clientOf(await addAccount("embeds"));
  const line = JSON.stringify({
    custom_id: "a",
    method: "POST",
    url: "/v1/embeddings",
    body: { model: "test/embedding", input: "x" },
  });
  const batch = await run(client, line, "/v1/embeddings");
  const [result] = await contentOf(client, batch.output_file_id);
  assert.equal(result.response.body.object, "list");
  const second = await client.batches.create({
    input_file_id: await upload(client, chatLine("a", { model: "test/slow" })),
    endpoint: "/v1/chat/completions",
    completion_window: "24h",
  });
  const cancelled = await client.batches.cancel(second.id);
  assert.ok(["cancelling", "cancelled"].includes(cancelled.status));
  await until("its end", async () => (await client.batches.retrieve(second.id)).status !== "cancelling");
});

const hostileIds: [method: string, path: string, headers?: Record<string, string>][] = [
  ...["GET", "DELETE"].map((method): [string, string] => [method, "/v1/files/file-ID"]),
  ["GET", "/v1/files/file-ID/content"],
  ["GET", "/v1/files?after=file-ID"],
  ["POST", "/v1/uploads/upload_ID/parts"],
  ["POST", "/v1/uploads/upload_ID/complete"],
  ["POST", "/v1/uploads/upload_ID/cancel"],
  ["GET", "/v1/batches/ID"],
  ["GET", "/v1/batches?after=ID"],
  ["POST", "/v1/batches/ID/cancel"],
  ...["GET", "DELETE"].flatMap((method): [string, string, Record<string, string>][] =>
    ["/v1/files/file_ID", "/v1/messages/batches/ID"].map((path) => [
      method,
      path,
      { "anthropic-version": "2023-06-01" },
    ]),
  ),
  ["GET", "/v1/messages/batches/ID/results", { "anthropic-version": "2023-06-01" }],
  ...["GET", "DELETE"].flatMap((method): [string, string][] => [
    [method, "/v1beta/files/ID"],
    [method, "/v1beta/batches/ID"],
  ]),
  ["POST", "/upload/v1beta/files?upload_id=ID", { "x-goog-upload-command": "upload" }],
];

test("an id that no object can have is a 404 in every API", async () => {
  const authorization = `Bearer ${await addAccount("hostile-ids")}`;
  for (const id of ["a%00", "..%2f..", "a".repeat(3_000), "%F0%9F%98%80"])
    for (const [method, path, headers = {}] of hostileIds) {
      const response = await fetch(`${gateway.url}${path.replace("ID", id)}`, {
        ...{ method, headers: { authorization, ...headers } },
        ...(method === "POST" && { body: new FormData() }),
      });
      const { error } = (await response.json()) as { error?: { message?: string } };
      assert.equal(response.status, 404, `${method} ${path} ${id.slice(0, 20)}`);
      assert.ok(error?.message, `${method} ${path} ${id.slice(0, 20)}`);
    }
});

test("metadata that the database cannot store are refused", async () => {
  const client = clientOf(await addAccount("hostile-metadata"));
  const create = async (metadata: Record<string, string>) =>
    client.batches.create({
      ...{ input_file_id: await upload(client, chatLine("a")), completion_window: "24h", metadata },
      endpoint: "/v1/chat/completions",
    });
  for (const text of ["a\0", "a\ud800"]) {
    await assert.rejects(create({ name: text }), /400 'metadata' must have/);
    await assert.rejects(create({ [text]: "value" }), /400 'metadata' must have/);
  }
  await assert.rejects(
    client.batches.create({ input_file_id: "file-\0", endpoint: "/v1/chat/completions", completion_window: "24h" }),
    /404 No such File object/,
  );
});
