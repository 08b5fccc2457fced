/**
 * Decisions of an ingress by a request's headers alone: the sender gets its error, and the
 * connection is closed.
 */
import assert from "node:assert/strict";
import { connect } from "node:net";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { within } from "../support/time.ts";
import { exchange } from "./support.ts";

const gateway = await startGateway();
after(() => gateway[Symbol.asyncDispose]());

const body = JSON.stringify({ model: "sim-fast", messages: [{ role: "user", content: "hello" }] });
const head = (...lines: string[]) =>
  `${["POST /v1/chat/completions HTTP/1.1", "Host: x", "Content-Type: application/json", ...lines].join("\r\n")}\r\n\r\n`;
const keyHeader = `Authorization: Bearer ${gateway.key}`;
const wrongKeyHeader = "Authorization: Bearer sk-wrong";
const codeIn = (text: string) => JSON.parse(text).error.code;

/** The connection of a sender that never finishes its body, and what it was told. */
function endlessSender(request: string): { text(): string; closed(): boolean; [Symbol.dispose](): void } {
  const { hostname, port } = new URL(gateway.url);
  let text = "";
  let closed = false;
  const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
  socket.on("data", (chunk) => {
    text += chunk.toString("latin1");
  });
  socket.on("error", () => undefined);
  socket.on("close", () => {
    closed = true;
  });
  socket.write(request);
  const sending = setInterval(() => socket.write("1\r\n \r\n"), 100);
  return {
    text: () => text,
    closed: () => closed,
    [Symbol.dispose]() {
      clearInterval(sending);
      socket.destroy();
    },
  };
}

test("a sender without a valid key is answered at once and disconnected", async () => {
  for (const lines of [[], [wrongKeyHeader]])
    for (const length of ["Content-Length: 1000000", "Transfer-Encoding: chunked"]) {
      using sender = endlessSender(head(...lines, length));
      await within(1_000, "an answer", () => sender.text().startsWith("HTTP/1.1 401 "));
      await within(5_000, "the end of the connection", () => sender.closed());
    }
});

test("a sender of a large body without a valid key receives the error, and its connection stays usable", async () => {
  for (let count = 0; count < 5; count++) {
    const response = await gateway.post(" ".repeat(4 << 20), { key: "sk-wrong" });
    assert.deepEqual([response.status, codeIn(await response.text())], [401, "invalid_api_key"]);
  }
  const request = head(wrongKeyHeader, `Content-Length: ${body.length}`);
  const { answers } = await exchange(gateway.url, request + body, {
    until: (text) => text.split("HTTP/1.1 401").length === 3 && text.endsWith("}"),
    more: (text) => (text.endsWith("}") ? request + body : undefined),
  });
  assert.equal(answers, 2);
});

test("100 Continue is sent only for requests that are accepted", async () => {
  const expecting = ["Expect: 100-continue", `Content-Length: ${body.length}`];
  for (const [lines, status] of [
    [expecting, 401],
    [[wrongKeyHeader, ...expecting], 401],
    [[keyHeader, "Expect: 100-continue", "Content-Length: 100000000"], 413],
    [[keyHeader, "Content-Encoding: compress", ...expecting], 415],
  ] as const) {
    const refused = await exchange(gateway.url, head(...lines));
    assert.deepEqual([refused.status, refused.answers], [status, 1]);
  }
  let hasAsked = false;
  const { text } = await exchange(gateway.url, head(keyHeader, ...expecting), {
    until: (so) => so.includes("You said"),
    more: () => {
      if (hasAsked) return undefined;
      hasAsked = true;
      return body;
    },
  });
  assert.match(text, /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 OK\r\n/);
});

test("a transfer coding other than 'chunked' is refused, and the rest is not read as a request", async () => {
  const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
  const smuggled = `GET /v1/models HTTP/1.1\r\nHost: x\r\n${keyHeader}\r\n\r\n`;
  for (const coding of ["gzip, chunked", "deflate, chunked", "identity, chunked", "chunked, chunked", "gzip"])
    for (const key of [keyHeader, wrongKeyHeader]) {
      const { status, answers } = await exchange(
        gateway.url,
        `${head(key, `Transfer-Encoding: ${coding}`)}${chunked}${smuggled}`,
      );
      assert.deepEqual([status, answers], [400, 1], coding);
    }
  for (const coding of ["chunked", "Chunked"]) {
    const { status } = await exchange(
      gateway.url,
      head(keyHeader, `Transfer-Encoding: ${coding}`, "Connection: close") + chunked,
    );
    assert.equal(status, 200);
  }
});

test("request ids cannot be guessed from each other", async () => {
  const ids = await Promise.all(
    Array.from({ length: 32 }, async () => (await gateway.post(body)).headers.get("x-request-id") ?? ""),
  );
  assert.equal(new Set(ids).size, ids.length);
  for (const id of ids) assert.match(id, /^req_[0-9a-z]{24,60}$/);
  const characters = ids.map((id) => [...id.slice("req_".length)]);
  const constant = characters[0]?.filter((character, at) => characters.every((other) => other[at] === character)) ?? [];
  assert.ok(constant.length <= 1, `${constant.length} places never change: ${ids.slice(0, 3)}`);
});
