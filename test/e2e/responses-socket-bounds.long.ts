import assert from "node:assert/strict";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { after, test } from "node:test";
import { ResponsesWS } from "openai/resources/responses/ws";
import { hashOf } from "#access/key.ts";
import { revokeRecord } from "#access/projection.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { type Role, startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { Bare, socketCatalogue } from "./socket-support.ts";
import { exchange } from "./support.ts";

const silent = "sim-text;first=60000";
const bodyBytesMax = 200_000;
const gateway = await startGateway({
  catalogue: socketCatalogue({
    sim: "sim-text;rate=0",
    other: "sim-text;rate=0",
    paced: "sim-text;rate=100;tokens=5000;first=0",
    silent,
  }),
  environment: { BODY_BYTES_MAX: String(bodyBytesMax), BODIES_BYTES_MAX: String(1 << 20), KEPT_BYTES_MAX: "20000" },
});
type Place = { role: Role; url: string };
/**
 * One where WebSockets are switched off, and ingresses with bounds that are soon reached: each
 * bound where no other is, for a machine that stands still for a moment must not reach one before
 * another.
 */
const [off, pinging, idling, full, young, stopping] = (
  await Promise.all([
    gateway.addIngress({ RESPONSES_WEBSOCKET: "off" }),
    gateway.addIngress({ SOCKET_PING_MS: "3000" }),
    gateway.addIngress({ SOCKET_IDLE_MS: "3000" }),
    gateway.addIngress({ SOCKETS_MAX: "1" }),
    gateway.addIngress({ SOCKET_AGE_MS: "500" }),
    gateway.addIngress({ REQUEST_TIMEOUT_MS: "6000", DRAIN_MS: "4000" }, true),
  ])
).map((role) => ({ role, url: role.urls.api as string })) as [Place, Place, Place, Place, Place, Place];
after(() => gateway[Symbol.asyncDispose]());

const open = (url = gateway.url, key = gateway.key) => Bare.open(url, key);
const limitReached = "websocket_connection_limit_reached";
const metricsText = () => metricsOf(gateway.ingresses[0]);
const saying = (fields: object) => JSON.stringify({ type: "response.create", model: "sim", input: "x", ...fields });
type Refusal = { response: IncomingMessage; body: string };
const refusal = async (opened: Promise<Bare>): Promise<Refusal> => {
  const refused = await opened.then(
    () => assert.fail("it was opened"),
    (reason: Refusal) => reason,
  );
  assert.equal(refused.response.headers["content-type"]?.split(";")[0], "application/json");
  return refused;
};

test("a handshake without a valid key is refused with 401, and the official client reports it", async () => {
  const { response, body } = await refusal(open(gateway.url, "sk-wrong"));
  assert.equal(response.statusCode, 401);
  assert.equal(JSON.parse(body).error.code, "invalid_api_key");
  const socket = new ResponsesWS(gateway.client({ key: "sk-wrong" }));
  const error = await new Promise<Error>((resolve) => socket.on("error", resolve));
  assert.match(error.message, /Unexpected server response: 401/);
});

test("with WebSockets off, a handshake is refused with 426 at once, and so is a GET without a handshake", async () => {
  const { response, body } = await refusal(open(off.url));
  assert.equal(response.statusCode, 426);
  assert.deepEqual([JSON.parse(body).error.code, response.headers.upgrade], ["upgrade_required", "websocket"]);
  assert.match(JSON.parse(body).error.message, /switched off/);
  for (const url of [off.url, gateway.url]) {
    const plain = await fetch(`${url}/v1/responses`, { headers: { authorization: `Bearer ${gateway.key}` } });
    assert.deepEqual([plain.status, plain.headers.get("upgrade")], [426, "websocket"]);
    const posted = await gateway.client({ url }).responses.create({ model: "sim", input: "Hello." });
    assert.match(posted.output_text, /^You said: Hello/);
  }
});

test("a POST with an Upgrade header is answered over HTTP/1.1", async () => {
  const body = JSON.stringify({ model: "sim", input: "Hello." });
  const head = [
    "POST /v1/responses HTTP/1.1",
    "Host: x",
    `Authorization: Bearer ${gateway.key}`,
    "Content-Type: application/json",
    `Content-Length: ${body.length}`,
  ];
  const { status } = await exchange(
    gateway.url,
    `${[...head, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA"].join("\r\n")}\r\n\r\n${body}`,
    {
      until: (text) => text.includes("You said"),
    },
  );
  assert.equal(status, 200);
});

test("WebSockets beyond the limit are refused, and one that is too old is closed", async () => {
  using _held = await open(full.url);
  const { response, body } = await refusal(open(full.url));
  assert.deepEqual([response.statusCode, JSON.parse(body).error.code], [503, "server_is_overloaded"]);
  using socket = await open(young.url);
  const { status, error } = await socket.until("error");
  assert.deepEqual([status, error?.code], [400, limitReached]);
  assert.equal((await socket.closed).code, 1001);
});

