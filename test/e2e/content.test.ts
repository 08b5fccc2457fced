/**
 * Content of requests: from a real ingress, sealed, through Redis to control, and back to an
 * operator.
 */
import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startControl } from "../support/control.ts";
import { embeddedDirectory } from "../support/embedded.ts";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { Bare } from "./socket-support.ts";

const mark = "Zanzibar-7391";
const directory = await mkdtemp(join(tmpdir(), "sluice-content-"));
const database = await embeddedDirectory(join(directory, "database"));
const gateway = await startGateway({
  catalogue: catalogueOf([
    { id: "sim-fast", model: "sim-text;rate=0;first=0" },
    { id: "sim-slow", model: "sim-text;rate=5;tokens=500" },
  ]),
});
const redis = await connectRedis(gateway.redis.url, "request");
redis.on("error", () => {});
const keyspace = keyspaceOf("sluice");
const start = () =>
  startControl({
    REDIS_URL: gateway.redis.url,
    SLUICE_CATALOGUE: gateway.catalogueFile,
    SIMULATOR_URL: gateway.simulatorUrl,
    DATABASE_DIRECTORY: database,
  });
let control = await start();
after(async () => {
  redis.disconnect();
  await control[Symbol.asyncDispose]();
  await gateway[Symbol.asyncDispose]();
  await rm(directory, { recursive: true, force: true });
});

interface Body {
  type: string;
  text: string;
  bytes: number;
  isCut: boolean;
}
interface Content {
  dialect: string;
  operation: string;
  request: Body;
  status: number;
  answer: Body;
}

const contentOf = async (id: string): Promise<Content | undefined> => {
  const response = await control.call("GET", `/usage/records/${id}/content`);
  if (response.status === 404) return undefined;
  const text = await response.text();
  assert.equal(response.status, 200, text);
  return JSON.parse(text) as Content;
};
const storedContentOf = async (id: string): Promise<Content> => {
  let content: Content | undefined;
  await until(`the content of ${id} is stored`, async () => {
    content = await contentOf(id);
    return content !== undefined;
  });
  return content as Content;
};
const setDays = async (account: string, days: number | null) => {
  const response = await control.call("PUT", `/accounts/${account}/content-storage`, { days });
  assert.equal(response.status, 204, await response.text());
};
/** A key of an account that stores content, or not. */
async function keyOf(account: string, days: number | null): Promise<string> {
  assert.equal((await control.call("POST", "/accounts", { id: account, name: account })).status, 201);
  if (days !== null) await setDays(account, days);
  const { key } = (await (
    await control.call("POST", "/keys", { account, name: account, group: "default" })
  ).json()) as { key: string };
  await until("the key is known", async () => {
    const response = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } });
    await response.arrayBuffer();
    return response.ok;
  });
  return key;
}
async function post(key: string, path: string, body: unknown): Promise<{ id: string; text: string; status: number }> {
  const response = await fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  const text = await response.text();
  return { id: response.headers.get("x-request-id") as string, text, status: response.status };
}

const model = "sim-fast";
const messages = [{ role: "user", content: mark }];
const requests: [name: string, path: string, body: unknown, dialect: string][] = [
  ["chat, whole", "/v1/chat/completions", { model, messages }, "openai-chat"],
  ["chat, streamed", "/v1/chat/completions", { model, messages, stream: true }, "openai-chat"],
  ["responses", "/v1/responses", { model, input: mark, stream: true, store: false }, "openai-responses"],
  ["messages", "/v1/messages", { model, max_tokens: 50, messages, stream: true }, "anthropic-messages"],
  [
    "gemini",
    `/v1beta/models/${model}:streamGenerateContent?alt=sse`,
    { contents: [{ role: "user", parts: [{ text: mark }] }] },
    "gemini",
  ],
];

