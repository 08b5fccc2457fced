/**
 * Sessions with upstreams: TLS, proxies, time limits, refused handshakes, and the caller's input.
 */

import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { type WebSocket, WebSocketServer } from "ws";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { encodeMessage } from "#relay/session-messages.ts";
import { gatheredInputBytesMax } from "../../../apps/worker/bounds.ts";
import type { UpstreamHandlers } from "../../../apps/worker/upstream/pooled-call.ts";
import { Upstreams } from "../../../apps/worker/upstream/upstreams.ts";
import { partOf } from "../../support/part-of.ts";
import { startSilentServer, startTunnelProxy } from "../../support/tcp.ts";
import { until } from "../../support/time.ts";
import { startTlsFront, tlsFiles } from "../../support/tls.ts";

const server = createServer((_request, response) => void response.writeHead(404).end());
const sockets = new WebSocketServer({ noServer: true });
const accepted: { socket: WebSocket; url: string; authorization: string | undefined }[] = [];
server.on("upgrade", (request, raw, head) => {
  if (request.url?.includes("refuse")) raw.end("HTTP/1.1 429 No\r\nretry-after: 7\r\ncontent-length: 4\r\n\r\nfull");
  else
    sockets.handleUpgrade(request, raw, head, (socket) => {
      accepted.push({ socket, url: request.url ?? "", authorization: request.headers.authorization });
      socket.send("hello");
    });
});
server.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;
after(() => {
  for (const client of sockets.clients) client.terminate();
  server.close();
});

const upstreamOf = (baseUrl: string, more: Partial<CatalogueUpstream> = {}, connectTimeoutMs = 2_000) =>
  partOf<CatalogueUpstream>({
    name: baseUrl,
    dialect: "openai-chat",
    baseUrl,
    headers: {},
    connectionsMax: 4,
    timeouts: { connectTimeoutMs },
    ...more,
  });

/** Opens a session and records what its handlers are called with. */
function open(upstream: CatalogueUpstream, { path = "/realtime?model=m", first = "", environment = {} } = {}) {
  const upstreams = new Upstreams(() => ({ authorization: "Bearer secret" }), environment);
  const seen: string[] = [];
  const handlers: UpstreamHandlers = {
    head: (status) => void seen.push(`head ${status}`),
    data: (chunk, kind = "text") => void seen.push(`${kind} ${kind === "close" ? chunk.readUInt16LE() : chunk}`),
    end: () => void seen.push("end"),
    failed: ({ code }, cause) => void seen.push(`failed ${code} ${cause}`),
  };
  const request = { path, headers: {}, body: Buffer.from(first) };
  const call = upstreams.open(upstream, undefined, request, "theirs", handlers);
  return {
    call,
    seen,
    has: (count: number) => until(`${count} events of ${JSON.stringify(seen)}`, () => seen.length >= count),
    async [Symbol.asyncDispose]() {
      call.abort();
      await upstreams.close();
    },
  };
}

const plain = `http://127.0.0.1:${port}`;

test("a session is opened below the base URL with the credential, and Live beside the API's version", async () => {
  await using ours = open(upstreamOf(`${plain}/v1?api-version=1`), { first: "setup" });
  await ours.has(2);
  assert.deepEqual(ours.seen, ["head 200", "text hello"]);
  const { socket, url, authorization } = accepted.at(-1) as (typeof accepted)[0];
  assert.deepEqual([url, authorization], ["/v1/realtime?model=m&api-version=1", "Bearer secret"]);
  socket.close(4001, "enough");
  await ours.has(4);
  assert.deepEqual(ours.seen.slice(2), ["close 4001", "end"]);
  await using live = open(upstreamOf(`${plain}/proxy/v1beta`), { path: "/ws/google.x" });
  await live.has(2);
  assert.equal(accepted.at(-1)?.url, "/proxy/ws/google.x");
});

test("a refused handshake is an error response", async () => {
  await using ours = open(upstreamOf(plain), { path: "/refuse" });
  await ours.has(3);
  assert.deepEqual(ours.seen, ["head 429", "text full", "end"]);
});

test("a connection that breaks, or that cannot be opened in time, is a failure", async () => {
  await using broken = open(upstreamOf(plain));
  await broken.has(2);
  accepted.at(-1)?.socket.terminate();
  await broken.has(3);
  assert.match(broken.seen[2] as string, /^failed upstream_failed/);
  await using refused = open(upstreamOf("http://127.0.0.1:1"));
  await refused.has(1);
  assert.deepEqual(refused.seen, ["failed upstream_failed ECONNREFUSED"]);
  await using silent = await startSilentServer();
  await using hanging = open(upstreamOf(`https://127.0.0.1:${silent.port}`, {}, 100));
  await hanging.has(1);
  assert.deepEqual(hanging.seen, ["failed upstream_timeout connect timeout"]);
});

test("TLS settings and the environment's proxy apply", async () => {
  await using front = await startTlsFront(port, "http/1.1");
  const tls = { tls: { caFile: tlsFiles.caFile, serverName: "localhost" } };
  await using direct = open(upstreamOf(`https://localhost:${front.port}`, tls));
  await direct.has(2);
  assert.deepEqual(direct.seen, ["head 200", "text hello"]);
  await using untrusted = open(upstreamOf(`https://localhost:${front.port}`));
  await untrusted.has(1);
  assert.match(untrusted.seen[0] as string, /^failed upstream_failed/);
  await using proxy = await startTunnelProxy(front.port);
  const environment = { HTTPS_PROXY: `127.0.0.1:${proxy.port}` };
  await using proxied = open(upstreamOf("https://models.example/v1", tls), { environment });
  await proxied.has(2);
  assert.deepEqual([proxy.tunnels, proxied.seen], [["models.example:443"], ["head 200", "text hello"]]);
  await using local = open(upstreamOf(`https://localhost:${front.port}`, tls), { environment });
  await local.has(2);
  assert.equal(proxy.tunnels.length, 1);
});

test("the caller's messages arrive whole, large ones in fragments, with the upstream's name of the model", async () => {
  await using ours = open(upstreamOf(plain));
  await ours.has(2);
  const { socket } = accepted.at(-1) as (typeof accepted)[0];
  const received: { text: string; isBinary: boolean }[] = [];
  socket.on("message", (bytes: Buffer, isBinary) => void received.push({ text: bytes.toString("latin1"), isBinary }));
  const large = Buffer.alloc(5 * gatheredInputBytesMax, "large");
  const empty = Buffer.alloc(0);
  const stream = Buffer.concat([
    ...encodeMessage([
      { kind: "text", bytes: Buffer.from('{"model":') },
      { kind: "model", bytes: empty },
      { kind: "text", bytes: Buffer.from("}") },
    ]),
    ...encodeMessage([{ kind: "binary", bytes: large }]),
    ...encodeMessage([{ kind: "text", bytes: empty }]),
  ]);
  let taken = 0;
  for (let at = 0; at < stream.length; at += 50_000) {
    const payload = stream.subarray(at, at + 50_000);
    ours.call.input(payload, () => {
      taken = at + payload.length;
    });
  }
  await until("all is taken", () => taken === stream.length && received.length === 3);
  assert.deepEqual(received, [
    { text: '{"model":"theirs"}', isBinary: false },
    { text: large.toString("latin1"), isBinary: true },
    { text: "", isBinary: false },
  ]);
});