test("connections that are dead, idle, too busy or stalled in a frame are closed with the right code, and one that waits for its answer stays", async () => {
  const [deaf, idle, large, pinged, waiting] = await Promise.all([
    Bare.open(pinging.url, gateway.key, { autoPong: false }),
    open(idling.url),
    open(gateway.url),
    open(pinging.url),
    open(idling.url),
  ]);
  large.send(saying({ input: "x".repeat(bodyBytesMax) }));
  for (const socket of [pinged, waiting]) socket.create({ model: "silent", input: "Hello." });
  const halting = new Promise<string>((resolve) => {
    const { hostname, port } = new URL(stopping.url);
    const socket = connect(Number(port), hostname);
    const head = [
      "GET /v1/responses HTTP/1.1",
      "Host: x",
      `Authorization: Bearer ${gateway.key}`,
      "Connection: Upgrade",
      "Upgrade: websocket",
    ];
    socket.write(
      `${[...head, "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="].join("\r\n")}\r\n\r\n`,
    );
    let text = "";
    socket.on("data", (chunk) => {
      if (text === "") socket.write(Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 5]));
      text += chunk.toString("latin1");
    });
    socket.on("close", () => resolve(text));
    socket.on("error", () => undefined);
  });
  assert.equal((await deaf.closed).code, 1006);
  assert.deepEqual(await idle.closed, { code: 1000, reason: "idle" });
  assert.match(await halting, /"code":"request_timeout"/);
  assert.equal((await large.closed).code, 1009);
  for (const { socket } of [pinged, waiting]) {
    assert.equal(socket.readyState, socket.OPEN);
    socket.terminate();
  }
  await until("the upstream was hung up on", async () =>
    (await gateway.seen(silent)).every(({ outcome }) => outcome === "client-closed"),
  );
});

test("arriving frames count as request bodies", async () => {
  const many = await Promise.all(Array.from({ length: 8 }, () => open()));
  for (const one of many) one.socket.send("x".repeat(190_000), { fin: false });
  const { status, error } = await Promise.race(many.map((one) => one.until("error")));
  assert.deepEqual([status, error?.code], [503, "server_is_overloaded"]);
  for (const one of many) one.socket.terminate();
  await until("nothing is held", async () => /sluice_bodies_bytes 0\n/.test(await metricsText()));
});

test("a conversation that is too large is neither kept nor sent", async () => {
  using socket = await open();
  const large = await socket.turn({ model: "sim", store: false, input: "x".repeat(30_000) });
  const { error } = await socket.turn({ model: "sim", input: "On.", previous_response_id: large.response.id });
  assert.equal(error?.code, "previous_response_not_found");
  const kept = await socket.turn({ model: "sim", store: false, input: "x".repeat(15_000) });
  const { status } = await socket.turn({
    model: "sim",
    input: "x".repeat(bodyBytesMax - 1_000),
    previous_response_id: kept.response.id,
  });
  assert.equal(status, 413);
  using other = await open();
  const refused = await other.turn({ model: "sim", store: false, input: "x".repeat(15_000) });
  assert.equal(
    (await other.turn({ model: "sim", input: "On.", previous_response_id: refused.response.id })).error?.code,
    "previous_response_not_found",
  );
  socket.socket.close();
  await socket.closed;
  await until("there is room again", async () => {
    const again = await other.turn({ model: "sim", store: false, input: "x".repeat(15_000) });
    return (
      (await other.turn({ model: "sim", input: "On.", previous_response_id: again.response.id })).type ===
      "response.completed"
    );
  });
});

test("a turn may use only models of its key, and none after the key is revoked", async () => {
  const key = await gateway.createKey("narrow");
  const redis = await connectRedis(gateway.redis.url, "request");
  try {
    using socket = await open(gateway.url, key);
    assert.equal((await socket.turn({ model: "sim", input: "x" })).type, "response.completed");
    assert.equal((await socket.turn({ model: "other", input: "x" })).error?.code, "model_not_found");
    await revokeRecord(redis, keyspaceOf("sluice"), hashOf(key), Date.now());
    let last = await socket.turn({ model: "sim", input: "x" });
    await until("the key is refused", async () => {
      if (last.type !== "error") last = await socket.turn({ model: "sim", input: "x" });
      return last.type === "error";
    });
    assert.deepEqual([last.status, last.error?.code], [401, "invalid_api_key"]);
    assert.equal((await socket.closed).code, 1008);
  } finally {
    redis.disconnect();
  }
});

test("a stopping ingress lets turns end, fails those that take too long, closes every connection, and ends", async () => {
  const [idle, running, stuck, unread] = await Promise.all([
    open(stopping.url),
    open(stopping.url),
    open(stopping.url),
    open(stopping.url),
  ]);
  running.create({ model: "paced", input: "Hello.", max_output_tokens: 50 });
  stuck.create({ model: "silent", input: "Hello." });
  await running.until("response.output_text.delta");
  unread.socket.pause();
  const exited = once(stopping.role.process, "exit", { signal: AbortSignal.timeout(30_000) });
  stopping.role.process.kill("SIGTERM");
  assert.equal((await idle.until("error")).error?.code, limitReached);
  assert.equal((await idle.closed).code, 1001);
  assert.equal((await running.until("response.incomplete", "error")).type, "response.incomplete");
  assert.equal((await running.until("error")).error?.code, limitReached);
  assert.equal((await running.closed).code, 1001);
  const { status, error } = await stuck.until("error");
  assert.deepEqual([status, error?.code], [503, "service_unavailable"]);
  assert.deepEqual(await exited, [0, null]);
  unread.socket.terminate();
});
