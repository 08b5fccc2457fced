import assert from "node:assert/strict";
import { after, test } from "node:test";
import { ResponsesWebSocketSession } from "openai/lib/responses/responses-websocket-session";
import { WebSocketError } from "openai/resources/responses/internal-base";
import type { ResponseFunctionToolCall, ResponsesServerEvent } from "openai/resources/responses/responses";
import { ResponsesWS } from "openai/resources/responses/ws";
import { startGateway } from "../support/gateway.ts";
import { metricsOf } from "../support/metrics.ts";
import { until } from "../support/time.ts";
import { chunkedAnswer, startScriptedUpstream, streamAnswer, typedEvent } from "../support/upstream.ts";
import { Bare, type Frame, socketCatalogue } from "./socket-support.ts";
import { modelLine } from "./support.ts";

const paced = "sim-text;rate=100;tokens=5000;first=0";
const endless = "sim-text;rate=0;tokens=200000;size=256";
const breaking = "sim-text;rate=0;error=3";
const upstream = await startScriptedUpstream();
const gateway = await startGateway({
  catalogue: socketCatalogue(
    {
      sim: "sim-text;rate=0",
      warmed: "sim-text;rate=0;first=1",
      paced,
      endless,
      breaking,
      refusing: "sim-text;status=400",
      "chat-sim": "sim-text;rate=0",
    },
    `  scripted: { dialect: openai-responses, baseUrl: "${upstream.url}" }\n`,
    modelLine({ id: "scripted", model: "m", upstream: "scripted" }) +
      modelLine({ id: "reasoner", model: "sim-reasoning" }).replace(
        "retries: 0",
        "retries: 0, capabilities: [text, reasoning]",
      ),
  ),
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const openOfficial = () => {
  const socket = new ResponsesWS(gateway.client());
  const session = new ResponsesWebSocketSession(socket, {
    maxLanes: 4,
    maxBufferedEvents: 10_000,
    maxBufferedBytes: 64 << 20,
  });
  return {
    socket,
    session,
    opened: new Promise((resolve) => socket.socket.on("open", () => resolve(undefined))),
    [Symbol.dispose]: () => socket.close(),
  };
};
const open = () => Bare.open(gateway.url, gateway.key);
const metricsText = () => metricsOf(gateway.ingresses[0]);

test("the official client runs many turns over one connection, each with only the new items", async () => {
  using connection = openOfficial();
  const { socket } = connection;
  const seen: number[] = [];
  let previous: string | undefined;
  for (const input of ["Hello there.", "And again.", "A third time."]) {
    const ended = new Promise<ResponsesServerEvent.ResponseWsCompleted>((resolve) =>
      socket.once("response.completed", resolve),
    );
    const text: string[] = [];
    const collect = ({ delta }: { delta: string }) => void text.push(delta);
    socket.on("response.output_text.delta", collect);
    socket.send({
      type: "response.create",
      model: "sim",
      input,
      ...(previous !== undefined && { previous_response_id: previous }),
    });
    const { response } = await ended;
    socket.off("response.output_text.delta", collect);
    assert.equal(response.model, "sim");
    assert.ok(text.join("").startsWith(`You said: ${input}`), text.join(""));
    seen.push(response.usage?.input_tokens ?? 0);
    previous = response.id;
  }
  assert.ok(seen[0] && seen[1] && seen[2] && seen[0] < seen[1] && seen[1] < seen[2], `${seen}`);
});

test("a reasoning model's turns continue with default settings, from the connection's memory and with everything sent again", async () => {
  using connection = openOfficial();
  const { socket } = connection;
  const turn = (fields: object) => {
    const ended = new Promise<ResponsesServerEvent.ResponseWsCompleted["response"]>((resolve, reject) => {
      socket.once("response.completed", ({ response }) => resolve(response));
      socket.once("error", reject);
    });
    socket.send({ type: "response.create", model: "reasoner", ...fields } as never);
    return ended;
  };
  await connection.opened;
  const question = { role: "user" as const, content: "Hello there." };
  const first = await turn({ input: [question] });
  const [thought] = first.output;
  assert.ok(thought?.type === "reasoning" && thought.encrypted_content);
  const second = await turn({ input: "And again.", previous_response_id: first.id });
  assert.match(second.output_text ?? JSON.stringify(second.output), /You said: And again\./);
  const third = await turn({ input: [question, ...first.output, { role: "user", content: "A third time." }] });
  assert.match(third.output_text ?? JSON.stringify(third.output), /You said: A third time\./);
});

test("the client's lanes carry a tool's call and its result, with an upstream of either dialect", async () => {
  for (const model of ["sim", "chat-sim"]) {
    using connection = openOfficial();
    const lane = connection.session.lane("main.1");
    await connection.opened;
    const tools = [
      {
        type: "function" as const,
        name: "weather",
        strict: false,
        parameters: { type: "object", properties: { city: { type: "string" } } },
      },
    ];
    lane.create({ model, input: 'Call weather for "Utrecht".', tools });
    const first = await lane.finalResponse();
    const call = first.output.find((item): item is ResponseFunctionToolCall => item.type === "function_call");
    assert.equal(call?.name, "weather");
    lane.create({
      model,
      tools,
      previous_response_id: first.id,
      input: [{ type: "function_call_output", call_id: call.call_id, output: "rain" }],
    });
    const second = await lane.finalResponse();
    assert.match(second.output_text, /^The tool weather returned: rain/);
  }
});

const thought = { type: "reasoning", id: "rs_1", summary: [] };
const sealed = { type: "reasoning", id: "rs_2", summary: [], encrypted_content: "sealed" };
const message = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text: "Yes.", annotations: [] }],
};
const createdEvent = (id: string) =>
  typedEvent("response.created", { response: { id, status: "in_progress", model: "m", output: [] } });
