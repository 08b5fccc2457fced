import assert from "node:assert/strict";
import { mkdtempDisposable, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { failureOfTransport } from "../../../apps/worker/upstream/transport-failures.ts";
import { type UpstreamRequest, Upstreams } from "../../../apps/worker/upstream/upstreams.ts";
import { startTcpServer } from "../../support/tcp.ts";
import { until } from "../../support/time.ts";
import { startScriptedUpstream } from "../../support/upstream.ts";

/** An upstream that answers when the test says so, and the calls to it. */
async function startUpstream() {
  const responses: ServerResponse[] = [];
  const server = await startScriptedUpstream((response) => responses.push(response));
  const upstreams = new Upstreams(() => Promise.resolve({}));
  const outcomes: string[] = [];
  return {
    responses,
    upstreams,
    outcomes,
    upstreamOf: (connectionsMax: number) =>
      ({
        name: "theirs",
        baseUrl: server.origin,
        headers: {},
        connectionsMax,
        timeouts: { connectTimeoutMs: 5_000 },
      }) as CatalogueUpstream,
    call: (upstream: CatalogueUpstream) =>
      upstreams.call(
        upstream,
        undefined,
        { path: "/x", headers: {}, body: Buffer.from("{}") },
        {
          head: () => undefined,
          data: () => undefined,
          end: () => void outcomes.push("answered"),
          failed: (_failure, cause) => void outcomes.push(cause),
        },
      ),
    /** Answers until this many calls are over. */
    answer: (count: number) =>
      until(`${count} calls are over`, () => {
        for (const response of responses.splice(0)) response.end();
        return outcomes.length === count;
      }),
    connections: server.connections,
    async [Symbol.asyncDispose]() {
      await upstreams.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

test("calls that wait when an upstream's limits change are answered, and then the old connections close", async () => {
  await using theirs = await startUpstream();
  const [before, after] = [theirs.upstreamOf(2), theirs.upstreamOf(1)];
  for (let call = 0; call < 5; call++) theirs.call(before);
  await until("two are asked", () => theirs.responses.length === 2);
  theirs.upstreams.retain(new Map([["theirs", after]]));
  theirs.call(after);
  await until("the new limits have a connection of their own", () => theirs.responses.length === 3);
  await theirs.answer(6);
  assert.deepEqual(theirs.outcomes, Array(6).fill("answered"));
  await until("only the new connection is left", async () => (await theirs.connections()) === 1);
});

test("calls that wait when an upstream leaves the catalogue are answered unless aborted, and then its connections close", async () => {
  await using theirs = await startUpstream();
  const upstream = theirs.upstreamOf(1);
  theirs.call(upstream);
  theirs.call(upstream);
  const last = theirs.call(upstream);
  theirs.upstreams.retain(new Map());
  await until("one is asked", () => theirs.responses.length === 1);
  last.abort();
  await theirs.answer(2);
  assert.deepEqual(theirs.outcomes, ["answered", "answered"]);
  await until("no connection is left", async () => (await theirs.connections()) === 0);
});

test("an idle upstream's connections close as soon as it leaves the catalogue", async () => {
  await using theirs = await startUpstream();
  theirs.call(theirs.upstreamOf(1));
  await theirs.answer(1);
  assert.equal(await theirs.connections(), 1);
  theirs.upstreams.retain(new Map());
  await until("no connection is left", async () => (await theirs.connections()) === 0);
});

test("a worker that stops also closes connections to upstreams that left the catalogue", async () => {
  await using theirs = await startUpstream();
  theirs.call(theirs.upstreamOf(1));
  await until("one is asked", () => theirs.responses.length === 1);
  theirs.upstreams.retain(new Map());
  await theirs.upstreams.close();
  await until("no connection is left", async () => (await theirs.connections()) === 0);
});

type Play = (socket: Socket, requests: number, connection: number) => void;

/** An upstream that answers each request of each connection as the test plays it. */
async function startRaw(play: Play) {
  let connections = 0;
  const server = await startTcpServer((socket) => {
    const connection = ++connections;
    let requests = 0;
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk;
      for (let end = text.indexOf("{}"); end >= 0; end = text.indexOf("{}")) {
        text = text.slice(end + 2);
        play(socket, ++requests, connection);
      }
    });
  });
  const upstreams = new Upstreams(() => ({}));
  const upstream = {
    name: "raw",
    baseUrl: `http://127.0.0.1:${server.port}`,
    headers: {},
    connectionsMax: 1,
    timeouts: { connectTimeoutMs: 5_000 },
  } as CatalogueUpstream;
  return {
    upstream,
    upstreams,
    connections: () => connections,
    ask: (isRepeatable = true, body: UpstreamRequest["body"] = Buffer.from("{}")) =>
      askOf(upstreams, upstream, isRepeatable, body),
    async [Symbol.asyncDispose]() {
      await upstreams.close();
      await server[Symbol.asyncDispose]();
    },
  };
}

/** The status and the body of an answer, or the failure's message and cause. */
const askOf = (
  upstreams: Upstreams,
  upstream: CatalogueUpstream,
  isRepeatable: boolean,
  body: UpstreamRequest["body"] = Buffer.from("{}"),
): Promise<string> =>
  new Promise((resolve) => {
    let text = "";
    upstreams.call(
      upstream,
      undefined,
      { path: "/x", headers: {}, body },
      {
        head: (status) => {
          text += `${status} `;
        },
        data: (chunk) => {
          text += chunk;
        },
        end: () => resolve(text),
        failed: ({ message }, cause) => resolve(`${message} ${cause}`),
      },
      isRepeatable,
    );
  });

const ok = (body: string, headers = "") => `HTTP/1.1 200 OK\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`;

test("informational responses that nobody asked for are skipped, however they arrive, and also on a kept connection", async () => {
  const before = [
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 100 Continue\r\nx-a: b\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 102 Processing\r\n\r\n",
    "HTTP/1.1 103 Early Hints\r\nlink: </a>; rel=preload\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n",
    "",
  ];
  const body = "HTTP/1.1 100 Continue\r\n\r\nis text";
  for (const size of [1, 7, 13, 1_000]) {
    await using theirs = await startRaw((socket, requests) => {
      socket.setNoDelay(true);
      const text = (before[requests - 1] ?? "") + ok(body);
      const write = (at: number) => {
        if (at >= text.length) return;
        socket.write(text.slice(at, at + size));
        setImmediate(write, at + size);
      };
      write(0);
    });
    for (const [place] of before.entries()) assert.equal(await theirs.ask(), `200 ${body}`, `${size}, ${place}`);
    assert.equal(theirs.connections(), 1);
  }
});

test("heads of responses up to 64 KiB are read, and larger ones fail with their name", async () => {
  await using theirs = await startRaw((socket, requests) => {
    const headers = Array.from(
      { length: requests === 1 ? 64 : 200 },
      (_, place) => `x-${place}: ${"v".repeat(1_010)}\r\n`,
    );
    socket.write(ok("ok", headers.join("")));
  });
  assert.equal(await theirs.ask(), "200 ok");
  assert.equal(
    await theirs.ask(),
    "The upstream of this model sent headers that are too large. UND_ERR_HEADERS_OVERFLOW",
  );
});

const closings: [string, (socket: Socket) => void][] = [
  ["resets", (socket) => void socket.resetAndDestroy()],
  ["closes", (socket) => void socket.end()],
];

for (const [how, close] of closings)
  test(`a request on a kept connection that its upstream ${how} is sent once more on a new one, and later ones have their own`, async () => {
    await using theirs = await startRaw((socket, requests) => {
      if (requests > 1) close(socket);
      else socket.write(ok("ok"));
    });
    for (let call = 0; call < 5; call++) assert.equal(await theirs.ask(), "200 ok");
    assert.equal(theirs.connections(), 5);
  });

test("a request that may not be repeated is not, and later ones have a connection of their own", async () => {
  await using theirs = await startResetting();
  assert.equal(await theirs.ask(false), "200 ok");
  assert.match(await theirs.ask(false), /broke the connection .* (?:ECONNRESET|UND_ERR_SOCKET|EPIPE)$/);
  for (let call = 0; call < 3; call++) assert.equal(await theirs.ask(false), "200 ok");
  assert.equal(theirs.connections(), 4);
});

/** An upstream that answers the first request of a connection, and resets it at the second. */
const startResetting = () =>
  startRaw((socket, requests) => {
    if (requests > 1) socket.resetAndDestroy();
    else socket.write(ok("ok"));
  });

test("a body that can be read once is not sent again", async () => {
  await using theirs = await startResetting();
  assert.equal(await theirs.ask(), "200 ok");
  const body = {
    byteLength: 2,
    chunks: () => [],
    async *[Symbol.asyncIterator]() {
      yield Buffer.from("{}");
    },
  };
  assert.match(await theirs.ask(true, body), /broke the connection .* (?:ECONNRESET|UND_ERR_SOCKET|EPIPE)$/);
  assert.equal(await theirs.ask(), "200 ok");
});

test("a request whose certificates are gone when it should be sent again fails like one that is not repeated", async () => {
  await using theirs = await startResetting();
  await using folder = await mkdtempDisposable(join(tmpdir(), "sluice-tls-"));
  const caFile = join(folder.path, "ca.pem");
  await writeFile(caFile, "");
  const upstream = { ...theirs.upstream, tls: { caFile } };
  assert.equal(await askOf(theirs.upstreams, upstream, true), "200 ok");
  await rm(caFile);
  assert.match(
    await askOf(theirs.upstreams, upstream, true),
    /broke the connection .* (?:ECONNRESET|UND_ERR_SOCKET|EPIPE)$/,
  );
});

test("a request is sent once more at most, and not at all if its connection was new or its response had begun", async () => {
  await using always = await startRaw((socket, requests, connection) => {
    if (connection === 1 && requests === 1) socket.write(ok("ok"));
    else socket.resetAndDestroy();
  });
  assert.equal(await always.ask(), "200 ok");
  assert.match(await always.ask(), /broke the connection/);
  assert.equal(always.connections(), 2);
  assert.match(await always.ask(), /broke the connection/);
  assert.equal(always.connections(), 3);
  await using begun = await startRaw((socket, requests) => {
    if (requests === 1) socket.write(ok("ok"));
    else socket.write("HTTP/1.1 200 OK\r\ncontent-le", () => socket.resetAndDestroy());
  });
  assert.equal(await begun.ask(), "200 ok");
  assert.match(await begun.ask(), /broke the connection/);
  assert.equal(begun.connections(), 1);
});

test("failures of DNS and of certificates are told from broken answers, with their code", async () => {
  const named = (code: string) =>
    failureOfTransport(Object.assign(new Error("secret.example"), { code })).message.replace(
      /^The upstream of this model /,
      "",
    );
  for (const code of ["ENOTFOUND", "EAI_AGAIN", "EAI_FAIL", "ESERVFAIL", "ECONNREFUSED", "EHOSTUNREACH"])
    assert.equal(named(code), "could not be reached.", code);
  for (const code of [
    "CERT_HAS_EXPIRED",
    "DEPTH_ZERO_SELF_SIGNED_CERT",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
    "ERR_TLS_CERT_ALTNAME_INVALID",
    "ERR_SSL_WRONG_VERSION_NUMBER",
    "HOSTNAME_MISMATCH",
    "EPROTO",
  ])
    assert.equal(named(code), "could not be reached securely.", code);
  for (const code of ["ECONNRESET", "EPIPE", "UND_ERR_SOCKET"])
    assert.equal(named(code), "broke the connection before its answer was complete.", code);
  await using theirs = await startRaw((socket) => void socket.write(ok("ok")));
  const absent = { ...theirs.upstream, name: "absent", baseUrl: "http://absent.invalid" };
  assert.match(
    await askOf(theirs.upstreams, absent, true),
    /^The upstream of this model could not be reached\. (?:ENOTFOUND|EAI_AGAIN)$/,
  );
  const plain = { ...theirs.upstream, name: "plain", baseUrl: theirs.upstream.baseUrl.replace("http:", "https:") };
  await using wrong = await startTcpServer((socket) => {
    socket.on("data", () => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
  });
  assert.match(
    await askOf(theirs.upstreams, { ...plain, baseUrl: `https://127.0.0.1:${wrong.port}` }, true),
    /could not be reached securely\. (?:ERR_SSL_\w+|EPROTO)$/,
  );
});
