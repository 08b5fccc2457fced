import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { Queue } from "bullmq";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { catalogueOf, type Gateway, startGateway } from "../support/gateway.ts";
import { readStream } from "../support/stream.ts";
import { until } from "../support/time.ts";

const models = {
  fast: "sim-text;rate=0;first=0;tokens=8",
  late: "sim-text;rate=0;first=3000;tokens=8",
  stream: "sim-text;rate=10;first=0;tokens=400",
  silent: "sim-text;rate=0;first=60000;tokens=8",
};
const catalogue = catalogueOf(Object.entries(models).map(([id, model]) => ({ id, model })));
const keyspace = keyspaceOf("sluice");

const ask = (gateway: Gateway, model: keyof typeof models, stream = false, url = gateway.url) =>
  gateway.post({ model, stream, messages: [{ role: "user", content: "hello" }] }, { url });
const metricsOf = async (urls: Record<string, string>) => (await fetch(`${urls.operations}/metrics`)).text();

/**
 * A proxy to Redis whose connections can fall silent: bytes no longer pass, and neither end is
 * notified.
 */
async function openProxy(path: string) {
  const pairs = new Set<{ silent: boolean }>();
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(path);
    const pair = { silent: false };
    pairs.add(pair);
    for (const [from, to] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on("error", () => undefined);
      from.on("data", (bytes) => !pair.silent && to.write(bytes));
      from.on("close", () => {
        sockets.delete(from);
        if (!pair.silent) to.destroy();
      });
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `redis://127.0.0.1:${(server.address() as { port: number }).port}`,
    silence() {
      for (const pair of pairs) pair.silent = true;
      pairs.clear();
    },
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}

test("connections to Redis that fall silent are replaced", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue, ingresses: 0, workers: [] });
  await using proxy = await openProxy(gateway.redis.url.slice("unix://".length));
  const { urls } = await gateway.addIngress({ REDIS_URL: proxy.url });
  await gateway.addWorker("chat=4", { REDIS_URL: proxy.url });
  assert.equal((await ask(gateway, "fast", false, urls.api)).status, 200);
  proxy.silence();
  await until(
    "requests are served again",
    async () => (await ask(gateway, "fast", false, urls.api)).status === 200,
    30_000,
  );
  await Promise.all([...gateway.ingresses, ...gateway.workers].map((role) => role.kill()));
});

test("jobs left by a dead ingress do not delay the callers of another", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue, ingresses: 2, workers: ["chat=4"] });
  const [dying, living] = gateway.ingresses;
  const abandoned = Array.from({ length: 60 }, () =>
    ask(gateway, "silent", false, dying?.urls.api).catch(() => undefined),
  );
  await until("they wait", async () =>
    /sluice_generations{queue="chat",state="waiting"} 56/.test(await metricsOf(dying?.urls ?? {})),
  );
  await dying?.kill();
  await Promise.all(abandoned);
  // One grace time for every four jobs would exceed the wait of a request.
  assert.equal((await ask(gateway, "fast", false, living?.urls.api)).status, 200);
});

test("SIGTERM ends an ingress and a worker while Redis is away", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue, environment: { DRAIN_MS: "500" } });
  assert.equal((await ask(gateway, "fast")).status, 200);
  await gateway.redis.kill();
  for (const role of [...gateway.ingresses, ...gateway.workers]) {
    const ended = role.stop();
    await until("it ends", () => role.process.exitCode !== null, 30_000);
    assert.equal(await ended, 0, role.complaints());
  }
});

test("a stopping worker hands back attempts without content, and ends the others with an error", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue, workers: [] });
  const first = await gateway.addWorker("chat=8", { DRAIN_MS: "300" });
  const begun = readStream(await ask(gateway, "stream", true));
  const waiting = ask(gateway, "late");
  await until("both run", async () => (await gateway.seen(models.late)).length === 1);
  await gateway.addWorker("chat=8");
  assert.equal(await first.stop(), 0);
  assert.equal((await waiting).status, 200);
  const { error, done } = await begun;
  assert.equal(error?.code, "worker_lost");
  assert.equal(done, false);
});

