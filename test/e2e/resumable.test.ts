import assert from "node:assert/strict";
import { once } from "node:events";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { after, test } from "node:test";
import { hashOf } from "#access/key.ts";
import { profiles } from "#dialects/profiles.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { modelLine } from "./support.ts";

const models = {
  paced: "sim-text;rate=100;tokens=40;first=0",
  refusing: "sim-text;status=400",
  breaking: "sim-text;rate=0;error=3",
  slow: "sim-text;rate=20;tokens=30;first=0",
  alone: "sim-text;rate=20;tokens=31;first=0",
};
const gateway = await startGateway({
  ingresses: 2,
  workers: ["chat=64"],
  catalogue: `groups:\n  default: { models: ["*"] }\n  always: { models: ["*"], resumableStreams: true }\n  private: { models: ["*"], storesResponses: false }\nupstreams:\n  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }\nmodels:\n${Object.entries(
    models,
  )
    .map(([id, model]) => modelLine({ id, model, queue: id === "alone" ? "image" : "chat" }))
    .join("")}`,
});
after(() => gateway[Symbol.asyncDispose]());

const other = gateway.ingresses[1]?.urls.api as string;
const message = [{ role: "user", content: "Hello there." }];

/** The path and the body of a stream in each dialect. */
const dialects: Record<string, { path: string; body: object }> = {
  "openai-chat": { path: "/v1/chat/completions", body: { model: "paced", stream: true, messages: message } },
  "openai-responses": { path: "/v1/responses", body: { model: "paced", stream: true, input: "Hello there." } },
  "anthropic-messages": {
    path: "/v1/messages",
    body: { model: "paced", stream: true, max_tokens: 1_000, messages: message },
  },
  gemini: {
    path: "/v1beta/models/paced:streamGenerateContent?alt=sse",
    body: { contents: [{ role: "user", parts: [{ text: "Hello there." }] }] },
  },
};

interface Asked {
  url?: string;
  key?: string;
  headers?: Record<string, string>;
}

