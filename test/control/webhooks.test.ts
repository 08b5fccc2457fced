/** Webhooks through a real gateway: OpenAI's official client verifies and reads the events. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI, { toFile } from "openai";
import { startFilesGateway } from "../support/files.ts";
import { until } from "../support/time.ts";
import { startScriptedUpstream, type UpstreamRequest } from "../support/upstream.ts";

const service = await startFilesGateway({
  withBatches: true,
  workers: ["chat=16,background=16"],
  control: { WEBHOOK_NETWORKS: "127.0.0.0/8" },
  catalogue: `
groups: { default: { models: ["*"] } }
upstreams: { simulator: { dialect: openai-responses, baseUrl: "\${SIMULATOR_URL}/v1" } }
models:
  - { id: fast, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: sim-fast }] }
  - { id: slow, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-text;rate=20;tokens=5000" }] }
  - { id: broken, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "sim-text;status=400" }] }
`,
});
const receiver = await startScriptedUpstream((response) => response.writeHead(200).end());
after(async () => {
  await service[Symbol.asyncDispose]();
  await receiver[Symbol.asyncDispose]();
});
const { control, gateway } = service;

const allEvents = ["completed", "failed", "expired", "cancelled"].map((end) => `batch.${end}`);
const responseEvents = ["completed", "failed", "incomplete", "cancelled"].map((end) => `response.${end}`);

async function accountWithWebhook(account: string, events: readonly string[]) {
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: await service.addAccount(account), maxRetries: 0 });
  const url = `${receiver.origin}/${account}`;
  const created = await control.call("POST", "/webhooks", { account, name: "test", url, events });
  assert.equal(created.status, 201);
  const { id, secret } = (await created.json()) as { id: string; secret: string };
  return { client, id, secret, url };
}

const eventsAt = (account: string) => receiver.requests.filter(({ path }) => path === `/${account}`);

const headersOf = ({ headers }: UpstreamRequest) => new Headers(headers as Record<string, string>);

async function createBatch(client: OpenAI, line: object): Promise<string> {
  const bytes = Buffer.from(`${JSON.stringify(line)}\n`);
  const file = await client.files.create({ file: await toFile(bytes, "in.jsonl"), purpose: "batch" });
  const batch = { input_file_id: file.id, endpoint: "/v1/responses", completion_window: "24h" } as const;
  return (await client.batches.create(batch)).id;
}

const line = { custom_id: "1", method: "POST", url: "/v1/responses", body: { model: "fast", input: "hello" } };

test("the ends of batches reach the webhook of their account, signed as OpenAI's client verifies", async () => {
  const { client, secret } = await accountWithWebhook("hooked", allEvents);
  const completed = await createBatch(client, line);
  const failed = await createBatch(client, { ...line, url: "/v1/embeddings" });
  await until("both events", () => eventsAt("hooked").length === 2);
  const events = await Promise.all(
    eventsAt("hooked").map(async (request) => {
      const event = await client.webhooks.unwrap(request.body.toString(), headersOf(request), secret);
      assert.equal(request.headers["webhook-id"], event.id);
      assert.ok(Math.abs(event.created_at - Date.now() / 1_000) < 60);
      return event;
    }),
  );
  for (const [type, id] of [
    ["batch.completed", completed],
    ["batch.failed", failed],
  ]) {
    const event = events.find((each) => each.type === type);
    assert.deepEqual(event, { id: event?.id, object: "event", created_at: event?.created_at, type, data: { id } });
  }
});

test("the ends of background responses reach it, and those of other requests do not", async () => {
  const { client, id: webhook, secret } = await accountWithWebhook("background", responseEvents);
  await client.responses.create({ model: "fast", input: "hello" });
  const create = (model: string) => client.responses.create({ model, input: "hello", background: true });
  const [completed, failed, cancelled] = await Promise.all([create("fast"), create("broken"), create("slow")]);
  await client.responses.cancel(cancelled.id);
  const streamed = await client.responses.create({ model: "fast", input: "hello", background: true, stream: true });
  let streamedId = "";
  for await (const event of streamed) if (event.type === "response.created") streamedId = event.response.id;
  await until("all events", () => eventsAt("background").length >= 4);
  const events = eventsAt("background").map(({ json }) => [json.type, json.data.id]);
  assert.deepEqual(
    events.sort(),
    [
      ["response.completed", completed.id],
      ["response.completed", streamedId],
      ["response.failed", failed.id],
      ["response.cancelled", cancelled.id],
    ].sort(),
  );
  interface Deliveries {
    items: { id: string; subject: string }[];
  }
  let items: Deliveries["items"] = [];
  await until("all are recorded as delivered", async () => {
    ({ items } = await control.get<Deliveries>(`/webhook-deliveries?webhook=${webhook}&state=delivered`));
    return items.length >= 4;
  });
  assert.deepEqual(items.map(({ subject }) => subject).sort(), events.map(([, id]) => id).sort());

  const rotated = await control.call("POST", `/webhooks/${webhook}/rotate`, { overlapSeconds: 3_600 });
  const { secret: newSecret } = (await rotated.json()) as { secret: string };
  const again = await control.call("POST", `/webhook-deliveries/${items[0]?.id}/repeat`);
  assert.equal(again.status, 200);
  await until("the repeated event", () => eventsAt("background").length === 5);
  const repeated = eventsAt("background").at(-1) as UpstreamRequest;
  for (const each of [secret, newSecret])
    await client.webhooks.unwrap(repeated.body.toString(), headersOf(repeated), each);
  assert.ok(
    eventsAt("background").some(
      (first) => first !== repeated && first.headers["webhook-id"] === repeated.headers["webhook-id"],
    ),
  );
});

test("a webhook of another account or for other events gets nothing", async () => {
  const { client } = await accountWithWebhook("unhooked", ["batch.expired"]);
  const { client: other, id } = await accountWithWebhook("other", allEvents);
  await createBatch(client, line);
  await createBatch(other, line);
  await until("the event of the other account", () => eventsAt("other").length === 1);
  assert.equal(eventsAt("unhooked").length, 0);
  const { items } = await control.get<{ items: unknown[] }>("/webhook-deliveries?account=unhooked");
  assert.deepEqual(items, []);
  assert.equal((await control.call("DELETE", `/webhooks/${id}`)).status, 204);
  assert.equal((await control.call("GET", `/webhooks/${id}`)).status, 404);
});
