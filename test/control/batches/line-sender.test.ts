/** Lines are sent signed, and every way to get no answer is told apart. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { InternalVerifier, internalSignatureHeader } from "#access/internal-signature.ts";
import { systemClock } from "#service/clock.ts";
import { LineSender } from "../../../apps/control/batches/line-sender.ts";

const secret = "a secret of both processes, long enough";
const line = {
  keyHash: "hash",
  batch: "batch_1",
  path: "/v1/chat/completions",
  body: Buffer.from("{}"),
  generationId: "gen_1",
  receivedAt: 5,
  sends: 3,
};

async function sentTo(listener: RequestListener, signal = new AbortController().signal) {
  const server = createServer(listener).listen(0, "127.0.0.1");
  await once(server, "listening");
  const ingressUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/base/`;
  await using sender = new LineSender({ ingressUrl, secret, connectionsMax: 2, clock: systemClock });
  try {
    return await sender.send(line, signal);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}

test("a line has the signature of its request, which names its key and its place in the ledger", async () => {
  const verifier = new InternalVerifier(secret);
  let claims: unknown;
  const result = await sentTo((request, response) => {
    const url = "/base/v1/chat/completions";
    const header = request.headers[internalSignatureHeader];
    claims = verifier.verify(header, { receiver: "ingress", method: "POST", url }, Date.now());
    assert.equal(request.url, url);
    assert.equal(request.headers.authorization, undefined);
    response.writeHead(429, { "retry-after": "7", "x-should-retry": "false", "x-request-id": "req_1" }).end("{}");
  });
  assert.deepEqual(claims, { key: "hash", batch: "batch_1", generation: "gen_1", receivedAt: "5", sends: "3" });
  assert.deepEqual(result, {
    status: 429,
    requestId: "req_1",
    body: Buffer.from("{}"),
    retryAfterMs: 7_000,
    isFinal: true,
  });
});

test("a connection that breaks before the answer or within it is broken", async () => {
  assert.equal(await sentTo((request) => request.socket.destroy()), "broken");
  assert.equal(
    await sentTo((request, response) => {
      response.writeHead(200, { "content-length": "10" }).write("12");
      setImmediate(() => request.socket.destroy());
    }),
    "broken",
  );
});

test("an address that nobody listens at is unreachable", async () => {
  await using sender = new LineSender({
    ingressUrl: "http://127.0.0.1:1",
    secret,
    connectionsMax: 1,
    clock: systemClock,
  });
  assert.equal(await sender.send(line, new AbortController().signal), "unreachable");
});

test("a line that is given up rejects", async () => {
  const ending = new AbortController();
  await assert.rejects(
    sentTo(() => ending.abort(), ending.signal),
    { name: "AbortError" },
  );
});
