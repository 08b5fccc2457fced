/** Anthropic's message batches with the official client, for a model of OpenAI's dialect. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { startFilesGateway } from "../../support/files.ts";
import { until } from "../../support/time.ts";

const catalogue = `
groups:
  default: { models: ["*"] }
upstreams:
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
  - { id: test/gpt, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: sim-fast }] }
  - { id: test/slow, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-fast;head=500" }] }
`;

await using opened = new AsyncDisposableStack();
const { gateway, addAccount, objects } = opened.use(
  await startFilesGateway({ catalogue, withBatches: true, control: { ACCOUNT_BATCHES_MAX: "3" } }),
);
const resources = opened.move();
after(() => resources.disposeAsync());

const clientOf = (apiKey: string) => new Anthropic({ baseURL: gateway.url, apiKey, maxRetries: 0 });

type Request = Anthropic.Messages.BatchCreateParams.Request;
const requestOf = (custom_id: string, params: object = {}): Request => ({
  custom_id,
  params: { model: "test/gpt", max_tokens: 10, messages: [{ role: "user", content: `hello ${custom_id}` }], ...params },
});

async function ended(client: Anthropic, id: string) {
  await until(
    "the end of the batch",
    async () => (await client.messages.batches.retrieve(id)).processing_status === "ended",
  );
  return client.messages.batches.retrieve(id);
}

test("a batch runs at an upstream of another dialect; its results are at the gateway, in order", async () => {
  const client = clientOf(await addAccount("runs"));
  const requests = Array.from({ length: 20 }, (_, index) => requestOf(`r-${index}`));
  const created = await client.messages.batches.create({
    requests: [...requests, requestOf("bad", { temperature: "hot" })],
  });
  assert.deepEqual(
    [created.type, created.processing_status, created.results_url],
    ["message_batch", "in_progress", null],
  );
  assert.equal(created.request_counts.processing, 21);
  const batch = await ended(client, created.id);
  assert.deepEqual(batch.request_counts, { processing: 0, succeeded: 20, errored: 1, canceled: 0, expired: 0 });
  assert.equal(batch.results_url, `${gateway.url}/v1/messages/batches/${batch.id}/results`);
  const results = [];
  for await (const result of await client.messages.batches.results(batch.id)) results.push(result);
  assert.deepEqual(
    results.map(({ custom_id }) => custom_id),
    [...requests.map(({ custom_id }) => custom_id), "bad"],
  );
  for (const { result } of results.slice(0, 20)) {
    assert.ok(result.type === "succeeded");
    assert.equal(result.message.type, "message");
  }
  const last = results.at(-1)?.result;
  assert.ok(last?.type === "errored");
  assert.equal(last.error.error.type, "invalid_request_error");

  // https://platform.claude.com/docs/en/api/csharp/messages/batches/list
  for (const limit of [1, 2, 100, 1_000]) {
    const page = await client.messages.batches.list({ limit });
    assert.deepEqual(
      page.data.map(({ id }) => id),
      [batch.id],
    );
  }
  for (const limit of [0, 1_001]) await assert.rejects(client.messages.batches.list({ limit }), { status: 400 });
  const other = clientOf(await addAccount("other"));
  for (const call of [
    () => other.messages.batches.retrieve(batch.id),
    () => other.messages.batches.cancel(batch.id),
    () => other.messages.batches.delete(batch.id),
  ])
    await assert.rejects(call, { status: 404 });
  assert.deepEqual(await client.messages.batches.delete(batch.id), { id: batch.id, type: "message_batch_deleted" });
  await assert.rejects(client.messages.batches.retrieve(batch.id), { status: 404 });
  assert.deepEqual(
    (await objects()).filter((name) => /^b[0-9a-f]{64}$/.test(name)),
    [],
  );
});

test("a cancelled batch has results for all its requests", async () => {
  const client = clientOf(await addAccount("cancels"));
  const requests = Array.from({ length: 300 }, (_, index) => requestOf(`r-${index}`, { model: "test/slow" }));
  const created = await client.messages.batches.create({ requests });
  const cancelled = await client.messages.batches.cancel(created.id);
  assert.notEqual(cancelled.cancel_initiated_at, null);
  const batch = await ended(client, created.id);
  const { succeeded, canceled } = batch.request_counts;
  assert.equal(succeeded + canceled, 300);
  assert.ok(canceled > 0);
  const types = [];
  for await (const { result } of await client.messages.batches.results(batch.id)) types.push(result.type);
  assert.equal(types.filter((type) => type === "canceled").length, canceled);
});

const refusals: [name: string, requests: unknown, message: RegExp][] = [
  ["no requests", [], /no requests/],
  ["no list", 7, /list 'requests'/],
  ["a stream", [requestOf("a"), requestOf("b", { stream: true })], /requests\.1\.params\.stream/],
  ["the same id twice", [requestOf("a"), requestOf("a")], /requests\.1\.custom_id/],
  ["an unknown model", [requestOf("a", { model: "none" })], /requests\.0\.params\.model/],
  ["no max_tokens", [requestOf("a", { max_tokens: undefined })], /max_tokens/],
];
for (const [name, requests, message] of refusals)
  test(`a batch with ${name} is refused, and nothing is left of it`, async () => {
    const client = clientOf(await addAccount(`refused-${name.replaceAll(/\W/g, "-")}`));
    await assert.rejects(client.messages.batches.create({ requests: requests as Request[] }), { status: 400, message });
    assert.deepEqual((await client.messages.batches.list()).data, []);
  });

test("requests after the first one at fault are not read", async () => {
  const key = await addAccount("long-element");
  for (const [first, message] of [
    [`"${"x".repeat(33 << 20)}"`, "requests.0: A request has at most 33554432 bytes."],
    ["{}", "requests.0.custom_id: 'custom_id' must have"],
  ] as const) {
    const response = await fetch(`${gateway.url}/v1/messages/batches`, {
      method: "POST",
      headers: { "x-api-key": key, "anthropic-version": "2023-06-01", "content-type": "application/json" },
      body: `{"requests":[${first},[[[${"1,".repeat(5 << 20)}`,
    });
    assert.equal(response.status, 400);
    assert.ok((await response.text()).includes(message));
  }
});

test("an account has only so many batches at once", async () => {
  const client = clientOf(await addAccount("many"));
  const create = () => client.messages.batches.create({ requests: [requestOf("a", { model: "test/slow" })] });
  await Promise.all([create(), create(), create()]);
  await assert.rejects(create(), { status: 429 });
});
