/** Sockets of HTTP/1.1 that are read at the pace of a busy process. */

import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { test } from "node:test";
import { connect as tlsConnect } from "node:tls";
import { gzipSync } from "node:zlib";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { gatherBytesMax } from "../../../apps/worker/bounds.ts";
import { watchSocket } from "../../../apps/worker/upstream/plain-socket.ts";
import { StreamPace } from "../../../apps/worker/upstream/stream-pace.ts";
import { Upstreams } from "../../../apps/worker/upstream/upstreams.ts";
import { partOf } from "../../support/part-of.ts";
import { startTcpServer } from "../../support/tcp.ts";
import { until } from "../../support/time.ts";
import { type Protocol, startTlsFront, startTlsTunnel, tlsFiles } from "../../support/tls.ts";

/** A pace whose intervals end when the test says so. */
class HandPace extends StreamPace {
  override intervalMs = 1_000;
  readonly waiting: (() => void)[] = [];
  override later(act: () => void): void {
    this.waiting.push(act);
  }
  next(): void {
    for (const act of this.waiting.splice(0)) act();
  }
}

/** A client that reads as undici does, and the server's end of its connection. */
async function connected(kind: "TCP" | "TLS") {
  const stack = new AsyncDisposableStack();
  const accepted = Promise.withResolvers<Socket>();
  const host = "127.0.0.1";
  const { port } = stack.use(await startTcpServer(accepted.resolve));
  const front = kind === "TCP" ? undefined : stack.use(await startTlsTunnel({ port, host }));
  const socket =
    front === undefined
      ? connect(port, host)
      : tlsConnect({ port: front.port, host, ca: readFileSync(tlsFiles.caFile) });
  stack.defer(() => void socket.destroy());
  await once(socket, front === undefined ? "connect" : "secureConnect");
  const pace = new HandPace();
  watchSocket(socket, pace);
  const reads: string[] = [];
  let hasEnded = false;
  socket.on("readable", () => {
    for (let chunk = socket.read(); chunk !== null; chunk = socket.read()) reads.push(String(chunk));
  });
  socket.on("end", () => {
    hasEnded = true;
  });
  const server = await accepted.promise;
  stack.defer(() => void server.destroy());
  const text = () => reads.join("");
  return {
    socket,
    server,
    pace,
    reads,
    hasEnded: () => hasEnded,
    /** So many intervals have begun. */
    stops: (count = 1) => until("reading stops", () => pace.waiting.length === count),
    /** The server sends this, and the client has read it. */
    async receive(part: string) {
      const before = text();
      server.write(part);
      await until("the part is read", () => text() === before + part);
    },
    /** Resolves when the system has this; the client does not read meanwhile. */
    async gather(part: string) {
      if (part !== "") await new Promise((resolve) => server.write(part, resolve));
      await using other = await startTcpServer((peer) => void peer.end("later"));
      const late = connect(other.port, "127.0.0.1").resume();
      await once(late, "end");
    },
    async request() {
      socket.write("POST /v1 HTTP/1.1\r\n\r\n");
      await until("the request has arrived", () => server.read() !== null);
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

for (const kind of ["TCP", "TLS"] as const) {
  test(`over ${kind}, the first bytes of a response are read at once, and then what each interval gathers`, async () => {
    await using client = await connected(kind);
    await client.request();
    await client.receive("HTTP/1.1 200 OK\r\n\r\n");
    assert.equal(client.pace.waiting.length, 0);
    await client.receive("a");
    await client.stops();
    await client.gather("b");
    await client.gather("c");
    assert.equal(client.reads.at(-1), "a");
    client.pace.next();
    await until("the interval is over", () => client.reads.join("").endsWith("abc"));
    await client.stops();
    await client.gather("d");
    assert.equal(client.reads.at(-1)?.at(-1), "c");
    client.pace.intervalMs = 0;
    client.pace.next();
    await until("nothing waits any more", () => client.reads.at(-1) === "d");
    await client.receive("e");
    await client.receive("f");
    assert.equal(client.pace.waiting.length, 0);
  });

  test(`over ${kind}, a request on a connection that waits is answered at once`, async () => {
    await using client = await connected(kind);
    await client.request();
    await client.receive("HTTP/1.1 200 OK\r\n\r\n");
    await client.receive("last");
    await client.stops();
    await client.request();
    await client.receive("HTTP/1.1 200 OK\r\n\r\n");
    assert.equal(client.pace.waiting.length, 1, "its first bytes do not wait either");
    await client.receive("a");
    await client.stops(2);
    await client.gather("b");
    assert.equal(client.reads.at(-1), "a");
    client.pace.next();
    await until("the rest is read", () => client.reads.at(-1) === "b");
  });

  test(`over ${kind}, the end of a connection that waits is seen after the interval, and its close before`, async () => {
    await using client = await connected(kind);
    await client.request();
    await client.receive("HTTP/1.1 200 OK\r\n\r\n");
    await client.receive("a");
    await client.stops();
    await client.gather("b");
    client.server.end();
    await client.gather("");
    assert.deepEqual([client.reads.at(-1), client.hasEnded()], ["a", false]);
    client.pace.next();
    await until("the rest is read", () => client.reads.at(-1) === "b");
    client.pace.next();
    await until("the end is read", client.hasEnded);
    await using second = await connected(kind);
    await second.request();
    await second.receive("HTTP/1.1 200 OK\r\n\r\n");
    await second.receive("a");
    await second.stops();
    second.socket.destroy();
    await once(second.socket, "close");
    second.pace.next();
    assert.equal(second.reads.at(-1), "a");
  });
}

test("large parts of an answer do not wait", async () => {
  await using client = await connected("TCP");
  await client.request();
  await client.receive("HTTP/1.1 200 OK\r\n\r\n");
  const parts = 40;
  const sent = "x".repeat(gatherBytesMax * parts);
  client.server.write(sent);
  let waits = 0;
  await until("all is read", () => {
    if (client.pace.waiting.length > 0) waits++;
    client.pace.next();
    return client.reads.join("").length === sent.length + "HTTP/1.1 200 OK\r\n\r\n".length;
  });
  assert.ok(waits <= parts / 4, `${waits} waits`);
});

const events = Array.from({ length: 60 }, (_, index) => `data: ${index} ${"x".repeat(index * 7)}\n\n`);
for (const protocol of ["plain", "http/1.1", "h2"] as const satisfies ("plain" | Protocol)[])
  for (const encoding of ["identity", "gzip"])
    test(`busy, a stream over ${protocol} in ${encoding} arrives whole, and its connection is used again`, async () => {
      let connections = 0;
      const server = createServer(async (request, response) => {
        request.resume();
        response.writeHead(200, { "content-type": "text/event-stream", "content-encoding": encoding });
        for (const event of events) {
          response.write(encoding === "gzip" ? gzipSync(event) : event);
          await new Promise((resolve) => setTimeout(resolve, 1));
        }
        response.end();
      }).on("connection", () => void connections++);
      await once(server.listen(0, "127.0.0.1"), "listening");
      const { port } = server.address() as AddressInfo;
      await using front = protocol === "plain" ? undefined : await startTlsFront(port, protocol);
      await using stack = new AsyncDisposableStack();
      stack.defer(() => void server.close().closeAllConnections());
      const upstreams = new Upstreams(() => ({}));
      stack.defer(() => upstreams.close());
      upstreams.pace.intervalMs = 20;
      const upstream = partOf<CatalogueUpstream>({
        name: "theirs",
        dialect: "openai-chat",
        baseUrl: front === undefined ? `http://127.0.0.1:${port}` : `https://localhost:${front.port}`,
        headers: {},
        connectionsMax: 4,
        timeouts: { connectTimeoutMs: 5_000 },
        ...(front !== undefined && { tls: tlsFiles }),
      });
      for (let number = 0; number < 3; number++) {
        let text = "";
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        const request = { path: "/chat/completions", headers: {}, body: Buffer.from("{}") };
        upstreams.call(upstream, undefined, request, {
          head: () => undefined,
          data: (chunk) => {
            text += chunk;
          },
          end: resolve,
          failed: (_failure, cause) => reject(new Error(cause)),
        });
        await promise;
        // Undici takes the connection for free in the next turn.
        await new Promise<void>((resolve) => setImmediate(resolve));
        assert.equal(text, events.join(""));
      }
      if (protocol !== "h2") assert.equal(connections, 1);
    });
