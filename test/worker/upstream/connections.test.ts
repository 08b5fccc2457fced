/** Connections to upstreams: TLS, HTTP/2, proxies, compressed answers. */

import assert from "node:assert/strict";
import dns from "node:dns";
import { once } from "node:events";
import { copyFile, mkdtemp, rm } from "node:fs/promises";
import type { Server } from "node:http";
import { syncBuiltinESMExports } from "node:module";
import type { AddressInfo, Server as TcpServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mock, test } from "node:test";
import { createServer as createTlsServer, type TLSSocket } from "node:tls";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import type { CatalogueUpstream } from "#catalogue/catalogue.ts";
import { Upstreams, urlOf } from "../../../apps/worker/upstream/upstreams.ts";
import { partOf } from "../../support/part-of.ts";
import { startSilentServer, startTunnelProxy } from "../../support/tcp.ts";
import { until } from "../../support/time.ts";
import { type Protocol, serverCredentials, serverFiles, startTlsFront, tlsFiles } from "../../support/tls.ts";
import { jsonAnswer, startScriptedUpstream } from "../../support/upstream.ts";

const portOf = (server: Server | TcpServer) => (server.address() as AddressInfo).port;

const upstreamOf = (baseUrl: string, more: Partial<CatalogueUpstream> = {}, connectTimeoutMs = 5_000) =>
  partOf<CatalogueUpstream>({
    name: "theirs",
    dialect: "openai-chat",
    baseUrl,
    headers: {},
    connectionsMax: 64,
    timeouts: { connectTimeoutMs },
    ...more,
  });

interface Outcome {
  status?: number;
  text: string;
  cause?: string;
  tookMs: number;
}

const outcomeOf = (upstreams: Upstreams, upstream: CatalogueUpstream): Promise<Outcome> =>
  new Promise((resolve) => {
    const startedAt = performance.now();
    const chunks: Buffer[] = [];
    let status: number | undefined;
    const over = (cause?: string) =>
      resolve({
        ...(status !== undefined && { status }),
        text: Buffer.concat(chunks).toString(),
        ...(cause !== undefined && { cause }),
        tookMs: performance.now() - startedAt,
      });
    upstreams.call(
      upstream,
      undefined,
      { path: "/chat/completions", headers: {}, body: Buffer.from("{}") },
      {
        head: (answeredStatus) => {
          status = answeredStatus;
        },
        data: (chunk) => void chunks.push(chunk),
        end: () => over(),
        failed: (_failure, cause) => over(cause),
      },
    );
  });

const using = (environment = {}) => {
  const upstreams = new Upstreams(() => ({}), environment);
  return { upstreams, [Symbol.asyncDispose]: () => upstreams.close() };
};

for (const protocol of ["http/1.1", "h2"] as const satisfies Protocol[])
  test(`an upstream over TLS is called by ${protocol}, trusting the authority that the catalogue names`, async () => {
    await using plain = await startScriptedUpstream(jsonAnswer('{"ok":true}'));
    await using front = await startTlsFront(plain.port, protocol);
    await using ours = using();
    const baseUrl = `https://localhost:${front.port}/v1`;
    const trusted = upstreamOf(baseUrl, { tls: { caFile: tlsFiles.caFile } });
    const answers = await Promise.all(Array.from({ length: 20 }, () => outcomeOf(ours.upstreams, trusted)));
    assert.deepEqual(new Set(answers.map(({ status, text }) => `${status} ${text}`)), new Set(['200 {"ok":true}']));
    assert.equal(await ours.upstreams.isPresent(trusted, undefined), true);
    const { cause } = await outcomeOf(ours.upstreams, upstreamOf(baseUrl, { name: "distrusted" }));
    assert.match(cause ?? "", /UNABLE_TO_VERIFY|SELF_SIGNED/);
    const unreadable = await outcomeOf(
      ours.upstreams,
      upstreamOf(baseUrl, { name: "unreadable", tls: { caFile: "/no/such/file.pem" } }),
    );
    assert.equal(unreadable.cause, "TLS files or proxy: ENOENT");
  });

/** A server that notes the name in each client's certificate. */
async function startNotingServer(names: string[]) {
  const server = createTlsServer(
    { ...serverCredentials, requestCert: true, rejectUnauthorized: false },
    (socket: TLSSocket) => {
      names.push(String(socket.getPeerCertificate().subject?.CN));
      socket
        .on("error", () => undefined)
        .once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"));
    },
  ).listen(0, "127.0.0.1");
  await once(server, "listening");
  return { baseUrl: `https://localhost:${portOf(server)}`, [Symbol.dispose]: () => void server.close() };
}

test("an upstream that requires a client certificate gets the worker's", async () => {
  const names: string[] = [];
  using server = await startNotingServer(names);
  await using ours = using();
  const answer = await outcomeOf(ours.upstreams, upstreamOf(server.baseUrl, { tls: tlsFiles }));
  assert.deepEqual([answer.status, names], [200, ["client"]]);
});

