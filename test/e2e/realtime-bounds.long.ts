/** Bounds of a session: limits of its caller, time, and slow readers on either side. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";
import { hashOf } from "#access/key.ts";
import { revokeRecord } from "#access/projection.ts";
import { nanoPerUnit } from "#ledger/money.ts";
import { relayBounds } from "#relay/bounds.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { openLive, openSession, pricedLine, realtimeCatalogue } from "./realtime-support.ts";
import { subjectOf } from "./support.ts";

const scripted = new WebSocketServer({ port: 0, host: "127.0.0.1", maxPayload: 0 });
await once(scripted, "listening");
const scriptedUrl = `http://127.0.0.1:${(scripted.address() as AddressInfo).port}/v1`;

const endless = "sim-realtime;tokens=2000;size=16000";
const gateway = await startGateway({
  workers: ["realtime=32"],
  environment: { SOCKET_IDLE_MS: "5000", SESSION_MS: "600000" },
  catalogue: `groups:
  default: { models: ["*"] }
  brief: { models: ["*"], sessionMs: 1000 }
  paying: { models: ["*"], keyLimits: { budgetPerDay: 1000000 } }
  poor: { models: ["*"], keyLimits: { budgetPerDay: 15 } }
  measured: { models: ["*"], keyLimits: { tokensPerMinute: 1300 } }
  alone: { models: ["*"], keyLimits: { generationsMax: 1 } }
upstreams:
  openai: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
  google: { dialect: gemini, baseUrl: "\${SIMULATOR_URL}/v1beta" }
  scripted: { dialect: openai-chat, baseUrl: "${scriptedUrl}" }
models:
${pricedLine("voice", "openai", "sim-realtime")}${pricedLine("long", "openai", "sim-realtime;tokens=150")}${pricedLine("endless", "openai", endless)}${pricedLine("live", "google", "sim-live")}${pricedLine("scripted", "scripted", "m")}`,
});
const redis = await connectRedis(gateway.redis.url, "request");
const keyspace = keyspaceOf("sluice");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
  for (const client of scripted.clients) client.terminate();
  scripted.close();
});

const spentBy = async (key: string) =>
  Number(await redis.hget(keyspace.limit("key", subjectOf(key), "budget"), "dayNano")) / nanoPerUnit;
const nothingRuns = (key: string) =>
  until("nothing runs", async () => (await redis.zcard(keyspace.limit("key", subjectOf(key), "running"))) === 0);

/**
 * The value of something once it does not change any more, for longer than the relay takes to
 * report what was taken.
 */
async function standingStill(read: () => Promise<number>): Promise<number> {
  let value = -1;
  await until("nothing moves", async () => {
    const last = value;
    value = await read();
    await new Promise((resolve) => setTimeout(resolve, 1.2 * relayBounds.heartbeatMs));
    return value > 0 && value === last && value === (await read());
  });
  return value;
}

test("each response is billed when it is done, and the end of the session bills nothing twice", async () => {
  const key = await gateway.createKey("paying");
  const session = await openSession({ ...gateway, key }, "voice");
  let expected = 0;
  for (const text of ["Hello there", "And once more"]) {
    const { response } = await session.say(text);
    expected += response.usage.total_tokens;
    await until("the response is billed", async () => (await spentBy(key)) === expected);
  }
  session.socket.close();
  await nothingRuns(key);
  assert.equal(await spentBy(key), expected);
});

test("Live bills each turn", async () => {
  const key = await gateway.createKey("paying");
  const session = await openLive({ ...gateway, key });
  session.send({ setup: { model: "models/live" } });
  let expected = 0;
  for (const text of ["Hello there", "And once more"]) {
    session.send({ clientContent: { turns: [{ parts: [{ text }] }], turnComplete: true } });
    const { usageMetadata } = await session.until(({ serverContent }) => serverContent?.turnComplete === true);
    expected += usageMetadata.totalTokenCount;
    await until("the turn is billed", async () => (await spentBy(key)) === expected);
  }
  session.socket.close();
  await nothingRuns(key);
  assert.equal(await spentBy(key), expected);
});

test("a session ends once its budget is spent, and no other begins", async () => {
  const key = await gateway.createKey("poor");
  using session = await openSession({ ...gateway, key }, "voice");
  await session.say("Hello there");
  session.send({ type: "response.create" });
  const { error } = await session.until("error");
  assert.equal(error.code, "insufficient_quota");
  assert.equal((await session.closed).code, 1008);
  await nothingRuns(key);
  using second = await openSession({ ...gateway, key }, "voice");
  assert.equal((await second.until("error")).error.code, "insufficient_quota");
  using live = await openLive({ ...gateway, key });
  live.send({ setup: { model: "models/live" } });
  assert.match((await live.closed).reason, /spent its budget/);
});

