/** Batches at upstreams whose vendor has batches of its own, through a whole gateway. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import { GoogleGenAI } from "@google/genai";
import OpenAI, { toFile } from "openai";
import { keyspaceOf } from "#service/keyspace.ts";
import { readProcessReports, readyWorkerIn } from "#service/process-reports.ts";
import { connectRedis } from "#service/redis.ts";
import { type VendorBatchAnswer, vendorBatchKind } from "#service/vendor-batch.ts";
import { callWorker } from "#service/worker-calls.ts";
import { startFilesGateway } from "../../support/files.ts";
import { until } from "../../support/time.ts";

const prices = "prices: { inputPerMillion: 1000, outputPerMillion: 1000, serviceTiers: { batch: 0.5 } }";
const model = (id: string, upstream: string, target = "sim-fast") =>
  `  - { id: ${id}, ${prices}, route: [{ upstream: ${upstream}, model: "${target}" }] }`;
const faults = ["fail", "expire", "hold", "refuse"];
const catalogue = `
groups:
  default: { models: ["*"] }
  budget: { models: ["*"], keyLimits: { budgetPerDay: 2 } }
upstreams:
  vendor: { dialect: openai-chat, batchApi: true, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  responses: { dialect: openai-responses, batchApi: true, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  claude: { dialect: anthropic-messages, batchApi: true, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  gemini: { dialect: gemini, batchApi: true, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1beta" }
  single: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${model("test/vendor", "vendor")}
${model("test/responses", "responses")}
${model("test/single", "single")}
${model("test/claude", "claude")}
${model("test/gemini", "gemini")}
${["vendor", "claude", "gemini"].flatMap((upstream) => faults.map((fault) => model(`${upstream}/${fault}`, upstream, `sim-fast;batch=${fault}`))).join("\n")}
`;

await using opened = new AsyncDisposableStack();
const { gateway, control, addAccount, objects } = opened.use(
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
  const of = (method: string, form: RegExp) =>
    all.filter((each) => each.method === method && form.test(each.path)).length;
  return {
    single: of("POST", /\/(chat\/completions|responses|messages)$|:generateContent$/),
    created: of("POST", /\/batches$|:batchGenerateContent$/),
    cancelled: of("POST", /[/:]cancel$/),
    deleted: of("DELETE", /./),
  };
};

/** Names in Redis. */
async function keysLike(part: string): Promise<string[]> {
  const redis = await connectRedis(gateway.redis.url, "request");
  const keys = await redis.keys(`*${part}*`);
  redis.disconnect();
  return keys;
}

async function create(client: OpenAI, lines: string[]) {
  const file = await client.files.create({
    purpose: "batch",
    file: await toFile(Buffer.from(lines.join("\n")), "in.jsonl"),
  });
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

interface UsageRecord {
  requestId: string;
  upstream: string;
  cost: string;
}

async function recordsOf(account: string, count: number): Promise<UsageRecord[]> {
  let items: UsageRecord[] = [];
  await until("the records", async () => {
    items = (await control.get<{ items: UsageRecord[] }>(`/usage/records?account=${account}&limit=200`)).items;
    return items.length >= count;
  });
  return items;
}

const idsOf = (results: { custom_id: string }[]) => results.map(({ custom_id }) => custom_id);
const clientOf = async (account: string) =>
  new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: await addAccount(account), maxRetries: 0 });

test("lines run in a batch of their vendor, others one by one, and all look the same", async () => {
  await forget();
  const client = await clientOf("mixed");
  const lines = Array.from({ length: 30 }, (_, index) =>
    line(`l-${index}`, index % 3 === 0 ? "test/single" : "test/vendor"),
  );
  const { id } = await create(client, lines);
  const batch = await ended(client, id);
  assert.deepEqual([batch.status, batch.request_counts], ["completed", { total: 30, completed: 30, failed: 0 }]);
  const results = await resultsIn(client, batch.output_file_id);
  assert.deepEqual(
    idsOf(results),
    lines.map((_, index) => `l-${index}`),
  );
  for (const [index, { response }] of results.entries()) {
    assert.equal(response.status_code, 200);
    assert.equal(response.body.object, "chat.completion");
    assert.equal(response.body.model, index % 3 === 0 ? "test/single" : "test/vendor");
  }
  assert.deepEqual(await calls(), { single: 10, created: 1, cancelled: 0, deleted: 2 });
  const records = await recordsOf("mixed", 30);
  assert.equal(new Set(records.map(({ requestId }) => requestId)).size, 30);
  assert.deepEqual([...new Set(records.map(({ upstream }) => upstream))].sort(), ["single", "vendor"]);
  // 1,000 a million tokens, of which the tier takes a half.
  const cost = records.reduce((sum, record) => sum + Number(record.cost), 0);
  const { usage } = await client.batches.retrieve(id);
  assert.equal(cost.toFixed(6), ((usage?.total_tokens ?? 0) / 2_000).toFixed(6));
  assert.deepEqual(
    (await objects()).filter((name) => /^b[0-9a-f]{64}$/.test(name)),
    [],
  );
  assert.deepEqual(await keysLike("vendor-"), []);
});