test("a changed client certificate is used without a restart, once it fits its key", async () => {
  const directory = await mkdtemp(join(tmpdir(), "tls-"));
  const tls = { ...tlsFiles, certificateFile: join(directory, "cert.pem"), keyFile: join(directory, "key.pem") };
  await copyFile(tlsFiles.certificateFile, tls.certificateFile);
  await copyFile(tlsFiles.keyFile, tls.keyFile);
  const names: string[] = [];
  using server = await startNotingServer(names);
  await using ours = using();
  const upstream = upstreamOf(server.baseUrl, { tls });
  const nameOfCall = async () => {
    assert.equal((await outcomeOf(ours.upstreams, upstream)).status, 200);
    return names.at(-1);
  };
  assert.equal(await nameOfCall(), "client");
  await copyFile(serverFiles.certificateFile, tls.certificateFile);
  assert.equal(await nameOfCall(), "client");
  await copyFile(serverFiles.keyFile, tls.keyFile);
  await until("the new certificate", async () => (await nameOfCall()) !== "client");
  await rm(directory, { recursive: true });
});

test("twenty requests to an upstream that stalls in its handshake all fail within one connect timeout", async () => {
  await using stalled = await startSilentServer();
  await using ours = using();
  const upstream = upstreamOf(`https://localhost:${stalled.port}`, { tls: { caFile: tlsFiles.caFile } }, 400);
  const outcomes = await Promise.all(Array.from({ length: 20 }, () => outcomeOf(ours.upstreams, upstream)));
  assert.deepEqual(new Set(outcomes.map(({ cause }) => cause)), new Set(["UND_ERR_CONNECT_TIMEOUT"]));
  const slowest = Math.max(...outcomes.map(({ tookMs }) => tookMs));
  assert.ok(slowest < 4_000, `${slowest} ms: one after the other they would take 8 s`);
});

const answer = JSON.stringify({ choices: [], filler: "x".repeat(200_000) });
const encodings = {
  gzip: gzipSync,
  "x-gzip": gzipSync,
  GZIP: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};
for (const [encoding, compress] of Object.entries(encodings))
  test(`an answer that comes as ${encoding} is read although identity was asked for`, async () => {
    await using plain = await startScriptedUpstream((response) => {
      const bytes = compress(Buffer.from(answer));
      response.writeHead(200, { "content-encoding": encoding });
      for (let from = 0; from < bytes.length; from += 100) response.write(bytes.subarray(from, from + 100));
      response.end();
    });
    await using ours = using();
    const outcome = await outcomeOf(ours.upstreams, upstreamOf(plain.origin));
    assert.equal(outcome.text, answer);
    assert.equal(plain.last().headers["accept-encoding"], "identity");
  });

test("a truncated or corrupt compressed answer fails, and an unread one stops the upstream", async () => {
  const whole = gzipSync(Buffer.from(answer));
  let body = whole.subarray(0, whole.length - 20);
  await using plain = await startScriptedUpstream((response) =>
    response.writeHead(200, { "content-encoding": "gzip" }).end(body),
  );
  await using ours = using();
  const upstream = upstreamOf(plain.origin);
  assert.equal((await outcomeOf(ours.upstreams, upstream)).cause, "content-encoding");
  body = Buffer.from("not compressed at all");
  assert.equal((await outcomeOf(ours.upstreams, upstream)).cause, "content-encoding");

  body = gzipSync(Buffer.alloc(64 << 20));
  let read = 0;
  const closed = Promise.withResolvers<void>();
  const call = ours.upstreams.call(
    upstream,
    undefined,
    { path: "/", headers: {}, body: Buffer.from("{}") },
    {
      head: () => undefined,
      data: (chunk) => {
        read += chunk.length;
        call.flow(false);
        closed.resolve();
      },
      end: () => assert.fail("ended"),
      failed: () => assert.fail("failed"),
    },
  );
  await closed.promise;
  for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
  assert.ok(read < 1 << 20, `${read} bytes were inflated for a reader who had stopped`);
  call.abort();
});

test("calls use the environment's proxy, except for hosts in NO_PROXY and loopback addresses", async () => {
  await using plain = await startScriptedUpstream((response, { headers }) => response.end(headers.host));
  await using front = await startTlsFront(plain.port, "http/1.1");
  await using proxy = await startTunnelProxy(front.port);
  const address = `http://127.0.0.1:${proxy.port}`;
  await using ours = using({ HTTPS_PROXY: address, http_proxy: address, NO_PROXY: "never.example" });
  const ask = (baseUrl: string) =>
    outcomeOf(
      ours.upstreams,
      upstreamOf(baseUrl, { name: baseUrl, tls: { caFile: tlsFiles.caFile, serverName: "localhost" } }, 2_000),
    );
  assert.equal((await ask("https://models.example/v1")).text, "models.example");
  assert.deepEqual(proxy.tunnels, ["models.example:443"]);
  assert.equal((await ask(plain.origin)).text, `127.0.0.1:${plain.port}`);
  assert.equal((await ask(`https://localhost:${front.port}`)).text, `localhost:${front.port}`);
  assert.notEqual((await ask("https://never.example/v1")).cause, undefined);
  assert.deepEqual([proxy.tunnels.length, proxy.forwards.length], [1, 0]);
});

