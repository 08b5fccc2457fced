/** Sessions while processes die or stop, and while Redis is away. */
import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";
import { openLive, openSession, realtimeCatalogue } from "../e2e/realtime-support.ts";
import { type Gateway, type GatewayOptions, startGateway } from "../support/gateway.ts";
import { until } from "../support/time.ts";

/** Sends every message back. */
const echo = new WebSocketServer({ port: 0, host: "127.0.0.1" });
await once(echo, "listening");
echo.on("connection", (socket: WebSocket) => {
  socket.send(JSON.stringify({ type: "session.created", session: { model: "m" } }));
  socket.on("message", (message, isBinary) => socket.send(message as Buffer, { binary: isBinary }));
});
after(() => {
  for (const client of echo.clients) client.terminate();
  echo.close();
});

const catalogue = realtimeCatalogue(
  { voice: "sim-realtime", live: "sim-live" },
  `  echo: { dialect: openai-chat, baseUrl: "http://127.0.0.1:${(echo.address() as AddressInfo).port}/v1" }\n`,
  "  - { id: echo, queue: realtime, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: echo, model: m }] }\n",
);
const start = (options: GatewayOptions = {}): Promise<Gateway> =>
  startGateway({ catalogue, workers: ["realtime=32"], ...options });

/**
 * Sends messages at an even pace while something happens to Redis, and checks that each comes back
 * once and in order.
 */
async function checkEcho(gateway: Gateway, disturb: () => Promise<unknown>): Promise<void> {
  using session = await openSession(gateway, "echo");
  await session.until("session.created");
  let number = 0;
  let isDone = false;
  const sending = setInterval(() => {
    if (!isDone) session.send({ type: "test", number: number++, filling: "x".repeat(3_000) });
  }, 2);
  try {
    for (let expected = 0; expected < 200; expected++) assert.equal((await session.next()).number, expected);
    await disturb();
    isDone = true;
    for (let expected = 200; expected < number; expected++) assert.equal((await session.next()).number, expected);
  } finally {
    clearInterval(sending);
  }
  session.send({ type: "test", number: -1 });
  assert.equal((await session.next()).number, -1);
}

const second = () => new Promise((resolve) => setTimeout(resolve, 1_000));

test("a Redis that stands still for a second loses nothing in either direction", async () => {
  await using gateway = await start();
  await checkEcho(gateway, async () => {
    gateway.redis.pause();
    await second();
    gateway.redis.resume();
  });
});

test("a Redis that restarts without its data loses nothing in either direction", async () => {
  await using gateway = await start();
  await checkEcho(gateway, async () => {
    await gateway.redis.kill();
    await second();
    await gateway.redis.restartEmpty();
  });
});

test("a session whose worker dies ends with an error event and code 1011, and is not started again", async () => {
  await using gateway = await start({ processes: "workers", workers: ["realtime=4"] });
  using session = await openSession(gateway, "voice");
  using live = await openLive(gateway);
  live.send({ setup: { model: "models/live" } });
  await live.next();
  await session.say("Hello");
  const replacement = gateway.addWorker("realtime=4");
  await gateway.workers[0]?.kill();
  await replacement;
  assert.equal((await session.until("error")).error.code, "worker_lost");
  assert.equal((await session.closed).code, 1011);
  assert.deepEqual(await live.closed, {
    code: 1011,
    reason: "The process that ran this request was lost; send it again.",
  });
  assert.equal((await gateway.seen("sim-realtime")).length, 1);
});

test("a session that waits for its upstream when its worker dies begins at another worker", async () => {
  let isFirst = true;
  const slow = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await once(slow, "listening");
  const connected = once(slow, "connection");
  slow.on("connection", (socket: WebSocket) => {
    if (!isFirst) socket.send(JSON.stringify({ type: "session.created", session: { model: "m" } }));
    isFirst = false;
    socket.on("message", (message) => socket.send(message.toString()));
  });
  await using gateway = await start({
    processes: "workers",
    workers: ["realtime=4"],
    catalogue: catalogue.replace(
      `:${(echo.address() as AddressInfo).port}/`,
      `:${(slow.address() as AddressInfo).port}/`,
    ),
  });
  using session = await openSession(gateway, "echo");
  session.send({ type: "test", number: 1 });
  await connected;
  const replacement = gateway.addWorker("realtime=4");
  await gateway.workers[0]?.kill();
  await replacement;
  assert.equal((await session.next()).type, "session.created");
  assert.equal((await session.next()).number, 1);
  for (const client of slow.clients) client.terminate();
  slow.close();
});

test("when an ingress dies, the sessions of its callers end at the upstream", async () => {
  await using gateway = await start({ ingresses: 0 });
  const ingress = await gateway.addIngress({}, true);
  using session = await openSession({ url: ingress.urls.api as string, key: gateway.key }, "voice");
  await session.until("session.created");
  await ingress.kill();
  assert.equal((await session.closed).code, 1006);
  await until(
    "the upstream's session is over",
    async () => (await gateway.seen("sim-realtime"))[0]?.closedAt !== undefined,
    15_000,
  );
});

test("an ingress that stops announces it, and ends the sessions that are left", async () => {
  await using gateway = await start({ environment: { DRAIN_MS: "1500" } });
  using session = await openSession(gateway, "voice");
  using live = await openLive(gateway);
  live.send({ setup: { model: "models/live" } });
  await live.next();
  await session.until("session.created");
  const stopped = gateway.ingresses[0]?.stop();
  const { error } = await session.until("error");
  assert.equal(error.code, "session_ending");
  assert.match(error.message, /ends in 2 s/);
  assert.deepEqual(await live.next(), { goAway: { timeLeft: "2s" } });
  await session.say("Still here");
  assert.match((await session.until("error")).error.message, /stopping/);
  assert.equal((await session.closed).code, 1001);
  assert.equal((await live.closed).code, 1001);
  await stopped;
});

test("a worker that stops announces it, and ends the sessions that are left", async () => {
  await using gateway = await start({ environment: { DRAIN_MS: "1500" } });
  using session = await openSession(gateway, "voice");
  using live = await openLive(gateway);
  live.send({ setup: { model: "models/live" } });
  await live.next();
  await session.until("session.created");
  const stopped = gateway.workers[0]?.stop();
  assert.equal((await session.until("error")).error.code, "session_ending");
  assert.deepEqual(await live.next(), { goAway: { timeLeft: "2s" } });
  await session.say("Still here");
  assert.match((await session.until("error")).error.message, /is stopping/);
  assert.equal((await session.closed).code, 1012);
  assert.equal((await live.closed).code, 1012);
  await stopped;
});