async function ask({ path, body }: { path: string; body: object }, { url = gateway.url, key, headers }: Asked = {}) {
  const request = httpRequest(`${url}${path}`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${key ?? gateway.key}`,
      "content-type": "application/json",
      "anthropic-version": "2023-06-01",
      ...headers,
    },
  });
  request.end(JSON.stringify(body));
  const [response] = (await once(request, "response")) as [IncomingMessage];
  return { response, request };
}

async function textOf(response: IncomingMessage): Promise<string> {
  const parts: Buffer[] = [];
  for await (const part of response) parts.push(part as Buffer);
  return Buffer.concat(parts).toString();
}

/** The stream's events with an id, up to a number of them; then the connection is broken. */
async function cutAfter(count: number, question: Awaited<ReturnType<typeof ask>>): Promise<string> {
  let text = "";
  for await (const part of question.response) {
    text += String(part);
    if (text.split("\n\n").length > count) break;
  }
  question.request.destroy();
  return `${text.split("\n\n").slice(0, count).join("\n\n")}\n\n`;
}

/** Has the only generation that goes on without its caller taken over. */
async function expireLease(): Promise<void> {
  const redis = await connectRedis(gateway.redis.url, "patient");
  const { runs: leases } = keyspaceOf("sluice");
  const [member] = await redis.zrange(leases, "0", "-1");
  await redis.zadd(leases, 0, member as string);
  redis.disconnect();
}

/** The text of a stream that must break behind its last event. */
async function brokenTextOf(response: IncomingMessage): Promise<string> {
  let text = "";
  await assert.rejects(async () => {
    for await (const part of response) text += String(part);
  });
  return text;
}

const lastIdIn = (text: string) => [...text.matchAll(/^id: (.+)$/gm)].at(-1)?.[1] ?? assert.fail("no event has an id");
const resumable = { "x-sluice-resumable": "true" };
const runs = async (id: keyof typeof models) => (await gateway.seen(models[id])).length;
const calls = () => runs("paced");

for (const [dialect, question] of Object.entries(dialects))
  test(`${dialect}: a broken stream is resumed at another ingress, and no byte is lost or repeated`, async () => {
    const before = await calls();
    const seen = await cutAfter(5, await ask(question, { headers: resumable }));
    const headers = { "last-event-id": lastIdIn(seen) };
    const { response } = await ask(question, { url: other, headers });
    assert.equal(response.statusCode, 200);
    assert.match(String(response.headers["content-type"]), /text\/event-stream/);
    const whole = seen + (await textOf(response));
    const ids = [...whole.matchAll(/^id: .*\.(\d+)$/gm)].map(([, number]) => Number(number));
    assert.deepEqual(
      ids,
      ids.map((_, number) => number),
    );
    assert.equal(await calls(), before + 1);
    // The log has the same bytes.
    const { response: again } = await ask(question, {
      headers: { "last-event-id": lastIdIn(seen).replace(/\d+$/, "0") },
    });
    assert.equal(await textOf(again), whole.slice(whole.indexOf("\n\n") + 2));
    const plain = await textOf((await ask(question)).response);
    assert.equal(plain.includes("\nid: "), false);
    assert.equal(whole.match(/Hello/g)?.length, plain.match(/Hello/g)?.length);
  });

test("Google's libraries, which fail on the ids of events, get a resumable stream without them", async () => {
  const question = dialects.gemini as (typeof dialects)[""];
  const headers = {
    ...resumable,
    "idempotency-key": "google",
    "x-goog-api-client": "google-genai-sdk/3.1.0 gl-node/v24",
  };
  const first = await textOf((await ask(question, { headers })).response);
  assert.equal(first.includes("id: "), false);
  assert.match(first, /"finishReason":"STOP"/);
  assert.equal(await textOf((await ask(question, { url: other, headers })).response), first);
});

for (const [dialect, question] of Object.entries(dialects))
  test(`${dialect}: a stream that failed leaves its Idempotency-Key free, and is still read to its error`, async () => {
    const path = question.path.replace("paced", "breaking");
    const failing = { path, body: { ...question.body, ...("model" in question.body && { model: "breaking" }) } };
    const read = profiles[dialect as keyof typeof profiles].breaksAfterError ? brokenTextOf : textOf;
    const headers = { ...resumable, "idempotency-key": `broken ${dialect}` };
    const before = await runs("breaking");
    const first = await read((await ask(failing, { headers })).response);
    assert.match(first, /error/);
    const second = await read((await ask(failing, { url: other, headers })).response);
    assert.equal(await runs("breaking"), before + 2);
    for (const [text, { url }] of [
      [first, { url: other }],
      [second, { url: gateway.url }],
    ] as const) {
      const lastEventId = lastIdIn(text).replace(/\d+$/, "0");
      const rest = await read(
        (await ask(failing, { url, headers: { ...headers, "last-event-id": lastEventId } })).response,
      );
      assert.equal(rest, text.slice(text.indexOf("\n\n") + 2));
    }
    assert.equal(await runs("breaking"), before + 2);
    const changed = await ask({ ...failing, body: { ...failing.body, temperature: 1 } }, { headers });
    assert.equal(changed.response.statusCode, 200);
    await read(changed.response);
  });

for (const victim of ["worker", "ingress"] as const)
  test(`a stream whose ${victim} died leaves its Idempotency-Key free, and is still read to its error`, async () => {
    const model = victim === "worker" ? "alone" : "slow";
    const question = { path: "/v1/chat/completions", body: { model, stream: true, messages: message } };
    const headers = { ...resumable, "idempotency-key": `lost ${victim}` };
    const doomed =
      victim === "worker" ? await gateway.addWorker("image=1", {}, true) : await gateway.addIngress({}, true);
    const url = victim === "worker" ? gateway.url : (doomed.urls.api as string);
    const { response } = await ask(question, { url, headers });
    let seen = "";
    let killed: Promise<unknown> | undefined;
    await assert.rejects(async () => {
      for await (const part of response) {
        seen += String(part);
        if (seen.split("\n\n").length > 3) killed ??= doomed.kill();
        await killed;
      }
    });
    if (victim === "ingress") await expireLease();
    else await gateway.addWorker("image=1");
    const first = lastIdIn(seen).replace(/\d+$/, "0");
    const lost = await ask(question, { url: other, headers: { ...headers, "last-event-id": first } });
    assert.match(await brokenTextOf(lost.response), /was lost; send it again/);
    const again = await textOf((await ask(question, { url: other, headers })).response);
    assert.match(again, /data: \[DONE\]/);
    assert.equal(await runs(model), 2);
  });

test("a stream whose end was not stored leaves its Idempotency-Key free, and retries at once run once", async () => {
  const question = dialects["openai-chat"] as (typeof dialects)[""];
  const headers = { ...resumable, "idempotency-key": "endless" };
  const first = await textOf((await ask(question, { headers })).response);
  const redis = await connectRedis(gateway.redis.url, "patient");
  const { storedLog } = keyspaceOf("sluice");
  const id = lastIdIn(first).replace(/\.\d+$/, "");
  await until("it is over", async () => (await redis.zcard(keyspaceOf("sluice").runs)) === 0);
  await redis.rpop(storedLog(`key_${hashOf(gateway.key).slice(0, 24)}`, `:log:${id}`));
  redis.disconnect();
  const before = await calls();
  const retries = Array.from({ length: 6 }, (_, index) =>
    ask(question, { url: index % 2 === 0 ? gateway.url : other, headers }),
  );
  const texts = await Promise.all(retries.map(async (retry) => textOf((await retry).response)));
  assert.equal(new Set(texts).size, 1);
  assert.match(String(texts[0]), /data: \[DONE\]/);
  assert.equal(await calls(), before + 1);
});

test("a repeated request with the same Idempotency-Key reads the same stream, while it runs and afterwards", async () => {
  const question = dialects["openai-chat"] as (typeof dialects)[""];
  const before = await calls();
  const headers = { ...resumable, "idempotency-key": "one" };
  const first = await ask(question, { headers });
  const second = await ask(question, { url: other, headers });
  const [one, two] = await Promise.all([textOf(first.response), textOf(second.response)]);
  assert.equal(two, one);
  assert.match(one, /data: \[DONE\]/);
  assert.equal(await textOf((await ask(question, { url: other, headers })).response), one);
  assert.equal(await calls(), before + 1);
  const changed = { ...question, body: { ...question.body, temperature: 1 } };
  assert.equal((await ask(changed, { headers })).response.statusCode, 422);
});

test("a group may make all streams resumable", async () => {
  const key = await gateway.createKey("always");
  const question = dialects["openai-chat"] as (typeof dialects)[""];
  const text = await textOf((await ask(question, { key })).response);
  const { response } = await ask(question, { key, headers: { "last-event-id": lastIdIn(text) } });
  assert.equal(await textOf(response), "");
});

test("what can't be resumed is refused, and a failure leaves nothing", async () => {
  const question = dialects["openai-chat"] as (typeof dialects)[""];
  const unknown = await ask(question, { headers: { "last-event-id": "gen_0.5" } });
  assert.equal(unknown.response.statusCode, 404);
  assert.match(await textOf(unknown.response), /send the request again without it/);
  const seen = await textOf((await ask(question, { headers: resumable })).response);
  const stranger = await ask(question, {
    key: await gateway.createKey("default"),
    headers: { "last-event-id": lastIdIn(seen) },
  });
  assert.equal(stranger.response.statusCode, 404);
  const foreign = await ask(dialects["anthropic-messages"] as typeof question, {
    headers: { "last-event-id": lastIdIn(seen) },
  });
  assert.equal(foreign.response.statusCode, 422);
  const changed = { ...question, body: { ...question.body, temperature: 1 } };
  assert.equal((await ask(changed, { headers: { "last-event-id": lastIdIn(seen) } })).response.statusCode, 422);
  const malformed = await ask(question, { headers: { ...resumable, "last-event-id": "garbage" } });
  assert.equal(malformed.response.statusCode, 400);
  const guarded = await ask(question, { key: await gateway.createKey("private"), headers: resumable });
  assert.equal(guarded.response.statusCode, 400);
  const headers = { ...resumable, "idempotency-key": "failing" };
  const failing = { ...question, body: { ...question.body, model: "refusing" } };
  const { response } = await ask(failing, { headers });
  assert.equal(response.statusCode, 400);
  assert.match(await textOf(response), /error/);
  await until("the key is free again", async () => (await ask(failing, { headers })).response.statusCode === 400);
  const breaking = { ...question, body: { ...question.body, model: "breaking" } };
  const broken = await brokenTextOf((await ask(breaking, { headers: resumable })).response);
  assert.match(broken, /error/);
  const end = await ask(breaking, { headers: { "last-event-id": lastIdIn(broken).replace(/\d+$/, "0") } });
  const rest = await brokenTextOf(end.response);
  assert.ok(rest !== "" && broken.endsWith(rest), rest);
});
