import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { after, test } from "node:test";
import { hashOf } from "#access/key.ts";
import { projectRecords, readRecords } from "#access/projection.ts";
import type { KeyRecord } from "#access/record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { age } from "../libs/access/aging.ts";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { Bare } from "./socket-support.ts";

const model = (id: string, name: string) =>
  `  - { id: ${id}, outputTokensMax: 100, prices: { inputPerMillion: 1000, outputPerMillion: 1000 }, route: [{ upstream: simulator, model: "${name}" }] }\n`;
const gateway = await startGateway({
  workers: ["chat=16,background=4"],
  environment: { LIMIT_WAITING_KEY_MAX: "2" },
  catalogue: `groups:
  default: { models: ["*"] }
  slots: { models: ["*"], keyLimits: { generationsMax: 1, onLimit: wait, waitMs: 60000 } }
  together: { models: ["*"], limits: { generationsMax: 1, onLimit: wait } }
  family: { models: ["*"], accountLimits: { generationsMax: 1, onLimit: wait } }
  requests: { models: ["*"], keyLimits: { requestsPerMinute: 1, onLimit: wait, waitMs: 5000 } }
  raised: { models: ["*"], keyLimits: { requestsPerMinute: 1, onLimit: wait, waitMs: 90000 } }
  edited: { models: ["*"], keyLimits: { requestsPerMinute: 1, onLimit: wait, waitMs: 70000 } }
  removed: { models: ["*"], keyLimits: { requestsPerMinute: 1, onLimit: wait, waitMs: 80000 } }
  brief: { models: ["*"], keyLimits: { generationsMax: 1, onLimit: wait, waitMs: 300 } }
  tokens: { models: ["*"], keyLimits: { tokensPerMinute: 150, onLimit: wait } }
  budget: { models: ["*"], keyLimits: { budgetPerDay: 0.01, onLimit: wait } }
upstreams:
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${model("fast", "sim-text;rate=0;first=0;tokens=20")}${model("slow", "sim-text;rate=20;first=0;tokens=5000")}`,
});
const redis = await connectRedis(gateway.redis.url, "request");
const keyspace = keyspaceOf("sluice");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});

const messages = [{ role: "user" as const, content: "hello" }];
const chat = (key: string, more: { model?: string; stream?: boolean; headers?: Record<string, string> } = {}) =>
  gateway.post(
    { model: more.model ?? "fast", messages, ...(more.stream && { stream: true }) },
    { key, ...(more.headers && { headers: more.headers }) },
  );
const respond = (key: string, more: object = {}) =>
  fetch(`${gateway.url}/v1/responses`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify({ model: "fast", input: "hello", ...more }),
  });
const waitingSize = async () =>
  Number(/sluice_capacity_used\{limit="limit-waits",queue=""\} (\d+)/.exec(await metricsOf(gateway.ingresses[0]))?.[1]);
const waits = (count: number) => until(`${count} wait`, async () => (await waitingSize()) === count);

/** A stream that holds the only slot of a key until it is left. */
async function occupy(key: string): Promise<() => void> {
  const leaving = new AbortController();
  const response = await gateway.post({ model: "slow", messages, stream: true }, { key, signal: leaving.signal });
  assert.equal(response.status, 200);
  return () => leaving.abort();
}