test("a proxy that does not answer CONNECT fails within the connect timeout, and may be set without a scheme", async () => {
  await using silent = await startSilentServer();
  await using ours = using({ https_proxy: `127.0.0.1:${silent.port}` });
  const outcome = await outcomeOf(ours.upstreams, upstreamOf("https://models.example/v1", {}, 400));
  assert.notEqual(outcome.cause, undefined);
  assert.ok(outcome.tookMs < 5_000, `${outcome.tookMs} ms`);
});

test("a base URL keeps its query with every path", () => {
  const urls = (base: string, path: string) => urlOf(base, path).href;
  assert.equal(
    urls("https://a.example/openai?api-version=1", "/chat/completions"),
    "https://a.example/openai/chat/completions?api-version=1",
  );
  assert.equal(
    urls("https://a.example/v1beta?x=1&y=2", "/models/m:streamGenerateContent?alt=sse"),
    "https://a.example/v1beta/models/m:streamGenerateContent?alt=sse&x=1&y=2",
  );
  assert.equal(urls("https://a.example", "/models"), "https://a.example/models");
});

test("an aborted HTTP/2 call does not affect other calls on its connection", async () => {
  const answers: (() => void)[] = [];
  await using plain = await startScriptedUpstream((response) => {
    response.writeHead(200).write("begun ");
    answers.push(() => void response.end("ended"));
  });
  await using front = await startTlsFront(plain.port, "h2");
  await using ours = using();
  const upstream = upstreamOf(`https://localhost:${front.port}`, { tls: { caFile: tlsFiles.caFile } });
  const kept = outcomeOf(ours.upstreams, upstream);
  await until("the first is asked", () => answers.length === 1);
  const left = ours.upstreams.call(
    upstream,
    undefined,
    { path: "/", headers: {}, body: Buffer.from("{}") },
    {
      head: () => undefined,
      data: () => left.abort(),
      end: () => assert.fail("ended"),
      failed: () => assert.fail("failed"),
    },
  );
  await until("the second is asked", () => answers.length === 2);
  for (const end of answers) end();
  assert.equal((await kept).text, "begun ended");
});

/** Names of hosts stand for these addresses now. */
function namesLeadTo(addressesOf: () => readonly string[]) {
  const mocked = mock.method(
    dns,
    "lookup",
    (_name: string, _options: object, callback: (...values: unknown[]) => void) =>
      callback(
        null,
        addressesOf().map((address) => ({ address, family: address.includes(":") ? 6 : 4 })),
      ),
  );
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      mocked.mock.restore();
      syncBuiltinESMExports();
    },
  };
}

test("no upstream leads to a cloud's metadata server, by its address or by a name that stands for it", async () => {
  await using plain = await startScriptedUpstream((response) =>
    response.writeHead(200, { connection: "close" }).end("{}"),
  );
  let addresses = ["127.0.0.1"];
  using _names = namesLeadTo(() => addresses);
  await using ours = using();
  await using proxied = using({ http_proxy: "http://127.0.0.1:9", no_proxy: "theirs.test" });
  const named = upstreamOf(`http://theirs.test:${plain.port}`);
  for (const { upstreams } of [ours, proxied]) {
    addresses = ["127.0.0.1"];
    assert.equal((await outcomeOf(upstreams, named)).status, 200);
    for (const address of ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "fd00:ec2::254"]) {
      addresses = [address];
      assert.equal((await outcomeOf(upstreams, named)).cause, "EADDRREFUSED", address);
      const probe = { method: "GET", path: "/", timeoutMs: 5_000, bytesMax: 1 } as const;
      await assert.rejects(upstreams.request(named, undefined, probe), { code: "EADDRREFUSED" });
      const session = Promise.withResolvers<string>();
      const fail = () => session.resolve("answered");
      upstreams.open(named, undefined, { path: "/", headers: {}, body: Buffer.alloc(0) }, "m", {
        head: fail,
        data: fail,
        end: fail,
        failed: (_failure, cause) => session.resolve(cause),
      });
      assert.equal(await session.promise, "EADDRREFUSED", address);
    }
    addresses = ["169.254.169.254", "127.0.0.1"];
    assert.equal((await outcomeOf(upstreams, named)).status, 200);
    for (const host of ["169.254.169.254", "0xa9fea9fe", "[fe80::1]", "100.100.100.200"]) {
      const outcome = await outcomeOf(upstreams, upstreamOf(`http://${host}:${plain.port}`, { name: host }));
      assert.equal(outcome.cause, "address: EADDRREFUSED");
    }
  }
});