const completedEvent = (id: string, output: object[]) =>
  typedEvent("response.completed", { response: { id, status: "completed", model: "m", output } });
/** Answers with these items, which only some upstreams repeat at the end. */
const answerWith = (id: string, items: object[], repeats: boolean) =>
  upstream.answerWith(
    streamAnswer(
      createdEvent(id) +
        items.map((item, index) => typedEvent("response.output_item.done", { output_index: index, item })).join("") +
        completedEvent(id, repeats ? items : []),
    ),
  );

test("an upstream gets the whole conversation byte for byte, except reasoning that it cannot resolve", async () => {
  using socket = await open();
  answerWith("resp_theirs", [thought, sealed, message], true);
  const first =
    '{"type":"response.create","model":"scripted","input":"Is it?","temperature":1.0,"unheard-of":12345678901234567890,"generate":true}';
  socket.send(first);
  let { response } = await socket.until("response.completed");
  assert.notEqual(response.id, "resp_theirs");
  assert.deepEqual([response.store, response.previous_response_id], [true, undefined]);
  assert.equal(
    upstream.last().body.toString(),
    '{"stream":true,"model":"m","input":"Is it?","temperature":1.0,"unheard-of":12345678901234567890,"store":false}',
  );
  for (const repeats of [true, false]) {
    answerWith("resp_theirs", [message], repeats);
    const before = response.id;
    socket.send(
      `{"previous_response_id":"${before}","model":"scripted","input":[ {"role":"user","content":"\\u0041 1.0"} ],"stream_id":"x","type":"response.create"}`,
    );
    const completed = await socket.until("response.completed");
    response = completed.response;
    assert.deepEqual([completed.stream_id, response.previous_response_id], ["x", before]);
  }
  const user = '{"type":"message","role":"user","content":"Is it?"}';
  const next = ' {"role":"user","content":"\\u0041 1.0"} ';
  const input = `[${user},${JSON.stringify(sealed)},${JSON.stringify(message)},${next},${JSON.stringify(message)},${next}]`;
  assert.equal(upstream.last().body.toString(), `{"model":"m","input":${input},"stream":true,"store":false}`);
  await socket.turn({ model: "scripted", input: "On.", previous_response_id: response.id });
  const { input: items } = upstream.last().json;
  assert.deepEqual([items.length, items.at(-2)], [8, message]);
});