const kinds: Record<string, (key: string) => Promise<unknown>> = {
  chat: async (key) => assert.match(await (await chat(key)).text(), /"finish_reason":"stop"/),
  stream: async (key) => assert.match(await (await chat(key, { stream: true })).text(), /\[DONE\]/),
  "stored response": async (key) => {
    assert.match(await (await respond(key)).text(), /"status": ?"completed"/);
  },
  "background response": async (key) => {
    const begun = (await (await respond(key, { background: true })).json()) as { id: string };
    const read = async () =>
      (await fetch(`${gateway.url}/v1/responses/${begun.id}`, { headers: { authorization: `Bearer ${key}` } })).text();
    await until("the response is complete", async () => /"status": ?"completed"/.test(await read()));
  },
  "WebSocket turn": async (key) => {
    using socket = await Bare.open(gateway.url, key);
    assert.equal((await socket.turn({ model: "fast", input: "hello" })).type, "response.completed");
  },
  "resumable stream": async (key) => {
    const response = await chat(key, { stream: true, headers: { "x-sluice-resumable": "true" } });
    assert.match(await response.text(), /\[DONE\]/);
  },
  "request with an idempotency key": async (key) => {
    const response = await chat(key, { headers: { "idempotency-key": key.slice(-8) } });
    assert.match(await response.text(), /"finish_reason":"stop"/);
  },
  "request with a large body": async (key) => {
    const body = { model: "fast", messages: [{ role: "user", content: "x".repeat(300_000) }] };
    assert.equal((await gateway.post(body, { key })).status, 200);
  },
};
for (const [kind, act] of Object.entries(kinds))
  test(`with onLimit: wait, a ${kind} waits for a slot of its key, and is served when one is free`, async () => {
    const key = await gateway.createKey("slots");
    const leave = await occupy(key);
    const served = act(key);
    await waits(1);
    leave();
    await served;
    await waits(0);
  });

for (const [scope, group, more] of [
  ["group", "together", {}],
  ["account", "family", { account: "acme" }],
] as const)
  test(`keys wait for the slots of their ${scope}, and other keys are not behind them`, async () => {
    const [one, other] = [await gateway.createKey(group, more), await gateway.createKey(group, more)];
    const leave = await occupy(one);
    const served = chat(other);
    await waits(1);
    assert.equal((await chat(gateway.key)).status, 200);
    leave();
    assert.equal((await served).status, 200);
  });

test("a retry that gets another request's answer waits for the requests per minute of its key, which counts it", async () => {
  const key = await gateway.createKey("requests");
  const headers = { "idempotency-key": "same" };
  await (await chat(key, { headers })).text();
  await age(redis, keyspace, 57);
  assert.equal((await chat(key, { headers: { ...headers, "x-sluice-max-wait": "50" } })).status, 429);
  const [startedAt, replayed] = [performance.now(), await chat(key, { headers })];
  assert.equal(replayed.headers.get("idempotent-replayed"), "true");
  assert.ok(performance.now() - startedAt > 500);
  assert.equal((await chat(key)).status, 429);
});

test("a request that cannot have its turn within its bound, or its caller's, is refused at once", async () => {
  const key = await gateway.createKey("requests");
  await (await chat(key)).text();
  const refused = await chat(key);
  assert.equal(refused.status, 429);
  assert.ok(Number(refused.headers.get("retry-after")) > 50);
  await age(redis, keyspace, 56);
  const startedAt = performance.now();
  assert.equal((await chat(key, { headers: { "x-sluice-max-wait": "50" } })).status, 429);
  assert.ok(performance.now() - startedAt < 1_000);
  assert.equal((await chat(key)).status, 200);
});

test("at its bound, and at its caller's, a waiting request gets a 429 with Retry-After, streamed or not", async () => {
  for (const [group, headers] of [
    ["brief", undefined],
    ["slots", { "x-sluice-max-wait": "300" }],
  ] as const)
    for (const stream of [false, true]) {
      const key = await gateway.createKey(group);
      const leave = await occupy(key);
      const startedAt = performance.now();
      const refused = await chat(key, { stream, ...(headers && { headers }) });
      assert.equal(refused.status, 429);
      assert.ok(performance.now() - startedAt >= 299);
      assert.match(refused.headers.get("retry-after") ?? "", /^[12]$/);
      assert.match(await refused.text(), /may have 1 requests answered at once/);
      leave();
    }
});

test("input that is larger than the tokens per minute is refused at once, and a budget never waits", async () => {
  const key = await gateway.createKey("tokens");
  await (await chat(key)).text();
  const body = { model: "fast", messages: [{ role: "user", content: "x".repeat(2_000) }] };
  assert.equal((await gateway.post(body, { key })).status, 429);
  const poor = await gateway.createKey("budget");
  await (await chat(poor)).text();
  await until("the budget is spent", async () => (await chat(poor)).status === 429);
});