/** Deletions at a vendor in the end: of files, or of the batch. */
const deletions = { vendor: 2, responses: 2, claude: 1, gemini: 1 };

for (const [name, deleted] of Object.entries(deletions)) {
  test(`requests of Anthropic's client run in a batch of the vendor: ${name}`, async () => {
    await forget();
    const account = `anthropic-${name}`;
    const client = new Anthropic({ baseURL: gateway.url, apiKey: await addAccount(account), maxRetries: 0 });
    const { id } = await client.messages.batches.create({
      requests: Array.from({ length: 5 }, (_, index) => ({
        custom_id: `r-${index}`,
        params: { model: `test/${name}`, max_tokens: 20, messages: [{ role: "user", content: `hello ${index}` }] },
      })),
    });
    const isEnded = async () => (await client.messages.batches.retrieve(id)).processing_status === "ended";
    await until("the end of the batch", isEnded, 20_000);
    const results = [];
    for await (const each of await client.messages.batches.results(id)) results.push(each);
    assert.deepEqual(idsOf(results), ["r-0", "r-1", "r-2", "r-3", "r-4"]);
    for (const { result } of results) assert.ok(result.type === "succeeded" && result.message.type === "message");
    assert.deepEqual(await calls(), { single: 0, created: 1, cancelled: 0, deleted });
    assert.equal((await recordsOf(account, 5)).length, 5);
  });

  test(`requests of Google's client run in a batch of the vendor: ${name}`, async () => {
    await forget();
    const account = `google-${name}`;
    const client = new GoogleGenAI({ apiKey: await addAccount(account), httpOptions: { baseUrl: gateway.url } });
    const src = ["a", "b"].map((text) => ({
      contents: [{ role: "user", parts: [{ text }] }],
      metadata: { key: text },
    }));
    const { name: id = "" } = await client.batches.create({ model: `test/${name}`, src });
    const isEnded = async () => (await client.batches.get({ name: id })).state === "JOB_STATE_SUCCEEDED";
    await until("the end of the batch", isEnded, 20_000);
    const { dest } = await client.batches.get({ name: id });
    assert.deepEqual(
      dest?.inlinedResponses?.map(({ response, metadata }) => [
        typeof response?.candidates?.[0]?.content?.parts?.[0]?.text,
        metadata?.key,
      ]),
      [
        ["string", "a"],
        ["string", "b"],
      ],
    );
    assert.deepEqual(await calls(), { single: 0, created: 1, cancelled: 0, deleted });
  });

  test(`requests of OpenAI's client run in a batch of the vendor: ${name}`, async () => {
    await forget();
    const client = await clientOf(`openai-${name}`);
    const { id } = await create(client, [line("a", `test/${name}`), line("b", `test/${name}`)]);
    const batch = await ended(client, id);
    const results = await resultsIn(client, batch.output_file_id);
    assert.deepEqual(idsOf(results), ["a", "b"]);
    for (const { response } of results) assert.equal(response.body.object, "chat.completion");
    assert.deepEqual(await calls(), { single: 0, created: 1, cancelled: 0, deleted });
  });
}

const leftovers: [vendor: string, fault: string, calls: object][] = [
  ["vendor", "fail", { single: 10, created: 1, cancelled: 0, deleted: 1 }],
  ["vendor", "expire", { single: 5, created: 1, cancelled: 0, deleted: 3 }],
  ["vendor", "refuse", { single: 10, created: 1, cancelled: 0, deleted: 1 }],
  ["claude", "expire", { single: 5, created: 1, cancelled: 0, deleted: 1 }],
  ["claude", "refuse", { single: 10, created: 1, cancelled: 0, deleted: 0 }],
  ["gemini", "fail", { single: 10, created: 1, cancelled: 0, deleted: 1 }],
  ["gemini", "expire", { single: 5, created: 1, cancelled: 0, deleted: 1 }],
  ["gemini", "refuse", { single: 10, created: 1, cancelled: 0, deleted: 0 }],
];
for (const [vendor, fault, expected] of leftovers)
  test(`lines run one by one that a vendor's batch leaves: ${vendor}, ${fault}`, async () => {
    await forget();
    const account = `${vendor}-${fault}`;
    const client = await clientOf(account);
    const lines = Array.from({ length: 10 }, (_, index) => line(`l-${index}`, `${vendor}/${fault}`));
    const { id } = await create(client, lines);
    const batch = await ended(client, id);
    assert.deepEqual([batch.status, batch.request_counts], ["completed", { total: 10, completed: 10, failed: 0 }]);
    assert.deepEqual(
      idsOf(await resultsIn(client, batch.output_file_id)),
      lines.map((_, index) => `l-${index}`),
    );
    assert.deepEqual(await calls(), expected);
    assert.equal((await recordsOf(account, 10)).length, 10);
  });