test("a warm-up turn calls no upstream, and the next turn continues from it", async () => {
  using socket = await open();
  socket.create({
    model: "warmed",
    input: [{ role: "user", content: "Before." }],
    generate: false,
    store: false,
    instructions: "Be brief.",
  });
  const created = await socket.next();
  const completed = await socket.next();
  assert.deepEqual([created.type, created.response.status], ["response.created", "in_progress"]);
  assert.deepEqual(
    [completed.type, completed.response.status, completed.response.output],
    ["response.completed", "completed", []],
  );
  assert.deepEqual(await gateway.seen("sim-text;rate=0;first=1"), []);
  const warm = await socket.turn({ model: "warmed", input: "Now.", previous_response_id: completed.response.id });
  const cold = await socket.turn({ model: "warmed", input: "Now." });
  assert.ok((warm.response.usage?.input_tokens ?? 0) > (cold.response.usage?.input_tokens ?? 0));
  socket.create({ model: "warmed", input: [], generate: false });
  const { response } = await socket.until("response.completed");
  assert.equal(
    (await socket.turn({ model: "warmed", input: "Now.", previous_response_id: response.id })).type,
    "response.completed",
  );
});

test("a connection knows its own latest answer without storing it, and no other", async () => {
  using one = await open();
  using other = await open();
  const first = (await one.turn({ model: "sim", input: "One.", store: false })).response.id;
  const second = (await one.turn({ model: "sim", input: "Two.", store: false })).response.id;
  for (const [socket, id] of [
    [other, second],
    [one, first],
  ] as const) {
    const { status, error } = await socket.turn({ model: "sim", input: "Three.", previous_response_id: id });
    assert.deepEqual(
      [status, error?.type, error?.code, error?.param],
      [400, "invalid_request_error", "previous_response_not_found", "previous_response_id"],
    );
    assert.match(error?.message ?? "", /send the whole input/);
  }
  assert.equal(
    (await one.turn({ model: "sim", input: "Three.", previous_response_id: second })).type,
    "response.completed",
  );
});

test("a stored answer is known to every connection, and to POST requests", async () => {
  using one = await open();
  using other = await open();
  const first = await one.turn({ model: "sim", input: "One." });
  const second = await other.turn({ model: "sim", input: "Two.", previous_response_id: first.response.id });
  const item = { type: "item_reference", id: (second.response.output[0] as { type: string; id?: string }).id };
  const third = await one.turn({ model: "sim", input: [item, { role: "user", content: "Three." }] });
  assert.equal(third.type, "response.completed");
  const posted = await gateway
    .client()
    .responses.create({ model: "sim", input: "Four.", previous_response_id: second.response.id });
  const counts = [first.response, second.response, posted].map(({ usage }) => usage?.input_tokens ?? 0);
  assert.deepEqual(
    counts.toSorted((a, b) => a - b),
    counts,
  );
  assert.equal(new Set(counts).size, 3);
});

test("a caller that closes ends its upstream call, and leaves nothing behind", async () => {
  using connection = openOfficial();
  const { socket } = connection;
  socket.send({ type: "response.create", model: "paced", input: "x".repeat(1_000) });
  await new Promise((resolve) => socket.once("response.output_text.delta", resolve));
  socket.close();
  await until("the upstream was hung up on", async () => (await gateway.seen(paced))[0]?.outcome === "client-closed");
  await until("nothing is held", async () =>
    /state="running"\} 0\n[\s\S]*sluice_bodies_bytes 0\n/.test(await metricsText()),
  );
  await until("it is counted", async () =>
    /sluice_requests_total\{path="\/v1\/responses",status="499"\} 1\n/.test(await metricsText()),
  );
});

test("a second turn is refused while one is in progress, which continues", async () => {
  using socket = await open();
  const refused = Promise.withResolvers<void>();
  const delta = { item_id: "msg_1", output_index: 0, content_index: 0, delta: "Yes" };
  upstream.answerWith(
    chunkedAnswer(async function* () {
      yield createdEvent("resp_e") + typedEvent("response.output_text.delta", delta);
      await refused.promise;
      yield completedEvent("resp_e", [message]);
    }),
  );
  socket.create({ model: "scripted", input: "Hello." });
  await socket.until("response.output_text.delta");
  socket.create({ model: "sim", input: "Hello.", stream_id: "second" });
  const { status, error, stream_id } = await socket.until("error");
  assert.deepEqual([status, error?.code, stream_id], [400, "response_in_progress", "second"]);
  socket.send({ type: "response.steer", previous_response_id: "resp_x", input: "No, stop." });
  assert.deepEqual((await socket.until("response.steer.failed")).steer, {
    previous_response_id: "resp_x",
    input: "No, stop.",
  });
  refused.resolve();
  const { type, response } = await socket.until("response.completed", "response.incomplete", "error");
  assert.deepEqual([type, response.output.length], ["response.completed", 1]);
});

