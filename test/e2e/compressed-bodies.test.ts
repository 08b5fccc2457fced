/** Bodies in a content coding: https://www.rfc-editor.org/rfc/rfc9110#section-8.4 */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { connect } from "node:net";
import { after, test } from "node:test";
import { brotliCompressSync, deflateSync, gunzipSync, gzipSync, zstdCompressSync } from "node:zlib";
import { zstdFramesMax } from "../../apps/ingress/common/bounds.ts";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until, workMsOf } from "../support/time.ts";
import { exchange } from "./support.ts";

const bodyBytesMax = 100_000;
const gateway = await startGateway();
const tight = await gateway.addIngress({ BODY_BYTES_MAX: String(bodyBytesMax), BODIES_BYTES_MAX: String(1 << 20) });
after(() => gateway[Symbol.asyncDispose]());

const codings: Record<string, (bytes: Buffer) => Buffer> = {
  gzip: gzipSync,
  "x-gzip": gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};

const requestOf = (content: string) =>
  Buffer.from(JSON.stringify({ model: "sim-fast", messages: [{ role: "user", content }] }));

interface Sending {
  url?: string;
  /** Sends the bytes in chunks of this size, without a Content-Length. */
  chunked?: number | undefined;
}

/** POSTs a body under a coding; resolves to the status and the answer's text, or the error. */
async function send(coding: string, bytes: Buffer, { url = gateway.url, chunked }: Sending = {}) {
  const body =
    chunked === undefined
      ? bytes
      : new ReadableStream({
          start(controller) {
            for (let at = 0; at < bytes.length; at += chunked) controller.enqueue(bytes.subarray(at, at + chunked));
            controller.close();
          },
        });
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": "application/json",
      "content-encoding": coding,
    },
    body,
    duplex: "half",
  } as RequestInit);
  const { error, choices } = (await response.json()) as {
    error?: { message: string };
    choices?: { message: { content: string } }[];
  };
  return {
    status: response.status,
    text: choices?.[0]?.message.content ?? "",
    message: error?.message ?? "",
    accepted: response.headers.get("accept-encoding"),
  };
}

for (const [coding, compress] of Object.entries(codings)) {
  test(`a body in ${coding} is read, small and large, with a length and in chunks`, async () => {
    for (const question of ["hello", "hello ".repeat(60_000)])
      for (const chunked of [undefined, 100]) {
        const { status, text } = await send(coding, compress(requestOf(question)), { chunked });
        assert.deepEqual([status, text.includes("hello")], [200, true], `${question.length} ${chunked}`);
      }
  });

  test(`a body in ${coding} that is cut off or broken is refused`, async () => {
    const whole = compress(requestOf("hello ".repeat(1_000)));
    const broken = Buffer.concat([whole.subarray(0, whole.length >> 1), Buffer.alloc(200, "x")]);
    for (const bytes of [whole.subarray(0, -1), whole.subarray(0, whole.length >> 1), broken, requestOf("hello")])
      for (const chunked of [undefined, 7]) {
        const { status, message } = await send(coding, bytes, { chunked });
        assert.equal(status, 400);
        assert.match(message, /Content-Encoding/);
      }
  });

  test(`a body in ${coding} with other bytes behind it is refused`, async () => {
    for (const question of ["hello", "hello ".repeat(60_000)])
      for (const behind of [Buffer.from("x"), Buffer.alloc(100_000, "x"), requestOf("hello")])
        for (const chunked of [undefined, 50]) {
          const { status, message } = await send(coding, Buffer.concat([compress(requestOf(question)), behind]), {
            chunked,
          });
          assert.deepEqual(
            [status, /Content-Encoding/.test(message)],
            [400, true],
            `${question.length} ${behind.length} ${chunked}`,
          );
        }
  });

  test(`a body in ${coding} is bounded by its decoded size`, async () => {
    const url = tight.urls.api as string;
    const empty = requestOf("").length;
    for (const [length, status] of [
      [bodyBytesMax, 200],
      [bodyBytesMax + 1, 413],
    ] as const)
      for (const chunked of [undefined, 10])
        assert.equal(
          (await send(coding, compress(requestOf("x".repeat(length - empty))), { url, chunked })).status,
          status,
        );
  });
}

/** The request in parts of this size, each compressed by itself. */
const inParts = (content: string, partBytes: number, compress: (bytes: Buffer) => Buffer) => {
  const whole = requestOf(content);
  const count = Math.ceil(whole.length / partBytes);
  return Array.from({ length: count }, (_, part) => compress(whole.subarray(part * partBytes, (part + 1) * partBytes)));
};

for (const [coding, compress] of [
  ["gzip", gzipSync],
  ["zstd", zstdCompressSync],
] as const)
  test(`all parts of a body in ${coding} are read, and bounded together`, async () => {
    for (const chunked of [undefined, 7, 1_000]) {
      const { status, text } = await send(coding, Buffer.concat(inParts("hello ".repeat(2_000), 100, compress)), {
        chunked,
      });
      assert.deepEqual([status, text.includes("hello")], [200, true], String(chunked));
      const tooMuch = Buffer.concat(inParts("x".repeat(bodyBytesMax), 20_000, compress));
      assert.equal((await send(coding, tooMuch, { url: tight.urls.api as string, chunked })).status, 413);
    }
  });

