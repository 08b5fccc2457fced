import assert from "node:assert/strict";
import { once } from "node:events";
import { test } from "node:test";
import { WebSocket } from "ws";
import { createSimulator } from "../../apps/simulator/server.ts";

const livePath = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent";

/** The status of a refused handshake; 101 for an accepted one. */
async function statusOf(url: string, headers: Record<string, string> = {}): Promise<number> {
  const socket = new WebSocket(url.replace("http", "ws"), { headers });
  socket.on("error", () => undefined);
  const status = await Promise.race([
    once(socket, "open").then(() => 101),
    once(socket, "unexpected-response").then(([, response]) => response.statusCode as number),
  ]);
  socket.terminate();
  return status;
}

test("handshakes need the credential, a path and a model, and may be told to fail", async () => {
  await using simulator = createSimulator({ key: "secret" });
  const url = await simulator.listen();
  const authorization = { authorization: "Bearer secret" };
  assert.equal(await statusOf(`${url}/v1/realtime?model=m`, authorization), 101);
  assert.equal(await statusOf(`${url}/v1/realtime?model=m`), 401);
  assert.equal(await statusOf(`${url}/v1/realtime`, authorization), 400);
  assert.equal(await statusOf(`${url}/v1/other`, authorization), 404);
  assert.equal(await statusOf(`${url}/v1/realtime?model=m;status=503`, authorization), 503);
  assert.equal(await statusOf(`${url}/v1/realtime?model=m;nonsense=1`, authorization), 400);
  assert.equal(await statusOf(`${url}${livePath}?key=secret`), 101);
  assert.equal(await statusOf(`${url}${livePath}`), 401);
});

test("the journal has the session and its messages", async () => {
  await using simulator = createSimulator();
  const url = await simulator.listen();
  const socket = new WebSocket(`${url.replace("http", "ws")}/v1/realtime?model=m;tokens=3`);
  socket.on("open", () => socket.send(JSON.stringify({ type: "response.create" })));
  await new Promise<void>((resolve) =>
    socket.on("message", (message) => {
      if (JSON.parse(String(message)).type === "response.done") resolve();
    }),
  );
  socket.close();
  await simulator.journal.idle();
  const [entry] = simulator.journal.list({});
  assert.deepEqual([entry?.status, entry?.outcome, entry?.chunksSent], [101, "completed", 3]);
});

test("Live wants a setup first, and messages that it knows", async () => {
  await using simulator = createSimulator();
  const url = (await simulator.listen()).replace("http", "ws") + livePath;
  for (const messages of [[{ clientContent: {} }], [{ setup: { model: "models/m" } }, { nonsense: 1 }]]) {
    const socket = new WebSocket(url);
    await once(socket, "open");
    for (const message of messages) socket.send(JSON.stringify(message));
    const [code] = await once(socket, "close");
    assert.equal(code, 1007);
  }
});