test("content is sealed on its way and in the database, and reads as it was sent and answered, in every dialect", async () => {
  const key = await keyOf("stores", 7);
  // Nobody takes it from Redis meanwhile.
  await control[Symbol.asyncDispose]();
  const sent: { name: string; dialect: string; body: unknown; id: string; text: string }[] = [];
  for (const [name, path, body, dialect] of requests) {
    const { id, text, status } = await post(key, path, body);
    assert.equal(status, 200, text);
    sent.push({ name, dialect, body, id, text });
  }
  const refused = await post(key, "/v1/chat/completions", { model });
  assert.equal(refused.status, 400);
  await until("Redis has it", async () => (await redis.xlen(keyspace.content)) === sent.length);
  const raw = Buffer.concat((await redis.xrangeBuffer(keyspace.content, "-", "+")).flatMap(([, fields]) => fields));
  assert.ok(!raw.includes(mark) && !raw.includes("messages"));
  control = await start();
  for (const { name, dialect, body, id, text } of sent) {
    const content = await storedContentOf(id);
    assert.deepEqual(JSON.parse(content.request.text), body, name);
    assert.equal(content.dialect, dialect, name);
    assert.equal(content.status, 200, name);
    assert.equal(content.answer.text, text, name);
    assert.equal(content.answer.bytes, Buffer.byteLength(text), name);
    assert.ok(!content.answer.isCut && !content.request.isCut, name);
  }
  assert.equal(await contentOf(refused.id), undefined);
  assert.equal(await redis.xlen(keyspace.content), 0);
  const { items } = await control.get<{ items: { hasContent: boolean }[] }>("/usage/records?account=stores");
  assert.deepEqual(items.map(({ hasContent }) => hasContent).sort(), [false, ...sent.map(() => true)]);
  assert.ok(!JSON.stringify(items).includes(mark));
});

test("each reading is in the audit log", async () => {
  const { items } = await control.get<{ items: { action: string; subject: string }[] }>("/audit?account=stores");
  const readings = items.filter(({ action }) => action === "openContent");
  assert.equal(readings.length, requests.length);
  assert.match(readings[0]?.subject ?? "", /^request gen_/);
  const began = items.find(({ action }) => action === "updateContentStorage");
  assert.ok(began);
  assert.doesNotMatch(JSON.stringify(began), /content_secret|content_key/);
});

test("an account that does not enable it stores nothing", async () => {
  const key = await keyOf("stores-nothing", null);
  const { id, status } = await post(key, "/v1/chat/completions", { model, messages });
  assert.equal(status, 200);
  await until("the ledger has it", async () => (await control.call("GET", `/usage/records/${id}`)).status === 200);
  assert.equal(await redis.xlen(keyspace.content), 0);
  assert.equal(await contentOf(id), undefined);
});

test("resumable streams, stored responses, a WebSocket's turns and Ollama's calls are stored like others", async () => {
  const key = await keyOf("stores-others", 1);
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const send = async (path: string, body: object, more = {}) => {
    const response = await fetch(`${gateway.url}${path}`, {
      method: "POST",
      headers: { ...headers, ...more },
      body: JSON.stringify(body),
    });
    const text = await response.text();
    assert.equal(response.status, 200, text);
    return { id: response.headers.get("x-request-id") as string, text };
  };
  const resumable = { "x-sluice-resumable": "true" };
  for (const { id } of [
    await send("/v1/chat/completions", { model, messages, stream: true }, resumable),
    await send("/v1/responses", { model, input: mark }),
    await send("/api/chat", { model, messages, stream: false }),
  ]) {
    const content = await storedContentOf(id);
    assert.match(content.request.text, new RegExp(mark));
    assert.match(content.answer.text, /simulato/);
  }
  using socket = await Bare.open(gateway.url, key);
  socket.send({ type: "response.create", model, input: mark, store: false });
  await socket.until("response.completed");
  await until("the turn is stored", async () => {
    const { items } = await control.get<{ items: { hasContent: boolean; dialect: string }[] }>(
      "/usage/records?account=stores-others",
    );
    return items.length === 4 && items.every(({ hasContent }) => hasContent);
  });
});

test("images are stored as their sizes, and long texts are cut", async () => {
  const key = await keyOf("stores-much", 1);
  const image = Buffer.alloc(9_000, 7).toString("base64");
  const long = `${mark} `.repeat(120_000);
  const content = [
    { type: "image_url", image_url: { url: `data:image/png;base64,${image}` } },
    { type: "text", text: long },
  ];
  const { id } = await post(key, "/v1/chat/completions", { model, messages: [{ role: "user", content }] });
  const { request } = await storedContentOf(id);
  assert.match(request.text, /"data:image\/png;base64,\[9000 bytes\]"/);
  assert.equal(Buffer.byteLength(request.text), 1 << 20);
  assert.ok(request.isCut && request.bytes > long.length);
});

test("an answer whose caller left is stored as far as the caller got it", async () => {
  const key = await keyOf("stores-parts", 1);
  const leaving = new AbortController();
  const response = await gateway.post({ model: "sim-slow", messages, stream: true }, { key, signal: leaving.signal });
  const id = response.headers.get("x-request-id") as string;
  const first = Buffer.from((await response.body?.getReader().read())?.value ?? []);
  leaving.abort();
  const { answer } = await storedContentOf(id);
  assert.ok(answer.text.startsWith(first.toString()));
  assert.doesNotMatch(answer.text, /\[DONE\]/);
});