test("a body in zstd may have so many frames only", async () => {
  const frames = inParts("x".repeat(2 * zstdFramesMax), 1, zstdCompressSync);
  const { status, message } = await send("zstd", Buffer.concat(frames));
  assert.deepEqual([status, message.includes(String(zstdFramesMax))], [400, true]);
});

test("a body that expands enormously is decoded up to the bound only", async () => {
  const bomb = gzipSync(requestOf("x".repeat(128 << 20)));
  const wholeMs = await workMsOf(() => gunzipSync(bomb));
  const workMs = await workMsOf(async () => {
    const { status } = await send("gzip", bomb, { url: tight.urls.api as string });
    assert.equal(status, 413);
  });
  assert.ok(workMs < wholeMs / 4, `${workMs} ms of work; decoding all of it takes ${wholeMs} ms`);
});

test("a compressed body that decodes to nothing is bounded by its own size", async () => {
  const member = gzipSync("");
  const bytes = Buffer.concat(Array.from({ length: (2 * bodyBytesMax) / member.length }, () => member));
  const { status } = await send("gzip", bytes, { url: tight.urls.api as string, chunked: 10_000 });
  assert.equal(status, 413);
});

test("decoded bytes count as memory until the sender leaves", async () => {
  const bodyBytes = async () => Number(/^sluice_bodies_bytes (\d+)/m.exec(await metricsOf(tight))?.[1]);
  const decoded = requestOf(randomBytes(40_000).toString("hex"));
  const compressed = gzipSync(decoded);
  const { hostname, port } = new URL(tight.urls.api as string);
  const socket = connect(Number(port), hostname);
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: ${compressed.length}\r\n\r\n`,
  );
  // The last bytes are missing, so the request is never complete.
  socket.write(compressed.subarray(0, -8));
  await until("the decoded bytes are held", async () => (await bodyBytes()) > decoded.length * 0.9);
  assert.ok(compressed.length < decoded.length * 0.7);
  socket.destroy();
  await until("they are released", async () => (await bodyBytes()) === 0);
});

test("an unknown coding, and several codings, are refused with a list of the known ones", async () => {
  for (const coding of ["compress", "snappy", "gzip, zstd", "gzip, gzip", "constructor", "__proto__"]) {
    const { status, message, accepted } = await send(coding, gzipSync(requestOf("hello")));
    assert.deepEqual([status, accepted], [415, "gzip, deflate, br, zstd"], coding);
    assert.match(message, /Content-Encoding/);
  }
});

test("a coding without a body, or with a body that nothing reads, does no harm", async () => {
  const head = (method: string, path: string, ...lines: string[]) =>
    `${[`${method} ${path} HTTP/1.1`, "Host: x", "Connection: close", `Authorization: Bearer ${gateway.key}`, "Content-Encoding: gzip", ...lines].join("\r\n")}\r\n\r\n`;
  const chunked = "Transfer-Encoding: chunked";
  const length = "Content-Length: 10";
  const json = "Content-Type: application/json";
  for (const [request, status] of [
    [head("GET", "/v1/models"), 200],
    [head("HEAD", "/v1/models"), 200],
    [`${head("GET", "/v1/models", chunked)}a\r\n0123456789\r\n0\r\n\r\n`, 200],
    [`${head("GET", "/v1/models", length)}0123456789`, 200],
    [head("POST", "/v1/chat/completions", json, "Content-Length: 0"), 400],
    [`${head("POST", "/v1/chat/completions", json, chunked)}0\r\n\r\n`, 400],
    [`${head("DELETE", "/v1/responses/resp_1", json, length)}0123456789`, 400],
  ] as const)
    assert.equal((await exchange(gateway.url, request)).status, status, request);
  assert.equal((await send("gzip", gzipSync(requestOf("hello")))).status, 200);
});

test("names of codings ignore case, and 'identity' is no coding", async () => {
  assert.equal((await send("GZip", gzipSync(requestOf("hello")))).status, 200);
  assert.equal((await send("identity", requestOf("hello"))).status, 200);
});

test("a connection stays usable after a compressed body was refused", async () => {
  const bytes = gzipSync(requestOf("x".repeat(1 << 20)));
  const head = (length: number, coding: string) =>
    `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${gateway.key}\r\nContent-Type: application/json\r\n${coding}Content-Length: ${length}\r\n\r\n`;
  const plain = requestOf("hello");
  const { text } = await exchange(
    tight.urls.api as string,
    Buffer.concat([
      Buffer.from(head(bytes.length, "Content-Encoding: gzip\r\n")),
      bytes,
      Buffer.from(head(plain.length, "")),
      plain,
    ]),
    { until: (so) => so.includes("You said") },
  );
  assert.match(text, /^HTTP\/1\.1 413 [\s\S]*HTTP\/1\.1 200 /);
});