test("foreign jobs and frames do no harm", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue, workers: ["chat=4"] });
  const redis = await connectRedis(gateway.redis.url, "request");
  await using _connection = { [Symbol.asyncDispose]: async () => redis.disconnect() };
  const queue = new Queue("chat", { connection: redis, prefix: keyspace.queuePrefix("chat") });
  const job = {
    generation: "gen_x",
    owner: "ingress-x",
    number: 1,
    attempt: 1,
    dialect: "openai-chat",
    operation: "answer",
    framing: "whole",
    contentType: "application/json",
    headers: {},
    model: "fast",
    group: "default",
    keyId: "key_1",
    admittedAt: 1,
    body: "{",
  };
  const bad = [
    null,
    { ...job, number: -1 },
    { ...job, attempt: 1e9 },
    { ...job, owner: "x".repeat(300) },
    { ...job, admittedAt: "now" },
  ];
  const foreign = [
    {},
    null,
    [],
    "text",
    { generations: [] },
    { generations: new Array(17).fill(job) },
    ...bad.map((one) => ({ generations: [one] })),
  ];
  await queue.addBulk(
    foreign.map((data) => ({
      name: "foreign",
      data,
      opts: { priority: 1, removeOnComplete: true, removeOnFail: true },
    })),
  );
  const channels = (await redis.call("PUBSUB", "SHARDCHANNELS", keyspace.mailbox("*"))) as string[];
  assert.equal(channels.length, 2);
  const head = Buffer.from([1, 1, 0x78]);
  const frame = (kind: number, length: number, payload: Buffer) => {
    const bytes = Buffer.alloc(15 + payload.length);
    bytes[0] = kind;
    bytes.writeUInt32LE(1, 1);
    bytes.writeUInt16LE(1, 5);
    bytes.writeUInt32LE(length, 11);
    payload.copy(bytes, 15);
    return Buffer.concat([head, bytes]);
  };
  let chunks = 0;
  const stream = readStream(await ask(gateway, "stream", true), (count) => {
    chunks = count;
  });
  for (const channel of channels) {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("hello"),
      head,
      frame(3, 1_000, Buffer.alloc(4)),
      frame(255, 0, Buffer.alloc(0)),
    ])
      await redis.spublish(channel, bytes);
    for (let kind = 0; kind < 24; kind++) await redis.spublish(channel, frame(kind, 5, Buffer.from("{bad}")));
  }
  const answers = await Promise.all(Array.from({ length: 8 }, () => ask(gateway, "fast")));
  for (const { status } of answers) assert.equal(status, 200);
  await until("nothing is held but the stream", async () =>
    /sluice_worker_generations{queue="chat"} [01]\n/.test(await metricsOf(gateway.workers[0]?.urls ?? {})),
  );
  const before = chunks;
  await until("the stream goes on", () => chunks > before);
  await gateway.workers[0]?.kill();
  assert.equal((await stream).error?.code, "worker_lost");
  await queue.close();
});

test("running generations do not keep their bodies: 240 MiB of them pass through a heap of 64", async () => {
  await using gateway = await startGateway({ processes: "all", catalogue, workers: ["chat=128"], ingresses: 0 });
  const ingress = await gateway.addIngress({ NODE_OPTIONS: "--max-old-space-size=64" });
  const messages = [{ role: "user", content: "x".repeat(2 << 20) }];
  const controller = new AbortController();
  for (let count = 0; count < 120; count++) {
    const stream = await gateway.post(
      { model: "stream", stream: true, messages },
      { url: ingress.urls.api as string, signal: controller.signal },
    );
    assert.equal(stream.status, 200);
  }
  assert.match(await metricsOf(ingress.urls), /sluice_generations{queue="chat",state="running"} \d/);
  assert.equal(ingress.process.exitCode, null);
  controller.abort();
});