test("a waiting request leaves without a charge, and what waits is bounded per key", async () => {
  const key = await gateway.createKey("slots", { limits: { requestsPerMinute: 4 } });
  const leave = await occupy(key);
  const leaving = new AbortController();
  const left = gateway.post({ model: "fast", messages }, { key, signal: leaving.signal });
  const served = chat(key);
  await waits(2);
  assert.equal((await chat(key)).status, 429);
  leaving.abort();
  await assert.rejects(left);
  await waits(1);
  leave();
  assert.equal((await served).headers.get("x-ratelimit-remaining-requests"), "2");
});

test("requests that wait, and those that come, have the limits of a changed catalogue", async () => {
  const catalogue = await readFile(gateway.catalogueFile, "utf8");
  const keys = [await gateway.createKey("raised"), await gateway.createKey("removed")];
  for (const key of keys) await (await chat(key)).text();
  const waiting = keys.map((key) => chat(key));
  await waits(2);
  const changed = catalogue
    .replace(
      "requestsPerMinute: 1, onLimit: wait, waitMs: 90000",
      "requestsPerMinute: 500, onLimit: wait, waitMs: 90000",
    )
    .replace(/removed: .*/, 'removed: { models: ["*"] }');
  await writeFile(gateway.catalogueFile, changed);
  for (const response of await Promise.all(waiting)) assert.equal(response.status, 200);
  for (const key of keys) assert.equal((await chat(key)).status, 200);
  await waits(0);
  await writeFile(gateway.catalogueFile, catalogue);
});

test("requests that wait have the limits and the group of their changed keys", async () => {
  const changes = [
    { limits: { requestsPerMinute: 500 }, expected: 200 },
    { group: "default", expected: 200 },
    { limits: { onLimit: "refuse" }, expected: 429 },
  ] as const;
  const waiting = await Promise.all(
    changes.map(async (change) => {
      const key = await gateway.createKey("edited");
      await (await chat(key)).text();
      return { ...change, hash: hashOf(key), answer: chat(key) };
    }),
  );
  await waits(waiting.length);
  const records = await readRecords(redis, keyspace);
  const changed = waiting.map(({ hash, answer, expected, ...change }): [string, KeyRecord] => [
    hash,
    { ...(records.get(hash) as KeyRecord), ...change, version: 1 },
  ]);
  await projectRecords(redis, keyspace, changed);
  for (const { answer, expected } of waiting) assert.equal((await answer).status, expected);
  await waits(0);
});

test("a request that waits for a limit has a place in its line, and a stream that asks for it hears of it", async () => {
  const key = await gateway.createKey("slots");
  const leave = await occupy(key);
  const waiting = chat(key);
  await waits(1);
  const told = await chat(key, { stream: true, headers: { "x-sluice-queue-updates": "true" } });
  assert.equal(told.headers.get("x-sluice-queue-position"), "2");
  const answer = await fetch(`${gateway.url}/v1/queue`, { headers: { authorization: `Bearer ${key}` } });
  const { data } = (await answer.json()) as { data: { state: string; position: number; expected_seconds: null }[] };
  assert.deepEqual(
    data.map(({ state, position, expected_seconds }) => [state, position, expected_seconds]),
    [1, 2].map((position) => ["rate_limited", position, null]),
  );
  leave();
  assert.equal((await waiting).status, 200);
  const text = await told.text();
  assert.match(text, /^: queue position=2 seconds=unknown\n/);
  assert.match(text, /\[DONE\]/);
});

test("a key's own settings replace those of its group", async () => {
  const key = await gateway.createKey("slots", { limits: { onLimit: "refuse" } });
  const leave = await occupy(key);
  assert.equal((await chat(key)).status, 429);
  leave();
});