test("a failure is one frame with its status, before and after content, and does not affect the next turn", async () => {
  using connection = openOfficial();
  const lane = connection.session.lane();
  await connection.opened;
  for (const [model, status] of [
    ["refusing", 400],
    ["breaking", 502],
    ["breaking", 502],
    ["nowhere", 404],
  ] as const) {
    lane.create({ model, input: "Hello." });
    const error = await lane.finalResponse().catch((reason: unknown) => reason);
    assert.ok(error instanceof WebSocketError);
    const frame = error.error as Frame;
    assert.deepEqual([frame.type, frame.status], ["error", status], model);
    assert.match(frame.error?.headers["x-request-id"] ?? "", /^req_/);
  }
  lane.create({ model: "sim", input: "Hello." });
  assert.match((await lane.finalResponse()).output_text, /^You said: Hello/);
});

test("every invalid frame gets its own error, and the connection continues", async () => {
  using socket = await open();
  const create = (fields: object) => JSON.stringify({ type: "response.create", model: "sim", input: "x", ...fields });
  const bad: [string | Buffer, string | null, RegExp][] = [
    ["{", null, /not valid JSON/],
    ["[]", null, /JSON object/],
    [Buffer.from("{}"), null, /text frames/],
    ["{}", "type", /response\.create/],
    ['{"type":"response.cancel"}', "type", /response\.create/],
    ['{"type":"response.create","model":"sim"}', "input", /missing/],
    ['{"type":"response.create","model":"sim","input":"x"', null, /not valid JSON/],
    ['{"type":"response.create","model":"sim","input":[{]}', null, /not valid JSON/],
    [create({ stream_id: "a b" }), "stream_id", /form/],
    [create({ previous_response_id: 1 }), "previous_response_id", /string/],
    [create({ generate: "no" }), "generate", /boolean/],
    [create({ temperature: 3 }), "temperature", /must be/],
    [create({ generate: false, temperature: 3 }), "temperature", /must be/],
    [create({ conversation: "conv_1" }), null, /not found/],
    [create({ input: [{ type: "item_reference", id: "msg_unknown" }] }), "input", /not found/],
    [create({ metadata: JSON.parse(`${'{"a":'.repeat(300)}1${"}".repeat(300)}`) }), null, /nested/],
    [create({ model: "gpt-none" }), "model", /does not exist/],
    [create({ model: "gpt-none", generate: false }), "model", /does not exist/],
  ];
  for (const [text, param, message] of bad) {
    socket.socket.send(text);
    const { type, error } = await socket.next();
    assert.deepEqual([type, error?.param], ["error", param], String(text).slice(0, 100));
    assert.match(error?.message ?? "", message);
  }
  assert.equal(
    (await socket.turn({ model: "sim", input: "x", stream: false, background: false, previous_response_id: null }))
      .type,
    "response.completed",
  );
  await until("nothing is held", async () => /sluice_bodies_bytes 0\n/.test(await metricsText()));
});

test("a caller that does not read pauses its upstream, and gets the rest when it reads again", async () => {
  using socket = await open();
  socket.create({ model: "endless", input: "Hello." });
  await socket.until("response.output_text.delta");
  socket.socket.pause();
  const sent = async () => (await gateway.seen(endless))[0]?.chunksSent ?? 0;
  let before = -1;
  let alike = 0;
  await until("the upstream is no longer read", async () => {
    const now = await sent();
    alike = now === before ? alike + 1 : 0;
    before = now;
    return alike >= 20;
  });
  assert.ok(before < 150_000, `${before}`);
  socket.socket.resume();
  await until("the upstream is read again", async () => (await sent()) > before);
});
