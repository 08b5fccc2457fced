import assert from "node:assert/strict";
import { on, once } from "node:events";
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

test("items are read, truncated and deleted, and results of calls are items", async () => {
  await using simulator = createSimulator();
  const url = (await simulator.listen()).replace("http", "ws");
  const socket = new WebSocket(`${url}/v1/realtime?model=m;rate=0;first=0`);
  const messages = on(socket, "message");
  const until = async (type: string) => {
    for await (const [message] of { [Symbol.asyncIterator]: () => ({ next: () => messages.next() }) }) {
      const event = JSON.parse(String(message));
      if (event.type === type) return event;
    }
  };
  await until("session.created");
  const send = (event: object) => socket.send(JSON.stringify(event));
  const output = { id: "out", type: "function_call_output", call_id: "c", output: "Rain" };
  send({ type: "conversation.item.create", item: output });
  await until("conversation.item.done");
  send({ type: "response.create" });
  const [answer] = (await until("response.done")).response.output;
  assert.match(answer.content[0].text, /Rain/);
  send({ type: "conversation.item.retrieve", item_id: "out" });
  assert.equal((await until("conversation.item.retrieved")).item.output, "Rain");
  send({ type: "conversation.item.truncate", item_id: answer.id, content_index: 0, audio_end_ms: 10 });
  assert.equal((await until("conversation.item.truncated")).audio_end_ms, 10);
  send({ type: "conversation.item.delete", item_id: "out" });
  assert.equal((await until("conversation.item.deleted")).item_id, "out");
  for (const [event, code] of [
    [{ type: "conversation.item.retrieve", item_id: "out" }, "invalid_value"],
    [{ type: "conversation.item.delete", item_id: "out" }, "invalid_value"],
    [{ type: "conversation.item.truncate", item_id: "none", content_index: 0, audio_end_ms: 1 }, "invalid_value"],
    [{ type: "conversation.item.create", item: { type: "message" } }, "invalid_value"],
    [{ type: "conversation.item.create", item: { type: "other" } }, "invalid_value"],
    [{ type: "response.cancel" }, "response_cancel_not_active"],
  ] as const) {
    send(event);
    assert.equal((await until("error")).error.code, code, JSON.stringify(event));
  }
  socket.close();
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