test("answers of the vendor are charged to a budget at once", async () => {
  const apiKey = await addAccount("spender", "budget");
  const client = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey, maxRetries: 0 });
  const lines = Array.from({ length: 30 }, (_, index) =>
    line(`l-${index}`, "test/vendor", { max_completion_tokens: 20 }),
  );
  const { id } = await create(client, lines);
  const batch = await ended(client, id);
  assert.deepEqual(batch.request_counts, { total: 30, completed: 30, failed: 0 });
  const cost = (await recordsOf("spender", 30)).reduce((sum, record) => sum + Number(record.cost), 0);
  const redis = await connectRedis(gateway.redis.url, "request");
  const [budget = ""] = await redis.keys("*:budget");
  const spent = await redis.hget(budget, "dayNano");
  redis.disconnect();
  assert.equal((Number(spent) / 1e9).toFixed(6), cost.toFixed(6));
});

for (const [name, [answered, model]] of Object.entries({
  "has answered": [true, "test/vendor"],
  "has not answered": [false, "vendor/fail"],
} as const))
  test(`a budget that is spent while the vendor has the batch: lines that the vendor ${name}`, async () => {
    await forget();
    const account = `spent-${answered}`;
    const client = await clientOf(account);
    const { id } = await create(client, [line("a", model), line("b", model), line("c", model)]);
    await until("the vendor's batch", async () => (await calls()).created === 1);
    const { items } = await control.get<{ items: { id: string }[] }>(`/keys?account=${account}`);
    const limited = await control.call("PATCH", `/keys/${items[0]?.id}`, { limits: { budgetPerDay: 0.000001 } });
    assert.equal(limited.status, 200, await limited.text());
    const spent = new OpenAI({ baseURL: `${gateway.url}/v1`, apiKey: client.apiKey, maxRetries: 0 });
    const messages = [{ role: "user" as const, content: "hello" }];
    await until("the budget is spent", async () => {
      const outcome = await spent.chat.completions.create({ model: "test/single", messages }).catch((error) => error);
      return outcome instanceof OpenAI.RateLimitError;
    });
    if (answered) {
      const batch = await ended(client, id);
      assert.deepEqual([batch.status, batch.request_counts], ["completed", { total: 3, completed: 3, failed: 0 }]);
      return;
    }
    await until("the vendor's batch is over", async () => (await calls()).deleted > 0);
    await client.batches.cancel(id);
    const batch = await ended(client, id);
    assert.deepEqual([batch.request_counts?.completed, batch.request_counts?.failed], [0, 3]);
    assert.equal((await calls()).single, 1, "no line runs beyond the budget");
  });

test("a line that the vendor refuses has the gateway's error beside the others' answers", async () => {
  const client = await clientOf("one-bad");
  const { id } = await create(client, [line("good", "test/vendor"), line("bad", "test/vendor", { temperature: 9 })]);
  const batch = await ended(client, id);
  assert.deepEqual(batch.request_counts, { total: 2, completed: 1, failed: 1 });
  assert.deepEqual(idsOf(await resultsIn(client, batch.output_file_id)), ["good"]);
  const [error] = await resultsIn(client, batch.error_file_id);
  assert.deepEqual([error.custom_id, error.response.status_code], ["bad", 400]);
});

