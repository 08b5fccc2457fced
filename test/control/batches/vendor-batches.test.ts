/** Batches at upstreams whose vendor has batches of its own, through a whole gateway. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI, { toFile } from "openai";
import { startFilesGateway } from "../../support/files.ts";
import { until } from "../../support/time.ts";

const prices = "prices: { inputPerMillion: 1000, outputPerMillion: 1000, serviceTiers: { batch: 0.5 } }";
const model = (id: string, upstream: string, target = "sim-fast") =>
  `  - { id: ${id}, ${prices}, route: [{ upstream: ${upstream}, model: "${target}" }] }`;
const catalogue = `
groups:
  default: { models: ["*"] }
upstreams:
  vendor: { dialect: openai-chat, batchApi: true, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  responses: { dialect: openai-responses, batchApi: true, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  single: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${model("test/vendor", "vendor")}
${model("test/responses", "responses")}
${model("test/single", "single")}
${["fail", "expire", "hold", "refuse"].map((fault) => model(`test/${fault}`, "vendor", `sim-fast;batch=${fault}`)).join("\n")}
`;

await using opened = new AsyncDisposableStack();
const { gateway, control, addAccount } = opened.use(
  await startFilesGateway({ catalogue, withBatches: true, control: { VENDOR_BATCH_POLL_SECONDS: "1" } }),
);
const resources = opened.move();
after(() => resources.disposeAsync());

const line = (id: string, model: string, body: object = {}) =>
  JSON.stringify({
    custom_id: id,
    method: "POST",
    url: "/v1/chat/completions",
    body: { model, messages: [{ role: "user", content: `hello ${id}` }], ...body },
  });

interface JournalEntry {
  method: string;
  path: string;
  headers: Record<string, string>;
}

async function sent(): Promise<JournalEntry[]> {
  const response = await fetch(`${gateway.simulatorUrl}/_simulator/requests`);
  return (await response.json()) as JournalEntry[];
}
const forget = () => fetch(`${gateway.simulatorUrl}/_simulator/requests`, { method: "DELETE" });
/** Requests of workers, without those that the simulator sends itself for a batch. */
const calls = async () => {
  const all = (await sent()).filter(({ headers }) => headers["user-agent"] === "sluice");
  const of = (method: string, form: RegExp) => all.filter((each) => each.method === method && form.test(each.path)).length;
  return {
    single: of("POST", /\/(chat\/completions|responses)$/),
    created: of("POST", /\/batches$/),
    cancelled: of("POST", /\/cancel$/),
    deletedFiles: of("DELETE", /\/files\//),
  };
};

async function create(client: OpenAI, lines: string[]) {
  const file = await client.files.create({ purpose: "batch", file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl") });
  return client.batches.create({ input_file_id: file.id, endpoint: "/v1/chat/completions", completion_window: "24h" });
}

async function ended(client: OpenAI, id: string) {
  const states = ["completed", "failed", "expired", "cancelled"];
  await until("the end of the batch", async () => states.includes((await client.batches.retrieve(id)).status), 20_000);
  return client.batches.retrieve(id);
}

async function resultsIn(client: OpenAI, file: string | null | undefined) {
  if (!file) return [];
  const text = await (await client.files.content(file)).text();
  return text
    .trimEnd()
    .split("\n")
    .map((each) => JSON.parse(each));
}

async function recordsOf(account: string) {
  await until("the records", async () => (await control.records({ account })).length > 0);
  return control.records({ account });
}

test("lines run in a batch of their vendor, others one by one, and all look the same", async () => {
  await forget();
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: await addAccount("mixed"), maxRetries: 0 });
  const lines = Array.from({ length: 30 }, (_, index) => line(`l-${index}`, index % 3 === 0 ? "test/single" : "test/vendor"));
  const { id } = await create(client, lines);
  const batch = await ended(client, id);
  assert.deepEqual([batch.status, batch.request_counts], ["completed", { total: 30, completed: 30, failed: 0 }]);
  const results = await resultsIn(client, batch.output_file_id);
  assert.deepEqual(
    results.map(({ custom_id }) => custom_id),
    lines.map((_, index) => `l-${index}`),
  );
  for (const [index, { response }] of results.entries()) {
    assert.equal(response.status_code, 200);
    assert.equal(response.body.object, "chat.completion");
    assert.equal(response.body.model, index % 3 === 0 ? "test/single" : "test/vendor");
  }
  assert.deepEqual(await calls(), { single: 10, created: 1, cancelled: 0, deletedFiles: 2 });
  console.log(JSON.stringify(batch));
});