test("a session ends when its key has used its tokens of a minute", async () => {
  const key = await gateway.createKey("measured");
  using session = await openSession({ ...gateway, key }, "long");
  await session.say("Hello there");
  await session.say("And once more");
  const { error } = await session.until("error");
  assert.match(error.message, /may use 1300 tokens a minute/);
  assert.equal((await session.closed).code, 1008);
});

test("a session counts as one generation of its key", async () => {
  const key = await gateway.createKey("alone");
  using first = await openSession({ ...gateway, key }, "voice");
  await first.until("session.created");
  using second = await openSession({ ...gateway, key }, "voice");
  assert.match((await second.until("error")).error.message, /may have 1 requests answered at once/);
  await first.say("Hello");
});

test("a session ends with its key", async () => {
  const key = await gateway.createKey("default");
  using session = await openSession({ ...gateway, key }, "voice");
  await session.until("session.created");
  await revokeRecord(redis, keyspace, hashOf(key), Date.now());
  assert.equal((await session.until("error")).error.code, "invalid_api_key");
  assert.equal((await session.closed).code, 1008);
});

test("a session ends at its group's maximum duration", async () => {
  const key = await gateway.createKey("brief");
  using session = await openSession({ ...gateway, key }, "voice");
  assert.equal((await session.until("error")).error.code, "session_expired");
  assert.equal((await session.closed).code, 1001);
});

test("an idle session ends", async () => {
  using session = await openSession(gateway, "voice");
  assert.equal((await session.until("error")).error.code, "session_idle");
  assert.equal((await session.closed).code, 1000);
});

test("a caller that does not read stops its upstream, and gets everything once it reads", async () => {
  using session = await openSession(gateway, "endless");
  await session.until("session.created");
  session.socket.pause();
  session.send({ type: "response.create" });
  const sent = async () => (await gateway.seen(endless)).at(-1)?.chunksSent ?? 0;
  const before = await standingStill(sent);
  assert.ok(before < 1_000, `${before} chunks`);
  session.socket.resume();
  let count = 0;
  await session.until(({ type }) => {
    if (type === "response.output_text.delta") count++;
    return type === "response.done";
  });
  assert.equal(count, 2_000);
});

test("an upstream that does not read stops its caller, and gets everything once it reads", async () => {
  const connected = once(scripted, "connection") as Promise<[WebSocket]>;
  using session = await openSession(gateway, "scripted");
  const [upstream] = await connected;
  upstream.send(JSON.stringify({ type: "session.created", session: { model: "m" } }));
  await session.until("session.created");
  const received: number[] = [];
  let wake: () => void = () => undefined;
  upstream.on("message", (message: Buffer) => {
    received.push(message.readUInt32LE());
    if (received.length === messages) wake();
  });
  upstream.pause();
  const messages = 1_000;
  for (let index = 0; index < messages; index++) {
    // Some take several frames of the relay.
    const message = Buffer.alloc(index % 2 === 0 ? 10_000 : 100_000);
    message.writeUInt32LE(index);
    session.socket.send(message, { binary: true });
  }
  const before = await standingStill(async () => session.socket.bufferedAmount);
  assert.ok(before > 30_000_000, `${before} bytes wait at the caller`);
  const all = new Promise<void>((resolve) => {
    wake = resolve;
  });
  upstream.resume();
  await all;
  assert.deepEqual(
    received,
    Array.from({ length: messages }, (_, index) => index),
  );
});

test("a connection over which no session is opened ends", async () => {
  await using impatient = await startGateway({ workers: [], environment: { REQUEST_TIMEOUT_MS: "1000" } });
  using live = await openLive(impatient);
  assert.deepEqual(await live.closed, { code: 1008, reason: "The first message did not arrive in time." });
});

test("without a worker a session waits as long as its queue allows, and is then refused", async () => {
  await using idle = await startGateway({
    workers: [],
    catalogue: realtimeCatalogue({ voice: "sim-realtime" }, "", "queues: { realtime: { waitMs: 1000 } }\n"),
  });
  using session = await openSession(idle, "voice");
  assert.match((await session.until("error")).error.message, /waited too long for a worker/);
  assert.equal((await session.closed).code, 1013);
});
