/**
 * WebSocket handshakes that are refused: the server responds, closes its side, and keeps nothing
 * that would delay its end.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import { Bare, socketCatalogue } from "./socket-support.ts";

const gateway = await startGateway({ catalogue: socketCatalogue({ sim: "sim-text;rate=0" }) });
/** Its drain takes longer than this test may. */
const draining = await gateway.addIngress({ DRAIN_MS: "120000" }, true);
const full = await gateway.addIngress({ SOCKETS_MAX: "0" });
after(() => gateway[Symbol.asyncDispose]());

const url = draining.urls.api as string;
const path = "/v1/responses";
const websocket = [
  "Connection: Upgrade",
  "Upgrade: websocket",
  "Sec-WebSocket-Version: 13",
  "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
];
const keyHeader = `Authorization: Bearer ${gateway.key}`;
const handshake = (lines: readonly string[], start = `GET ${path} HTTP/1.1`) =>
  `${[start, "Host: x", ...lines].join("\r\n")}\r\n\r\n`;
const without = (name: string) => websocket.filter((line) => !line.startsWith(name));

/**
 * Sends a request, ends this side as soon as it is answered, and returns the status when the server
 * has closed its side as well.
 */
function statusUntilClosed(to: string, request: string, { ends = true } = {}): Promise<number> {
  const { hostname, port } = new URL(to);
  return new Promise((resolve, reject) => {
    const socket = connect({ port: Number(port), host: hostname, allowHalfOpen: true });
    const timer = setTimeout(() => {
      socket.destroy();
      reject(new Error(`still open: ${request}`));
    }, 10_000);
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (ends) socket.end();
    });
    socket.on("error", () => undefined);
    socket.on("end", () => socket.end());
    socket.on("close", () => {
      clearTimeout(timer);
      resolve(Number(text.split(" ")[1] ?? 0));
    });
    socket.write(request);
  });
}

/** Each with the status that tells why; 0 where there is no answer. */
const refusals: Record<string, [request: string, status: number]> = {
  "no key": [handshake(websocket), 401],
  "a wrong key": [handshake(["Authorization: Bearer sk-wrong", ...websocket]), 401],
  "a wrong key, and frames behind the handshake": [
    `${handshake(["Authorization: Bearer sk-wrong", ...websocket])}${"x".repeat(100_000)}`,
    401,
  ],
  "a path without WebSockets": [handshake([keyHeader, ...websocket], "GET /v1/models HTTP/1.1"), 200],
  "an unknown path": [handshake([keyHeader, ...websocket], "GET /v1/nothing HTTP/1.1"), 404],
  "another method": [handshake([keyHeader, "Content-Length: 0", ...websocket], `PUT ${path} HTTP/1.1`), 405],
  HEAD: [handshake([keyHeader, ...websocket], `HEAD ${path} HTTP/1.1`), 405],
  CONNECT: [handshake([keyHeader, ...websocket], `CONNECT ${path} HTTP/1.1`), 0],
  "no version": [handshake([keyHeader, ...without("Sec-WebSocket-Version")]), 400],
  "an unknown version": [handshake([keyHeader, "Sec-WebSocket-Version: 12", ...without("Sec-WebSocket-Version")]), 400],
  "no nonce": [handshake([keyHeader, ...without("Sec-WebSocket-Key")]), 400],
  "an invalid protocol list": [handshake([keyHeader, "Sec-WebSocket-Protocol: a,,b", ...websocket]), 400],
  "HTTP/1.0": [handshake([keyHeader, ...websocket], `GET ${path} HTTP/1.0`), 426],
  "HTTP/1.0 without a key": [handshake(websocket, `GET ${path} HTTP/1.0`), 401],
  "HTTP/2 in clear text": [
    handshake([keyHeader, "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMA"]),
    426,
  ],
  "an unknown protocol": [handshake([keyHeader, "Connection: Upgrade", "Upgrade: soup"]), 426],
  "two protocols": [handshake([keyHeader, "Connection: Upgrade", "Upgrade: websocket, soup"]), 426],
};

test("the server closes its side of every refused handshake, and an ingress that answered many stops at once", async () => {
  for (const [name, [request, status]] of Object.entries(refusals))
    assert.equal(await statusUntilClosed(url, request), status, name);
  for (const request of [handshake(websocket), handshake(["Authorization: Bearer sk-wrong", ...websocket])])
    assert.equal(await statusUntilClosed(url, request, { ends: false }), 401, "a caller that keeps its side open");
  assert.equal(
    await statusUntilClosed(full.urls.api as string, handshake([keyHeader, ...websocket]), { ends: false }),
    503,
  );
  await Promise.all(Array.from({ length: 200 }, () => statusUntilClosed(url, handshake(websocket))));

  using open = await Bare.open(url, gateway.key);
  assert.equal((await open.turn({ model: "sim", input: "Hello." })).type, "response.completed");
  const exited = once(draining.process, "exit", { signal: AbortSignal.timeout(20_000) });
  draining.process.kill("SIGTERM");
  await open.until("error");
  assert.deepEqual(await exited, [0, null]);
});
