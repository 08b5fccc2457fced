import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";

const model = (id: string, name: string) =>
  `  - { id: ${id}, prices: { inputPerMillion: 1, outputPerMillion: 1 }, route: [{ upstream: simulator, model: "${name}" }] }\n`;
const gateway = await startGateway({
  ingresses: 2,
  workers: ["chat=1"],
  catalogue: `groups:
  default: { models: ["*"] }
  limited: { models: ["*"], keyLimits: { generationsMax: 1, onLimit: wait } }
upstreams:
  simulator: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
models:
${model("brief", "sim-text;rate=200;first=0;tokens=20")}${model("slow", "sim-text;rate=20;first=0;tokens=5000")}`,
});
after(() => gateway[Symbol.asyncDispose]());

const messages = [{ role: "user" as const, content: "hello" }];

interface Waiting {
  state: string;
  position: number | null;
  expected_seconds: { from: number; to: number } | null;
}
const queueOf = async (key: string, at = 0) => {
  const url = gateway.ingresses[at]?.urls.api;
  const response = await fetch(`${url}/v1/queue`, { headers: { authorization: `Bearer ${key}` } });
  assert.equal(response.status, 200);
  return (await response.json()) as { total: number; has_more: boolean; is_complete: boolean; data: Waiting[] };
};

/** A stream that holds the only slot of the worker until it is left. */
async function occupy(key = gateway.key): Promise<() => void> {
  const leaving = new AbortController();
  const response = await gateway.post({ model: "slow", messages, stream: true }, { key, signal: leaving.signal });
  assert.equal(response.status, 200);
  await response.body?.getReader().read();
  return () => leaving.abort();
}

test("a caller reads the places of its own requests, and a stream that asks for it is told its place", async () => {
  const other = await gateway.createKey("default");
  await (await gateway.post({ model: "brief", messages })).text();
  const leave = await occupy();
  const first = gateway.post({ model: "brief", messages });
  await until("the first waits", async () => (await queueOf(gateway.key)).total === 1);
  const told = await gateway.post(
    { model: "brief", messages, stream: true },
    { headers: { "x-sluice-queue-updates": "true" } },
  );
  assert.equal(told.headers.get("x-sluice-queue-position"), "2");
  await until("the wait is known", async () => (await queueOf(gateway.key)).data[1]?.expected_seconds != null);
  const list = await queueOf(gateway.key);
  const { data, total, has_more, is_complete } = list;
  assert.deepEqual([total, has_more, is_complete], [2, false, true]);
  const statesOf = (of: typeof list) => of.data.map(({ state, position }) => [state, position]);
  assert.deepEqual(statesOf(await queueOf(gateway.key, 1)), statesOf(list));
  assert.deepEqual(
    data.map(({ state, position }) => [state, position]),
    [
      ["dispatched", null],
      ["queued", 2],
    ],
  );
  const { from, to } = (data[1] as Waiting).expected_seconds as { from: number; to: number };
  assert.ok(from >= 0 && to > from && to < 60, `${from} ${to}`);
  assert.equal((await queueOf(other)).total, 0);
  const reader = (told.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const readUntil = async (pattern: RegExp) => {
    while (!pattern.test(text)) text += (await reader.read()).value ?? assert.fail(`ended before ${pattern}: ${text}`);
  };
  await readUntil(/seconds=\d/);
  leave();
  assert.equal((await first).status, 200);
  await readUntil(/\[DONE\]/);
  assert.match(text, /^: queue position=2 seconds=(unknown|\d+-\d+)\n/);
  assert.match(await metricsOf(gateway.ingresses[0]), /^sluice_queue_wait_ratio_count\{queue="chat"\} 1$/m);
});

test("OpenAI's client reads a stream with places, and Google's format never has them", async () => {
  const leave = await occupy();
  const first = gateway.post({ model: "brief", messages });
  await until("the first waits", async () => (await queueOf(gateway.key)).total === 1);
  const headers = { "x-sluice-queue-updates": "true" };
  const stream = await gateway
    .client()
    .chat.completions.create({ model: "brief", messages, stream: true }, { headers });
  const google = fetch(`${gateway.url}/v1beta/models/brief:streamGenerateContent?alt=sse`, {
    method: "POST",
    headers: { ...headers, "x-goog-api-key": gateway.key, "content-type": "application/json" },
    body: JSON.stringify({ contents: [{ parts: [{ text: "hello" }] }] }),
  });
  await until("all wait", async () => (await queueOf(gateway.key)).total === 3);
  leave();
  await first;
  let chunks = 0;
  for await (const { choices } of stream) chunks += choices.length;
  assert.ok(chunks > 1);
  assert.doesNotMatch(await (await google).text(), /^:/m);
});

test("a request that waits for a rate limit is in its caller's list", async () => {
  const key = await gateway.createKey("limited");
  const leave = await occupy(key);
  const served = gateway.post({ model: "brief", messages }, { key });
  await until("it waits", async () => (await queueOf(key)).data[0]?.state === "rate_limited");
  leave();
  assert.equal((await served).status, 200);
});
