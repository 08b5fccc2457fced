/** The cost of a session that ends in the middle of an answer, whoever ends it. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { hashOf } from "#access/key.ts";
import { revokeRecord } from "#access/projection.ts";
import { nanoPerUnit } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";
import { type BareSession, openLive, openSession, pricedLine } from "./realtime-support.ts";
import { subjectOf } from "./support.ts";

const gateway = await startGateway({
  workers: ["realtime=32"],
  environment: { DRAIN_MS: "0" },
  catalogue: `groups:
  paying: { models: ["*"], keyLimits: { budgetPerDay: 1000000 } }
  brief: { models: ["*"], sessionMs: 3000, keyLimits: { budgetPerDay: 1000000 } }
upstreams:
  openai: { dialect: openai-chat, baseUrl: "\${SIMULATOR_URL}/v1" }
  google: { dialect: gemini, baseUrl: "\${SIMULATOR_URL}/v1beta" }
models:
${pricedLine("voice", "openai", "sim-realtime;tokens=500;rate=50")}${pricedLine("live", "google", "sim-live;tokens=500;rate=50")}${pricedLine("cut", "openai", "sim-realtime;tokens=500;rate=50;cut=12")}`,
});
const redis = await connectRedis(gateway.redis.url, "request");
const keyspace = keyspaceOf("sluice");
after(async () => {
  redis.disconnect();
  await gateway[Symbol.asyncDispose]();
});

/** A key's spending, once none of its requests runs. */
async function spentBy(key: string): Promise<number> {
  const subject = subjectOf(key);
  await until("nothing runs", async () => (await redis.zcard(keyspace.limit("key", subject, "running"))) === 0);
  return Number(await redis.hget(keyspace.limit("key", subject, "budget"), "dayNano")) / nanoPerUnit;
}

const question = "twenty bytes of text";

/** A session in the middle of an answer, of which the caller has got twelve tokens. */
async function answering(api: "openai" | "live", key: string, model = "voice"): Promise<BareSession> {
  const { url } = gateway;
  const session = await (api === "openai" ? openSession({ url, key }, model) : openLive({ url, key }));
  if (api === "openai") {
    await session.until("session.created");
    const item = { type: "message", role: "user", content: [{ type: "input_text", text: question }] };
    session.send({ type: "conversation.item.create", item });
    session.send({ type: "response.create" });
    for (let count = 0; count < 12; count++) await session.until("response.output_text.delta");
  } else {
    session.send({ setup: { model: "models/live" } });
    await session.until(({ setupComplete }) => setupComplete !== undefined);
    session.send({ clientContent: { turns: [{ role: "user", parts: [{ text: question }] }], turnComplete: true } });
    for (let count = 0; count < 12; count++) await session.until(({ serverContent }) => serverContent?.modelTurn);
  }
  return session;
}

/**
 * The messages of the caller have thirty to fifty tokens with their JSON. `upTo`: tokens of the
 * answer that may have been produced by then.
 */
const isPlausible = (spent: number, what: string, upTo = 40) =>
  assert.ok(spent >= 30 + 12 && spent <= 50 + upTo, `${what}: ${spent}`);

test("a session that its caller leaves in the middle of an answer costs its input and what was produced", async () => {
  for (const api of ["openai", "live"] as const)
    for (const leave of ["close", "terminate"] as const) {
      const key = await gateway.createKey("paying");
      using session = await answering(api, key);
      session.socket[leave]();
      isPlausible(await spentBy(key), `${api}, ${leave}`);
    }
});

test("so does one that the gateway ends: by its time limit, or because its key is revoked", async () => {
  const brief = await gateway.createKey("brief");
  const revoked = await gateway.createKey("paying");
  using limited = await answering("openai", brief);
  using ended = await answering("live", revoked);
  await revokeRecord(redis, keyspace, hashOf(revoked), Date.now());
  await Promise.all([limited.closed, ended.closed]);
  isPlausible(await spentBy(brief), "time limit", 300);
  isPlausible(await spentBy(revoked), "revoked", 200);
});

test("so does one whose upstream dies", async () => {
  const key = await gateway.createKey("paying");
  using session = await answering("openai", key, "cut");
  await session.closed;
  isPlausible(await spentBy(key), "upstream");
});

test("so does one whose worker or ingress stops", async () => {
  const [first, second] = [await gateway.createKey("paying"), await gateway.createKey("paying")];
  using session = await answering("openai", first);
  await gateway.workers[0]?.stop();
  await session.closed;
  isPlausible(await spentBy(first), "worker", 300);
  await gateway.addWorker("realtime=32");
  using other = await answering("live", second);
  await gateway.ingresses[0]?.stop();
  await other.closed;
  isPlausible(await spentBy(second), "ingress", 300);
});
