/**
 * A vendor states its rate limits in its responses. Several workers together send no request that
 * it would refuse after that, and `whenFull` decides about the others.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { chatCompletion, jsonAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const limit = 6;
const model = (name: string, period: number, more = ";limit-window") =>
  `${name};tokens=4;limit-requests=${limit};limit-period=${period}${more}`;
const models = {
  refuse: model("sim-refuse", 60_000),
  wait: model("sim-wait", 1_500),
  first: model("sim-first", 60_000),
  second: "sim-second;tokens=4",
  next: model("sim-next", 1_500),
  anthropic: "sim-claude;tokens=4;limit-requests=60",
  tokens: "sim-tokens;tokens=4;limit-tokens=2000;limit-window",
  ignored: model("sim-ignored", 60_000),
};
/** The calls with each credential. */
const calls = new Map<string, number>();
const refusing = await startScriptedUpstream((response, { headers }) => {
  const credential = String(headers.authorization);
  calls.set(credential, (calls.get(credential) ?? 0) + 1);
  if (credential !== "Bearer one") return jsonAnswer(chatCompletion)(response);
  return response.writeHead(429, { "retry-after": "60" }).end(JSON.stringify({ error: { message: "Slow down." } }));
});
const upstream = (name: string, more: string, dialect = "openai-chat") =>
  `  ${name}: { dialect: ${dialect}, baseUrl: "\${SIMULATOR_URL}/v1", ${more} }\n`;
const routed = (id: string, targets: string, more = "") =>
  `  - { id: ${id}, ${more}prices: { inputPerMillion: 0, outputPerMillion: 0 }, route: [${targets}] }\n`;
const gateway = await startGateway({
  workers: ["chat=64", "chat=64", "chat=64"],
  environment: { KEY_ONE: "one", KEY_TWO: "two" },
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
${upstream("refusing", "whenFull: refuse")}${upstream("waiting", "whenFull: wait")}${upstream("next", "whenFull: next")}${upstream("claude", "whenFull: wait", "anthropic-messages")}${upstream("counting", "whenFull: refuse, countsMaxTokens: true")}${upstream("ignoring", "rateLimitHeaders: ignore, circuitBreakerFailuresMax: 0")}  pair: { dialect: openai-chat, baseUrl: "${refusing.url}", credential: KEY_ONE, credentials: [KEY_TWO] }
models:
${modelLine({ id: "refuse", model: models.refuse, upstream: "refusing" })}${modelLine({ id: "wait", model: models.wait, upstream: "waiting" })}${modelLine({ id: "next", model: models.next, upstream: "next" })}${modelLine({ id: "claude", model: models.anthropic, upstream: "claude" })}${modelLine({ id: "tokens", model: models.tokens, upstream: "counting" })}${modelLine({ id: "ignored", model: models.ignored, upstream: "ignoring" })}${routed("pair", "{ upstream: pair, model: m }", "affinity: off, ")}${routed("moving", `{ upstream: next, model: "${models.first}" }, { upstream: next, model: "${models.second}" }`)}`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await refusing[Symbol.asyncDispose]();
});

async function answersOf(id: string, count: number, more: object = {}) {
  const answers = await Promise.all(
    Array.from({ length: count }, async () => {
      const response = await gateway.post({ model: id, messages: [{ role: "user", content: "hi" }], ...more });
      await response.arrayBuffer();
      return { status: response.status, retryAfter: Number(response.headers.get("retry-after")) };
    }),
  );
  return { answers, count: (status: number) => answers.filter((answer) => answer.status === status).length };
}

/** The statuses with which the vendor answered, in order. */
const vendorAnswers = async (name: string) => (await gateway.seen(name)).map(({ status }) => status);
const times = (count: number, status: number) => Array.from({ length: count }, () => status);

test("refuse: what is left is used by all workers, and no request is sent that the vendor would refuse", async () => {
  assert.equal((await answersOf("refuse", 1)).count(200), 1);
  const { answers, count } = await answersOf("refuse", 60);
  assert.deepEqual([count(200), count(429)], [limit - 1, 60 - limit + 1]);
  for (const { status, retryAfter } of answers)
    if (status === 429) assert.ok(retryAfter > 50 && retryAfter <= 60, `retry-after ${retryAfter}`);
  assert.equal((await answersOf("refuse", 20)).count(429), 20);
  assert.deepEqual(await vendorAnswers(models.refuse), times(limit, 200));
});

test("wait: each request gets its answer, in as many windows as the vendor needs", async () => {
  assert.equal((await answersOf("wait", 1)).count(200), 1);
  assert.equal((await answersOf("wait", 2 * limit + 2)).count(200), 2 * limit + 2);
  assert.deepEqual(await vendorAnswers(models.wait), times(2 * limit + 3, 200));
});

test("next: the next target serves what the first one has no capacity for", async () => {
  await answersOf("moving", 1);
  assert.equal((await answersOf("moving", 30)).count(200), 30);
  assert.deepEqual(await vendorAnswers(models.first), times(limit, 200));
  assert.deepEqual(await vendorAnswers(models.second), times(31 - limit, 200));
});

test("next: where no target is left, a request waits for a limit that ends soon", async () => {
  await answersOf("next", 1);
  assert.equal((await answersOf("next", limit + 3)).count(200), limit + 3);
  assert.deepEqual(await vendorAnswers(models.next), times(limit + 4, 200));
});

test("Anthropic's limits are refilled all the time: a request waits for its part, not for the reset", async () => {
  await answersOf("claude", 1);
  const startedAt = Date.now();
  assert.equal((await answersOf("claude", 62)).count(200), 62);
  const tookMs = Date.now() - startedAt;
  assert.ok(tookMs > 1_000 && tookMs < 10_000, `one a second, in ${tookMs} ms`);
  assert.deepEqual(await vendorAnswers(models.anthropic), times(63, 200));
});

test("tokens: the most that an answer may have counts where the vendor counts it", async () => {
  assert.equal((await answersOf("tokens", 1, { max_tokens: 300 })).count(200), 1);
  const { count } = await answersOf("tokens", 20, { max_tokens: 300 });
  assert.ok(count(200) >= 4 && count(200) <= 5, `${count(200)} answers`);
  assert.equal(count(429), 20 - count(200));
  assert.deepEqual(await vendorAnswers(models.tokens), times(1 + count(200), 200));
});

test("ignore: the vendor refuses by itself", async () => {
  const { count } = await answersOf("ignored", limit + 2);
  assert.equal(count(200), limit);
  assert.ok((await vendorAnswers(models.ignored)).includes(429));
});

test("a 429 with Retry-After cools a credential down in all workers", async () => {
  const cooling = async () =>
    Promise.all(
      gateway.workers.map(async ({ urls }) => {
        const status = (await (await fetch(`${urls.operations}/status`)).json()) as { coolingCredentials: string[] };
        return status.coolingCredentials;
      }),
    );
  await until("it is refused", async () => {
    assert.equal((await answersOf("pair", 1)).count(200), 1);
    return calls.has("Bearer one");
  });
  await until("all workers know", async () => (await cooling()).every((names) => names.includes("pair/m: KEY_ONE")));
  assert.equal((await answersOf("pair", 30)).count(200), 30);
  assert.equal(calls.get("Bearer one"), 1);
  const late = await gateway.addWorker("chat=64");
  const status = (await (await fetch(`${late.urls.operations}/status`)).json()) as { coolingCredentials: string[] };
  assert.ok(status.coolingCredentials.includes("pair/m: KEY_ONE"), "a worker that starts later knows, too");
});