for (const [vendor, deleted] of Object.entries({ vendor: 2, claude: 1, gemini: 1 }))
  test(`a cancelled batch cancels the vendor's: ${vendor}`, async () => {
    await forget();
    const client = await clientOf(`cancelled-${vendor}`);
    const { id } = await create(client, [line("a", `${vendor}/hold`), line("b", `${vendor}/hold`)]);
    await until("the vendor's batch", async () => (await calls()).created === 1);
    await client.batches.cancel(id);
    const batch = await ended(client, id);
    assert.deepEqual([batch.status, batch.request_counts], ["cancelled", { total: 2, completed: 0, failed: 2 }]);
    const errors = await resultsIn(client, batch.error_file_id);
    assert.deepEqual(
      errors.map(({ error }) => error.code),
      ["batch_cancelled", "batch_cancelled"],
    );
    assert.deepEqual(await calls(), { single: 0, created: 1, cancelled: 1, deleted });
  });

const ends: Record<string, (account: string) => Promise<unknown>> = {
  "its key is revoked": async (account) => {
    const { items } = await control.get<{ items: { id: string }[] }>(`/keys?account=${account}`);
    return control.call("POST", `/keys/${items[0]?.id}/revoke`);
  },
  "its account is disabled": (account) => control.call("PATCH", `/accounts/${account}`, { isDisabled: true }),
};
for (const [name, end] of Object.entries(ends))
  test(`the vendor's batch is cancelled when ${name}`, async () => {
    await forget();
    const account = name.replaceAll(/\W/g, "-");
    const client = await clientOf(account);
    const { id } = await create(client, [line("a", "vendor/hold"), line("b", "vendor/hold")]);
    await until("the vendor's batch", async () => (await calls()).created === 1);
    await end(account);
    let batch = { isOver: false, errored: 0, stopReason: "" };
    await until("the end of the batch", async () => {
      batch = await control.get<typeof batch>(`/batches/${id}`);
      return batch.isOver;
    });
    assert.deepEqual([batch.errored, batch.stopReason], [2, "invalid_key"]);
    assert.deepEqual(await calls(), { single: 0, created: 1, cancelled: 1, deleted: 2 });
  });

const lostSubmissions: Record<string, { path: string; headers: Record<string, string>; body: object }> = {
  vendor: {
    ...{ path: "/chat/completions", headers: {} },
    body: { model: "sim-fast;head=400", messages: [{ role: "user", content: "hello" }] },
  },
  claude: {
    ...{ path: "/messages", headers: { "anthropic-version": "2023-06-01" } },
    body: { model: "sim-fast;head=400", max_tokens: 9, messages: [{ role: "user", content: "hello" }] },
  },
  gemini: {
    ...{ path: "/models/sim-fast;head=400:generateContent", headers: {} },
    body: { contents: [{ role: "user", parts: [{ text: "hello" }] }] },
  },
};
for (const [upstream, { path, headers, body }] of Object.entries(lostSubmissions))
  test(`a batch is found by its name whose submission had no result: ${upstream}`, async () => {
    const redis = await connectRedis(gateway.redis.url, "request");
    const keyspace = keyspaceOf("sluice");
    const target = { upstream, credential: null, path, model: "sim-fast", headers };
    const submittedAt = Date.now();
    const call = async (name: string, request: object): Promise<VendorBatchAnswer> => {
      const worker = readyWorkerIn(await readProcessReports(redis, keyspace, Date.now()), Date.now()) ?? "";
      const of = { kind: vendorBatchKind, request: { name, target, submittedAt, ...request } };
      return (await callWorker<VendorBatchAnswer>({ redis, keyspace }, worker, of)) ?? assert.fail("no answer");
    };
    try {
      const [name, other] = [`batch_lost-${upstream}`, `batch_other-${upstream}`];
      await redis.hset(keyspace.vendorRequests(name), "target", JSON.stringify(target), "7", JSON.stringify(body));
      const submitted = await call(name, { action: "submit" });
      assert.ok(submitted.kind === "submitted");
      const early = await call(name, { action: "find" });
      assert.deepEqual(early, upstream === "claude" ? { kind: "unclear" } : submitted);
      const { id } = submitted;
      const read = { action: "read", id, places: [7], cancels: false };
      let answer: VendorBatchAnswer = { kind: "running" };
      await until("the answer", async () => {
        answer = await call(name, read);
        return answer.kind === "ended";
      });
      assert.deepEqual(answer, { kind: "ended", places: [7], isWhole: true });
      assert.ok(await redis.hexists(keyspace.vendorAnswers(name), "7"));
      assert.deepEqual(await call(name, { action: "find" }), submitted);
      assert.deepEqual(await call(other, { action: "find" }), { kind: "absent" });
      assert.deepEqual(await call(name, { action: "delete", id }), { kind: "deleted" });
      assert.equal(await redis.exists(keyspace.vendorRequests(name), keyspace.vendorAnswers(name)), 0);
    } finally {
      redis.disconnect();
    }
  });
