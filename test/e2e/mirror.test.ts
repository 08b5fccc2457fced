/** Copies of requests for another target: callers notice nothing of them, and pay nothing. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { decodeUsageRecord, type UsageRecord } from "#ledger/usage-record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { chatChunk, chatCompletion, chatEnd, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";

const main = await startScriptedUpstream((response, { json }) =>
  json.stream === true
    ? response.writeHead(200, { "content-type": "text/event-stream" }).end(chatChunk({ content: "One" }) + chatEnd)
    : jsonAnswer(chatCompletion)(response),
);
const shadow = await startScriptedUpstream((response, { json }) => {
  // This one never answers.
  if (json.model === "silent") return undefined;
  if (json.model === "broken") return response.writeHead(500).end("{}");
  return jsonAnswer(chatCompletion)(response);
});
const prices = "prices: { inputPerMillion: 100000, outputPerMillion: 100000 }";
const line = (id: string, mirror: string) =>
  `  - { id: ${id}, retries: 0, ${prices}, route: [{ upstream: main, model: m }], mirror: { upstream: shadow, ${mirror} } }\n`;
const gateway = await startGateway({
  workers: ["chat=16", "background=4"],
  catalogue: `groups:
  default: { models: ["*"] }
  limited: { models: ["*"], keyLimits: { requestsPerMinute: 4, budgetPerDay: 1000000 } }
upstreams:
  main: { dialect: openai-chat, baseUrl: "${main.url}" }
  shadow: { dialect: openai-chat, baseUrl: "${shadow.url}", circuitBreakerFailuresMax: 0 }
models:
${line("copied", `model: copy, percent: 100, prices: { inputPerMillion: 300000, outputPerMillion: 300000 }`)}${line("half", "model: half, percent: 50")}${line("off", "model: off, percent: 0")}${line("silent", "model: silent, percent: 100")}${line("broken", "model: broken, percent: 100")}`,
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  await Promise.all([main, shadow].map((upstream) => upstream[Symbol.asyncDispose]()));
});
const keyspace = keyspaceOf("sluice");

const bodyOf = (model: string, more: object = {}) => ({
  model,
  messages: [{ role: "user", content: "Hello" }],
  ...more,
});
const copiesOf = (model: string) => shadow.requests.filter(({ json }) => json.model === model);
async function recordsOf(model: string): Promise<UsageRecord[]> {
  const entries = await redis.xrange(keyspace.usage, "-", "+");
  return entries
    .flatMap(([, [, lines = ""]]) => lines.split("\n").filter((line) => line !== ""))
    .map((line) => decodeUsageRecord(JSON.parse(line)))
    .filter((record) => record?.model === model) as UsageRecord[];
}

test("a copy goes to the other target, and is recorded apart from the request", async () => {
  const response = await gateway.post(bodyOf("copied", { user: "u-1" }), { headers: { "x-sluice-tags": "team-a" } });
  assert.equal(response.status, 200);
  await response.text();
  await until("both are recorded", async () => (await recordsOf("copied")).length === 2);
  const records = await recordsOf("copied");
  const own = records.find(({ keyId }) => keyId !== "mirror");
  const copy = records.find(({ keyId }) => keyId === "mirror");
  assert.deepEqual([own?.upstream, own?.user, own?.tags, own?.queue], ["main", "u-1", ["team-a"], "chat"]);
  assert.deepEqual(
    [copy?.upstream, copy?.target, copy?.user, copy?.tags, copy?.queue, copy?.account, copy?.outcome],
    ["shadow", "copy", null, ["mirror"], "background", null, "complete"],
  );
  assert.ok(copy !== undefined && own !== undefined && Number(own.cost) > 0);
  assert.equal(Number(copy.upstreamCost), 3 * Number(own.cost), "what the operator pays there");
  assert.equal(copiesOf("copy")[0]?.json.messages[0].content, "Hello");
});

test("streams are copied as streams, and a share is that share", async () => {
  for (let count = 0; count < 60; count++)
    await (await gateway.post(bodyOf("half", { stream: count % 2 === 0 }))).text();
  await until("the copies came", () => copiesOf("half").length > 10);
  const copies = copiesOf("half");
  assert.ok(copies.length < 50, `${copies.length} of 60`);
  assert.ok(copies.some(({ json }) => json.stream === true) && copies.some(({ json }) => json.stream !== true));
  await (await gateway.post(bodyOf("off"))).text();
  assert.equal(copiesOf("off").length, 0);
});

test("a copy neither delays nor fails a request, whatever its target does", async () => {
  for (const model of ["broken", "silent"]) {
    const startedAt = performance.now();
    const answers = await Promise.all(Array.from({ length: 12 }, () => gateway.post(bodyOf(model))));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200]);
    await Promise.all(answers.map((answer) => answer.text()));
    assert.ok(performance.now() - startedAt < 5_000);
    await until("copies came", () => copiesOf(model).length > 0);
  }
});

test("copies count for no limit of the caller", async () => {
  const key = await gateway.createKey("limited");
  const before = copiesOf("copy").length;
  for (let count = 0; count < 4; count++) assert.equal((await gateway.post(bodyOf("copied"), { key })).status, 200);
  assert.equal((await gateway.post(bodyOf("copied"), { key })).status, 429);
  // The queue is behind copies that wait for a silent target, and has a slot for some of them.
  await gateway.addWorker("background=64");
  await until("all are copied", () => copiesOf("copy").length === before + 4);
});
