/**
 * Answers beyond the usual bound, as large as their requests ask for, and answers that are larger
 * than that.
 */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { nanoPerUnit } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { chunkedAnswer, startScriptedUpstream } from "../support/upstream.ts";
import { subjectOf } from "./support.ts";

const upstream = await startScriptedUpstream();
/** A token and an image cost 1, so that money counts them. */
const line = (id: string, dialect: string, more = "") =>
  `  - { id: ${id}, retries: 2, prices: { inputPerMillion: 1000000, outputPerMillion: 1000000${more} }, route: [{ upstream: ${dialect}, model: theirs }] }`;
const gateway = await startGateway({
  catalogue: `groups:
  paying: { models: ["*"], keyLimits: { budgetPerDay: 1000000 } }
upstreams:
  chat: { dialect: openai-chat, baseUrl: "${upstream.url}" }
  images: { dialect: openai-images, baseUrl: "${upstream.url}" }
models:
${line("talks", "chat")}
${line("embeds", "chat")}
${line("draws", "images", ", images: [{ price: 1 }]")}
`,
});
const redis = await connectRedis(gateway.redis.url, "request");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
const keyspace = keyspaceOf("sluice");

/**
 * The caller's answer to a request that the upstream answers with these parts, how often it was
 * called, and what that cost.
 */
async function ask(path: string, body: object, parts: () => Iterable<string | Buffer>) {
  const before = upstream.requests.length;
  upstream.answerWith(chunkedAnswer(parts, "application/json"));
  const key = await gateway.createKey("paying");
  const response = await fetch(`${gateway.url}/v1${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  const subject = subjectOf(key);
  await until("nothing runs", async () => (await redis.zcard(keyspace.limit("key", subject, "running"))) === 0);
  const spent = Number(await redis.hget(keyspace.limit("key", subject, "budget"), "dayNano")) / nanoPerUnit;
  const calls = upstream.requests.length - before;
  return { status: response.status, text, calls, spent, shouldRetry: response.headers.get("x-should-retry") };
}

const picture = JSON.stringify({ b64_json: "A".repeat(7_000_000) });
function* pictures(count: number) {
  yield '{"created":1,"data":[';
  for (let index = 0; index < count; index++) yield index === 0 ? picture : `,${picture}`;
  yield "]}";
}
const vector = JSON.stringify(Array.from({ length: 1_536 }, (_, index) => Math.sin(index)));
function* vectors(count: number) {
  yield '{"object":"list","model":"theirs","data":[';
  for (let index = 0; index < count; index++)
    yield `${index === 0 ? "" : ","}{"object":"embedding","index":${index},"embedding":${vector}}`;
  yield '],"usage":{"prompt_tokens":12,"total_tokens":12}}';
}

test("eight images of five megabytes are one answer, and cost eight images", async () => {
  const body = { model: "draws", prompt: "a cat", n: 8 };
  const { status, text, calls, spent } = await ask("/images/generations", body, () => pictures(8));
  assert.deepEqual([status, calls, text.length], [200, 1, 8 * picture.length + 7 + 23]);
  assert.ok(spent > 8, `${spent}`);
});

test("the embeddings of two thousand texts are one answer, and cost what the upstream counted", async () => {
  const body = { model: "embeds", input: Array(2_000).fill("a text") };
  const { status, text, calls, spent } = await ask("/embeddings", body, () => vectors(2_000));
  assert.deepEqual([status, calls, spent], [200, 1, 12]);
  assert.equal(JSON.parse(text).data.length, 2_000);
});

test("more than an answer may hold is asked for once, costs what was reserved, and is not asked for again by the client", async () => {
  const body = { model: "talks", max_tokens: 50, messages: [{ role: "user", content: "hi" }] };
  const { status, text, calls, spent, shouldRetry } = await ask("/chat/completions", body, function* () {
    yield '{"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"';
    for (let count = 0; count < 34; count++) yield Buffer.alloc(1 << 20, "x");
    yield '"}}]}';
  });
  assert.deepEqual([status, calls, shouldRetry], [502, 1, "false"]);
  assert.match(text, /may hold/);
  assert.equal(spent, Math.ceil(JSON.stringify(body).length / 4) + 50);
});
