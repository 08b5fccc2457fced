/** The server around the dialects: its settings, its key, its journal, and callers that leave. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "node:test";
import OpenAI from "openai";
import { settingValuesIn } from "../../apps/simulator/settings.ts";
import { within } from "../support/time.ts";
import { ask, begin, chatOf, closedEntryOf, startSimulator, tokensIn, until } from "./support.ts";

test("the model's settings override the defaults, and the header overrides both", async (t) => {
  const defaults = settingValuesIn("tokens=3");
  assert.equal(defaults.kind, "ok");
  const { url } = await startSimulator(t, defaults.kind === "ok" ? { defaults: defaults.value } : {});
  const lengthOf = async (model: string, headers: Record<string, string> = {}) =>
    tokensIn((await ask({ url, body: chatOf(model), headers })).events).length;
  assert.equal(await lengthOf("any"), 3);
  assert.equal(await lengthOf("any;tokens=5"), 5);
  assert.equal(await lengthOf("any;tokens=5", { "x-simulate": "tokens=7" }), 7);
});

test("a bad setting is a 400 that names it", async (t) => {
  const { url } = await startSimulator(t);
  const fromHeader = await ask({ url, body: chatOf("m"), headers: { "x-simulate": "tokens=-1" } });
  assert.equal(fromHeader.status, 400);
  assert.match(JSON.parse(fromHeader.text).error.message, /"tokens" must be an integer from 0/);
  const fromModel = await ask({ url, body: chatOf("m;speed=9") });
  assert.match(JSON.parse(fromModel.text).error.message, /no simulator setting "speed"/);
});

test("with a key configured, a request without it is a 401", async (t) => {
  const { url, openai } = await startSimulator(t, { key: "sk-right" });
  await openai.models.list();
  const wrong = await ask({ url, body: chatOf("m") });
  assert.deepEqual([wrong.status, JSON.parse(wrong.text).error.code], [401, "invalid_api_key"]);
  const none = await fetch(`${url}/v1/models`);
  assert.equal(none.status, 401);
  await none.body?.cancel();
});

test("models are listed, any model can be looked up, and the health check succeeds", async (t) => {
  const { url, openai } = await startSimulator(t);
  const { data } = await openai.models.list();
  assert.ok(data.some(({ id }) => id === "sim-text"));
  assert.equal((await openai.models.retrieve("vendor/model;tokens=4")).id, "vendor/model;tokens=4");
  assert.equal((await ask({ url, method: "GET", path: "/healthz" })).status, 200);
  assert.equal((await ask({ url, method: "GET", path: "/v1/nothing" })).status, 404);
  assert.equal((await ask({ url, method: "GET", path: "/%E0%A4%A" })).status, 404);
});

test("the journal has requests and outcomes without secrets", async (t) => {
  const { url } = await startSimulator(t);
  const body = JSON.stringify(chatOf("sim-text;tokens=4"));
  await ask({
    url,
    path: "/v1/chat/completions?key=abcdefgh",
    body,
    headers: { "x-api-key": "sk-secret-1234", "x-simulate-id": "mine", "x-other": "seen" },
  });
  await ask({ url, body: chatOf("another") });
  const read = async (query: string): Promise<Record<string, unknown>[]> =>
    JSON.parse((await ask({ url, method: "GET", path: `/_simulator/requests${query}` })).text);
  const entries = await read("?model=sim-text%3Btokens%3D4");
  assert.equal(entries.length, 1);
  const [entry] = entries;
  assert.deepEqual(
    { ...entry, at: 0, closedAt: 0, headers: undefined },
    {
      model: "sim-text;tokens=4",
      id: "mine",
      at: 0,
      method: "POST",
      path: "/v1/chat/completions?key=****efgh",
      headers: undefined,
      bodyBytes: body.length,
      bodySha256: createHash("sha256").update(body).digest("hex"),
      status: 200,
      outcome: "completed",
      closedAt: 0,
      chunksSent: 4,
    },
  );
  const headers = entry?.headers as Record<string, string>;
  assert.deepEqual(
    [headers.authorization, headers["x-api-key"], headers["x-other"]],
    ["Bearer ****0000", "****1234", "seen"],
  );
  assert.equal((await read("?id=mine")).length, 1);
  assert.equal((await read("")).length, 2);
  await ask({ url, method: "DELETE", path: "/_simulator/requests" });
  assert.equal((await read("")).length, 0);
});

test("the journal is bounded and drops the oldest entries", async (t) => {
  const { url, simulator } = await startSimulator(t);
  for (let turn = 0; turn < 1_010; turn++) await ask({ url, method: "GET", path: `/v1/models/m${turn}` });
  const entries = simulator.journal.list({});
  assert.deepEqual([entries.length, entries[0]?.model, entries.at(-1)?.model], [1_000, "m10", "m1009"]);
});

test("a caller that leaves is noticed at once: before the head, before the first token, in mid-stream", async (t) => {
  const { url, simulator } = await startSimulator(t);
  for (const model of ["m;head=60000", "m;first=60000", "m;tokens=100;rate=20"]) {
    const left = begin({ url, body: chatOf(model) });
    await until(() => simulator.journal.active() === 1);
    if (model.includes("rate")) await left.heard((text) => text.includes("content"));
    left.leave();
    await within(1_000, "the simulator notices", () => simulator.journal.active() === 0);
    const entry = await closedEntryOf(simulator, model);
    assert.equal(entry.outcome, "client-closed");
    assert.ok(entry.chunksSent < 100);
  }
});

test("an abort of the official client in mid-stream ends the answer", async (t) => {
  const { openai, simulator } = await startSimulator(t);
  const stream = await openai.chat.completions.create({
    model: "m;tokens=1000;rate=100",
    messages: [{ role: "user", content: "x" }],
    stream: true,
  });
  for await (const chunk of stream) if (chunk.choices[0]?.delta.content) break;
  assert.equal((await closedEntryOf(simulator, "m;tokens=1000;rate=100")).outcome, "client-closed");
});

test("a slow reader loses nothing", async (t) => {
  const { url } = await startSimulator(t);
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    body: JSON.stringify(chatOf("m;tokens=3000;size=2000")),
  });
  assert.ok(response.body);
  let bytes = 0;
  let tokens = 0;
  for await (const part of response.body.pipeThrough(new TextDecoderStream())) {
    bytes += part.length;
    tokens += part.split('"content":"').length - 1;
    if (tokens % 7 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  assert.ok(bytes > 6_000_000);
  assert.ok(tokens > 2_900);
});

test("answers on one connection keep their order, also when pipelined", async (t) => {
  const { url } = await startSimulator(t);
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  t.after(() => socket.destroy());
  const requestOf = (model: string) => {
    const body = JSON.stringify(chatOf(model));
    return `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
  };
  socket.write(
    requestOf("first;tokens=20;rate=200") + requestOf("second;tokens=5;rate=1000") + requestOf("third;tokens=5"),
  );
  let text = "";
  socket.setEncoding("utf8").on("data", (part) => (text += part));
  await until(() => text.split("[DONE]").length === 4);
  const places = ['"first;', '"second;', '"third;'].flatMap((name) => [text.indexOf(name), text.lastIndexOf(name)]);
  assert.deepEqual(
    places,
    places.toSorted((one, other) => one - other),
  );
  assert.equal(text.match(/"content":"[^"]/g)?.length, 30);
});

test("two hundred paced streams run at once, and each completes", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const heard = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      ask({ url, body: chatOf("m;tokens=20;rate=100", { user: String(index) }) }),
    ),
  );
  assert.ok(
    heard.every(
      ({ events, ended }) => ended === "clean" && tokensIn(events).length === 20 && events.at(-1) === "[DONE]",
    ),
  );
  await until(() => simulator.journal.active() === 0);
});

test("close waits for running answers up to its limit", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const running = ask({ url, body: chatOf("m;tokens=20;rate=100") });
  await until(() => simulator.journal.active() === 1);
  await simulator.close(10_000);
  assert.equal((await running).events.at(-1), "[DONE]");
  const { url: other, simulator: second } = await startSimulator(t);
  const stalled = ask({ url: other, body: chatOf("m;stall=1") });
  await until(() => second.journal.active() === 1);
  await second.close(20);
  assert.notEqual((await stalled).ended, "clean");
});

test("a port in use is the system's error", async (t) => {
  const { url } = await startSimulator(t);
  const { createSimulator } = await import("../../apps/simulator/server.ts");
  await assert.rejects(createSimulator({ port: Number(new URL(url).port) }).listen(), { code: "EADDRINUSE" });
});

test("the client waits for the Retry-After and then succeeds", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const openai = new OpenAI({ baseURL: `${url}/v1`, apiKey: "k", maxRetries: 2 });
  const answer = await openai.chat.completions.create({
    model: "m;fail-first=2;status=429;retry-after=0",
    messages: [{ role: "user", content: "x" }],
  });
  assert.equal(answer.choices.length, 1);
  assert.equal(simulator.journal.list({}).length, 3);
});

test("a connection that breaks in the middle of a request is not recorded", async (t) => {
  const { url, simulator } = await startSimulator(t);
  const socket = connect(Number(new URL(url).port), "127.0.0.1");
  socket.write("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{");
  await once(socket, "connect");
  socket.destroy();
  await ask({ url, body: chatOf("m") });
  assert.equal(simulator.journal.list({}).length, 1);
});
