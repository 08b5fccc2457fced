import assert from "node:assert/strict";
import { after, test } from "node:test";
import { connectRedis } from "#service/redis.ts";
import { startGateway } from "../support/gateway.ts";
import { partOf } from "../support/part-of.ts";
import { dataEvent, jsonAnswer, startScriptedUpstream, streamAnswer, typedEvent } from "../support/upstream.ts";
import { socketCatalogue } from "./socket-support.ts";
import { errorOf } from "./support.ts";

const upstream = await startScriptedUpstream();
const gateway = await startGateway({
  ingresses: 2,
  isDurable: true,
  catalogue: socketCatalogue(
    { sim: "sim-text;rate=0", "chat-sim": "sim-text;rate=0" },
    `  scripted: { dialect: openai-responses, baseUrl: "${upstream.url}" }\n`,
    `  - { id: scripted, retries: 0, capabilities: [text, reasoning], prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: scripted, model: m }] }
  - { id: other, retries: 0, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: scripted, model: n }] }
`,
  ).replace("  narrow:", '  private: { models: ["*"], storesResponses: false }\n  narrow:'),
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const client = gateway.client();
/** The same key at the other ingress. */
const elsewhere = gateway.client({ url: gateway.ingresses[1]?.urls.api as string });

/** A complete answer of the scripted upstream; returns the bodies that it got. */
function scripted(output: object[]): { bodies: { input: Record<string, unknown>[] }[] } {
  const bodies: { input: Record<string, unknown>[] }[] = [];
  upstream.answerWith((response, { json }) => {
    bodies.push(json);
    jsonAnswer(responseOf(`resp_upstream${bodies.length}`, output))(response);
  });
  return { bodies };
}

const message = (id: string, text: string) => ({
  id,
  type: "message",
  role: "assistant",
  status: "completed",
  content: [{ type: "output_text", text, annotations: [] }],
});

for (const model of ["sim", "chat-sim"])
  test(`${model}: a conversation goes on by previous_response_id, at any ingress, streamed or not`, async () => {
    const first = await client.responses.create({ model, input: "My name is Ada." });
    const tokens = [first.usage?.input_tokens ?? 0];
    const second = await elsewhere.responses.create({
      model,
      input: "And yours?",
      previous_response_id: first.id,
      stream: true,
    });
    let secondId = "";
    for await (const event of second)
      if (event.type === "response.completed") {
        secondId = event.response.id;
        tokens.push(event.response.usage?.input_tokens ?? 0);
        break;
      }
    const third = await client.responses.create({ model, input: "Goodbye.", previous_response_id: secondId });
    tokens.push(third.usage?.input_tokens ?? 0);
    assert.ok(
      tokens.every((count, turn) => turn === 0 || count > (tokens[turn - 1] as number)),
      String(tokens),
    );

    const read = await elsewhere.responses.retrieve(third.id);
    assert.equal(read.previous_response_id, secondId);
    assert.deepEqual(read.output, third.output);
    const items = await elsewhere.responses.inputItems.list(third.id);
    assert.deepEqual(
      items.data.map((item) => (item as { content: unknown }).content),
      [[{ type: "input_text", text: "Goodbye." }]],
    );
    assert.match(String(items.data[0]?.id), /^msg_/);
  });

test("an input of null is none beside a reference, where it is created, counted and compacted", async () => {
  const { id } = await client.responses.create({ model: "sim", input: "My name is Ada." });
  const reference = { model: "sim", input: null, previous_response_id: id };
  const { output } = await client.responses.create(reference as never);
  assert.match(JSON.stringify(output), /My name is Ada/);
  const count = await client.responses.inputTokens.count(reference);
  assert.equal(
    count.input_tokens,
    (await client.responses.inputTokens.count({ ...reference, input: [] })).input_tokens,
  );
  assert.ok((await client.responses.compact(reference)).output.length > 0);
});

test("the upstream gets the whole conversation, with calls once and reasoning for the same model alone", async () => {
  const thought = { id: "rs_1", type: "reasoning", summary: [], encrypted_content: "secret" };
  const call = {
    id: "fc_1",
    type: "function_call",
    call_id: "call_1",
    name: "add",
    arguments: "{}",
    status: "completed",
  };
  const { bodies } = scripted([thought, call]);
  const first = await client.responses.create({ model: "scripted", input: "Add." });
  const { id: _, status: _status, ...replayed } = call;
  const result = { type: "function_call_output" as const, call_id: "call_1", output: "3" };
  const again = { input: [replayed, result] as never, previous_response_id: first.id };
  await client.responses.create({ model: "scripted", ...again });
  await client.responses.create({ model: "other", ...again });
  const question = { type: "message", role: "user", content: "Add." };
  assert.deepEqual(bodies[1]?.input, [question, thought, call, result]);
  assert.deepEqual(bodies[2]?.input, [question, call, result]);
  assert.ok(bodies.every((body) => !("previous_response_id" in body)));
});

test("a stream whose events have no names, and whose end repeats no items, is stored with its items", async () => {
  const item = message("msg_nameless", "Hello.");
  const response = {
    id: "resp_nameless",
    object: "response",
    created_at: 1,
    status: "completed",
    model: "m",
    output: [],
  };
  upstream.answerWith(
    streamAnswer(
      [
        { type: "response.created", response: { ...response, status: "in_progress" } },
        { type: "response.output_item.added", output_index: 0, item: { ...item, content: [] } },
        { type: "response.output_text.delta", output_index: 0, item_id: item.id, content_index: 0, delta: "Hello." },
        { type: "response.output_item.done", output_index: 0, item },
        {
          type: "response.completed",
          response: { ...response, usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 } },
        },
      ]
        .map(dataEvent)
        .join(""),
    ),
  );
  const stream = await client.responses.create({ model: "scripted", input: "Hi.", stream: true });
  let id = "";
  for await (const event of stream) if (event.type === "response.completed") id = event.response.id;
  assert.deepEqual((await client.responses.retrieve(id)).output, [item]);
});

test("references to items are replaced by the items", async () => {
  const { bodies } = scripted([message("msg_known", "Hello.")]);
  await client.responses.create({ model: "scripted", input: "Hi." });
  const question = { role: "user" as const, content: "Again." };
  const input = [{ type: "item_reference" as const, id: "msg_known" }, { id: "msg_known" }, question];
  await elsewhere.responses.create({ model: "scripted", input: input as [] });
  const stored = message("msg_known", "Hello.");
  assert.deepEqual(bodies[1]?.input, [stored, stored, question]);
});

test("what is not stored is refused as OpenAI refuses it", async () => {
  const previous = await errorOf(
    client.responses.create({ model: "sim", input: "Hi", previous_response_id: "resp_x" }),
  );
  assert.deepEqual(
    [previous.status, previous.code, previous.param],
    [400, "previous_response_not_found", "previous_response_id"],
  );
  assert.match(previous.message, /Previous response with id 'resp_x' not found\..*send the whole input/);
  const input = [{ type: "item_reference" as const, id: "msg_x" }];
  const item = await errorOf(client.responses.create({ model: "sim", input }));
  assert.deepEqual([item.status, item.param], [404, "input"]);
  assert.match(
    item.message,
    /^404 Item with id 'msg_x' not found\. Items are not persisted when `store` is set to false\./,
  );
  for (const call of ["retrieve", "delete", "cancel"] as const)
    assert.equal((await errorOf(client.responses[call]("resp_x"))).status, 404);
  assert.equal((await errorOf(client.conversations.retrieve("conv_x"))).status, 404);
  const unstored = await client.responses.create({ model: "sim", input: "Hi", store: false });
  assert.equal((await errorOf(client.responses.retrieve(unstored.id))).status, 404);
  const both = { previous_response_id: "resp_x", conversation: "conv_x" };
  assert.equal((await errorOf(client.responses.create({ model: "sim", input: "Hi", ...both }))).status, 400);
  assert.match((await errorOf(client.responses.create({ model: "sim" }))).message, /input/);
});

test("a deleted response is gone", async () => {
  const { id } = await client.responses.create({ model: "sim", input: "Hi" });
  await elsewhere.responses.delete(id);
  assert.equal((await errorOf(client.responses.retrieve(id))).status, 404);
  const next = errorOf(client.responses.create({ model: "sim", input: "Hi", previous_response_id: id }));
  assert.equal((await next).code, "previous_response_not_found");
});

test("another key reads nothing of it, and Redis holds nothing readable", async () => {
  const { id } = await client.responses.create({ model: "sim", input: "The word is Xylophonist." });
  const stranger = gateway.client({ key: await gateway.createKey("default") });
  assert.equal((await errorOf(stranger.responses.retrieve(id))).status, 404);
  assert.equal(
    (await errorOf(stranger.responses.create({ model: "sim", input: "Hi", previous_response_id: id }))).status,
    400,
  );
  const redis = await connectRedis(gateway.redis.url, "patient");
  try {
    const names = await redis.keys("*stored*");
    assert.ok(names.some((name) => name.includes(id)));
    for (const name of names.filter((one) => one.includes(":entry:")))
      assert.ok(!(await redis.hgetBuffer(name, "value"))?.includes("Xylophonist"));
  } finally {
    redis.disconnect();
  }
});

test("a group may store nothing", async () => {
  const guarded = gateway.client({ key: await gateway.createKey("private") });
  const { id } = await guarded.responses.create({ model: "sim", input: "Hi" });
  assert.equal((await errorOf(guarded.responses.retrieve(id))).status, 404);
  const next = await errorOf(guarded.responses.create({ model: "sim", input: "Hi", previous_response_id: id }));
  assert.match(next.message, /stores no responses and conversations for this key/);
});

test("conversations keep items and grow with each response", async () => {
  const seed = [{ type: "message" as const, role: "user" as const, content: "My name is Ada." }];
  const conversation = await client.conversations.create({ items: seed, metadata: { topic: "names" } });
  assert.deepEqual(conversation.metadata, { topic: "names" });
  const { bodies } = scripted([message("msg_c", "Nice to meet you.")]);
  await client.responses.create({ model: "scripted", input: "Hello.", conversation: conversation.id });
  await elsewhere.responses.create({ model: "scripted", input: "Bye.", conversation: { id: conversation.id } });
  assert.deepEqual(
    bodies[1]?.input.map(({ content }) => content),
    ["My name is Ada.", "Hello.", message("", "Nice to meet you.").content, "Bye."],
  );
  assert.ok(bodies[1]?.input.every(({ id }) => id === undefined || id === "msg_c"));
  const listed = [];
  for await (const item of client.conversations.items.list(conversation.id, { order: "asc", limit: 2 }))
    listed.push(item);
  assert.equal(listed.length, 5);
  const [first] = listed;
  assert.ok(first?.id);
  assert.deepEqual(await client.conversations.items.retrieve(first.id, { conversation_id: conversation.id }), first);
  await client.conversations.items.delete(first.id, { conversation_id: conversation.id });
  assert.equal((await client.conversations.items.list(conversation.id)).data.length, 4);
  await client.conversations.update(conversation.id, { metadata: { topic: "greetings" } });
  assert.deepEqual((await elsewhere.conversations.retrieve(conversation.id)).metadata, { topic: "greetings" });
  assert.equal((await client.conversations.delete(conversation.id)).deleted, true);
  assert.equal((await errorOf(client.conversations.retrieve(conversation.id))).status, 404);
});

test("results that a client repeats in a conversation reach the upstream once", async () => {
  const { id } = await client.conversations.create({ items: [] });
  const callOf = (callId: string) => ({
    type: "function_call",
    call_id: callId,
    name: "add",
    arguments: "{}",
    status: "completed",
  });
  const resultOf = (callId: string) => ({ type: "function_call_output", call_id: callId, output: "3" });
  const question = { type: "message", role: "user", content: "Add." };
  const ask = async (output: object[], input: object[]) => {
    const { bodies } = scripted(output);
    await client.responses.create({ model: "scripted", conversation: id, input: input as never });
    return bodies[0]?.input.map(({ id: _, ...item }) => item);
  };
  await ask([{ id: "fc_1", ...callOf("call_1") }], [question]);
  await ask([{ id: "fc_2", ...callOf("call_2") }], [question, resultOf("call_1")]);
  // An upstream may use an id again: the second call has no result yet.
  const third = await ask([{ id: "fc_3", ...callOf("call_1") }], [question, resultOf("call_1"), resultOf("call_2")]);
  const before = [question, callOf("call_1"), question, resultOf("call_1"), callOf("call_2")];
  assert.deepEqual(third, [...before, question, resultOf("call_2")]);
  const fourth = await ask([message("msg_4", "Done.")], [resultOf("call_1")]);
  assert.deepEqual(fourth?.at(-1), resultOf("call_1"));
  const results = fourth?.filter(({ type }) => type === "function_call_output");
  assert.deepEqual(results, [resultOf("call_1"), resultOf("call_2"), resultOf("call_1")]);
});

test("texts of messages are listed as parts, as OpenAI lists them", async () => {
  const message = { role: "assistant" as const, content: "Hello." };
  const input = [{ role: "user" as const, content: "Hi." }, message];
  const ofUser = { type: "message", role: "user", status: "completed", content: [{ type: "input_text", text: "Hi." }] };
  const content = [{ type: "output_text", text: "Hello.", annotations: [], logprobs: [] }];
  const ofModel = { type: "message", role: "assistant", status: "completed", content };
  const bare = ({ data }: { data: object[] }) => data.map((item) => ({ ...item, id: undefined }));
  const expected = [ofUser, ofModel].map((item) => ({ ...item, id: undefined }));
  const response = await client.responses.create({ model: "sim", input: [...input, input[0]!] });
  const items = await client.responses.inputItems.list(response.id, { order: "asc", limit: 2 });
  assert.deepEqual(bare(items), expected);
  const { id } = await client.conversations.create({ items: input });
  const listed = await client.conversations.items.list(id, { order: "asc" });
  assert.deepEqual(bare(listed), expected);
  assert.deepEqual(bare(await client.conversations.items.create(id, { items: input })), expected);
  const [first] = listed.data;
  assert.deepEqual(
    await client.conversations.items.retrieve(first?.id as string, { conversation_id: id }),
    first as object,
  );
  const compacted = await client.responses.compact({ model: "sim", input });
  assert.deepEqual(bare({ data: compacted.output.slice(0, 1) }), expected.slice(0, 1));
});

test("many requests add to one conversation at the same time, and none is lost", async () => {
  const { id } = await client.conversations.create({ items: [] });
  const add = (place: number) =>
    (place % 2 === 0 ? client : elsewhere).conversations.items.create(id, {
      items: [{ type: "message", role: "user", content: `item ${place}` }],
    });
  await Promise.all(Array.from({ length: 8 }, (_, place) => add(place)));
  const { data } = await client.conversations.items.list(id, { limit: 100 });
  assert.equal(new Set(data.map((item) => JSON.stringify((item as { content: unknown }).content))).size, 8);
});

for (const model of ["sim", "chat-sim"])
  test(`${model}: a conversation is compacted to one item, from which any model goes on`, async () => {
    const history = { role: "user" as const, content: "The word is Xylophonist." };
    const trigger = { type: "compaction_trigger" } as never;
    const stream = await client.responses.create({ model, input: [history, trigger], stream: true, store: false });
    const done: { type: string; encrypted_content: string }[] = [];
    const types: string[] = [];
    for await (const event of stream) {
      types.push(event.type);
      if (event.type === "response.output_item.done") done.push(event.item as (typeof done)[0]);
    }
    assert.deepEqual([types[0], types.at(-1)], ["response.created", "response.completed"]);
    const [item] = done;
    assert.ok(done.length === 1 && item?.type === "compaction");
    assert.ok(!Buffer.from(item.encrypted_content).toString().includes("Xylophonist"));
    const question = { role: "user" as const, content: "Which?" };
    const { bodies } = scripted([message("msg_1", "Xylophonist.")]);
    await elsewhere.responses.create({ model: "scripted", input: [item as never, question] });
    const [summary] = bodies[0]?.input ?? [];
    assert.equal(summary?.role, "user");
    assert.match(JSON.stringify(summary?.content), /Summary of the conversation so far.*You said: /);
    const stranger = gateway.client({ key: await gateway.createKey("default") });
    const foreign = await errorOf(stranger.responses.create({ model, input: [item as never] }));
    assert.match(foreign.message, /another API key/);
  });

test("a stored conversation is compacted by its id, and goes on from there", async () => {
  const first = await client.responses.create({ model: "sim", input: "The word is Xylophonist." });
  const compacted = await elsewhere.responses.compact({ model: "chat-sim", previous_response_id: first.id });
  assert.equal(compacted.object, "response.compaction");
  assert.deepEqual(
    compacted.output.map(({ type }) => type),
    ["message", "compaction"],
  );
  assert.ok(compacted.usage.total_tokens > 0);
  const question = { role: "user" as const, content: "Which?" };
  const next = await client.responses.create({ model: "sim", input: [...compacted.output, question] as never });
  assert.equal(next.status, "completed");
});

test("a response that is a compaction item stands for the responses before it", async () => {
  const { bodies } = scripted([message("msg_1", "A summary.")]);
  const first = await client.responses.create({ model: "scripted", input: "One." });
  const trigger = { type: "compaction_trigger" } as never;
  const second = await client.responses.create({
    model: "scripted",
    input: [trigger],
    previous_response_id: first.id,
    tools: [{ type: "function", name: "f", parameters: null, strict: false }],
    text: { verbosity: "low" },
  });
  const secondBody = bodies[1] as Record<string, unknown>;
  assert.deepEqual([secondBody.tool_choice, secondBody.text], ["none", undefined]);
  await client.responses.create({ model: "scripted", input: "Two.", previous_response_id: second.id });
  assert.equal(bodies[2]?.input.length, 2);
  assert.match(JSON.stringify(bodies[2]?.input[0]?.content), /A summary\."\}\]$/);
  assert.equal(bodies[2]?.input[1]?.content, "Two.");
});

test("requests for what is stored are checked like all others", async () => {
  const { id } = await client.responses.create({ model: "sim", input: "Hi" });
  const { id: conversation } = await client.conversations.create({ items: [] });
  const ask = async (method: string, path: string, body?: string) => {
    const response = await fetch(`${gateway.url}/v1${path}`, {
      method,
      headers: {
        authorization: `Bearer ${gateway.key}`,
        ...(body !== undefined && { "content-type": "application/json" }),
      },
      ...(body !== undefined && { body }),
    });
    const text = await response.text();
    return {
      status: response.status,
      error: (JSON.parse(text) as { error?: { message: string; param: string | null } }).error,
    };
  };
  const message = { type: "message", role: "user", content: "Hi" };
  const cases: [string, string, string | undefined, number, RegExp][] = [
    ["GET", `/responses/${id}/input_items?limit=0`, undefined, 400, /limit/],
    ["GET", `/responses/${id}/input_items?limit=many`, undefined, 400, /limit/],
    ["GET", `/responses/${id}/input_items?order=up`, undefined, 400, /order/],
    ["GET", `/responses/${id}/input_items?after=msg_none`, undefined, 400, /after/],
    ["GET", `/responses/${id}?stream=true&starting_after=-1`, undefined, 400, /starting_after/],
    ["GET", "/responses/%2e%2e%2fkeys", undefined, 404, /not found/],
    ["GET", `/responses/${conversation}`, undefined, 404, /not found/],
    ["GET", `/responses/:log:${id}`, undefined, 404, /not found/],
    ["DELETE", `/responses/:log:${id}`, undefined, 404, /not found/],
    ["POST", `/responses/:log:${id}/cancel`, undefined, 404, /not found/],
    ["DELETE", `/conversations/${id}`, undefined, 404, /not found/],
    ["GET", `/conversations/${id}/items`, undefined, 404, /not found/],
    ["POST", "/conversations", "[]", 400, /object/],
    ["POST", "/conversations", "{", 400, /valid JSON/],
    ["POST", "/conversations", JSON.stringify({ items: Array(21).fill(message) }), 400, /items/],
    ["POST", "/conversations", JSON.stringify({ items: [{ role: "user" }] }), 400, /content/],
    ["POST", "/conversations", JSON.stringify({ metadata: { a: 1 } }), 400, /metadata/],
    ["POST", `/conversations/${conversation}`, JSON.stringify({ metadata: "x" }), 400, /metadata/],
    ["POST", `/conversations/${conversation}`, "{}", 400, /'metadata' is missing/],
    ["POST", `/conversations/${conversation}/items`, "{}", 400, /items/],
    ["GET", `/conversations/${conversation}/items/msg_none`, undefined, 404, /not found/],
    ["DELETE", `/conversations/${conversation}/items/msg_none`, undefined, 404, /not found/],
    ["PUT", `/responses/${id}`, "{}", 405, /not allowed/],
    ["GET", `/responses/${"a".repeat(600)}`, undefined, 404, /./],
    ["DELETE", `/conversations/${"a".repeat(600)}`, undefined, 404, /./],
  ];
  for (const [method, path, body, status, words] of cases) {
    const answer = await ask(method, path, body);
    assert.equal(answer.status, status, `${method} ${path}: ${JSON.stringify(answer.error)}`);
    assert.match(`${answer.error?.message} ${answer.error?.param}`, words, `${method} ${path}`);
  }
});

/**
 * The scripted upstream answers with this response, whole or as the three events that have it, as
 * the request asks.
 */
function scriptedResponse(response: Record<string, unknown>): void {
  const progress = { response: { ...response, status: "in_progress", output: [] } };
  const stream = streamAnswer(
    typedEvent("response.created", progress) +
      typedEvent("response.in_progress", progress) +
      typedEvent("response.completed", { response }),
  );
  upstream.answerWith((answer, { json }) => (json.stream === true ? stream : jsonAnswer(response))(answer));
}

const responseOf = (id: string, output: object[], more: object = {}) => ({
  id,
  object: "response",
  created_at: 1,
  status: "completed",
  model: "m",
  output,
  usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  ...more,
});

test("an upstream that repeats the id of a response replaces nothing, and callers do not see its id", async () => {
  const ask = async (text: string, stream: boolean) => {
    scriptedResponse(responseOf("resp_theirs", [message("msg_theirs", text)]));
    if (!stream) return client.responses.create({ model: "scripted", input: "Hi." });
    const events = await client.responses.create({ model: "scripted", input: "Hi.", stream: true });
    for await (const event of events) if (event.type === "response.completed") return event.response;
    return assert.fail("no end");
  };
  const [first, second] = [await ask("One.", false), await ask("Two.", true)];
  const ids = [first.id, second.id];
  assert.equal(new Set([...ids, "resp_theirs"]).size, 3);
  for (const id of ids) assert.match(id, /^resp_[0-9a-z]+$/);
  for (const { id, output } of [first, second]) assert.deepEqual((await client.responses.retrieve(id)).output, output);
  assert.equal((await errorOf(client.responses.retrieve("resp_theirs"))).status, 404);
});

/** A response's fields about its storage. */
const storageOf = (response: object) => {
  const { id, store, previous_response_id, conversation } = response as Record<string, unknown>;
  return { id, store, previous_response_id, conversation };
};

/** A complete answer, and what each event with a response says. */
async function eventsOf(body: object, stream: boolean, as = client): Promise<Record<string, unknown>[]> {
  const request = partOf<{ model: string; input: string }>({ input: "Hi.", ...body });
  if (!stream) return [{ ...(await as.responses.create(request)) }];
  const events: Record<string, unknown>[] = [];
  for await (const event of await as.responses.create({ ...request, stream: true }))
    if ("response" in event) events.push({ ...(event.response as object) });
  assert.equal(events.length, 3);
  return events;
}

for (const model of ["sim", "chat-sim", "scripted"])
  for (const stream of [false, true])
    test(`${model}, ${stream ? "streamed" : "whole"}: an answer says what was asked, as its stored copy does`, async () => {
      const theirs = { store: false, previous_response_id: null };
      scriptedResponse(responseOf("resp_1", [message("msg_1", "Hello.")], theirs));
      const { id: conversation } = await client.conversations.create({ items: [] });
      const [first] = await eventsOf({ model }, false);
      const cases = [
        [{}, { store: true, previous_response_id: null }],
        [{ previous_response_id: first?.id }, { store: true, previous_response_id: first?.id }],
        [{ conversation }, { store: true, previous_response_id: null, conversation: { id: conversation } }],
        [
          { store: false, previous_response_id: first?.id },
          { store: false, previous_response_id: first?.id },
        ],
      ] as const;
      for (const [body, expected] of cases) {
        const shown = await eventsOf({ model, ...body }, stream);
        for (const response of shown) {
          const { id: _, conversation, ...rest } = storageOf(response);
          assert.deepEqual({ ...rest, ...(conversation ? { conversation } : {}) }, expected);
        }
        assert.equal(new Set(shown.map(({ id }) => id)).size, 1);
        const last = shown.at(-1) as { id: string };
        if (expected.store) assert.deepEqual(storageOf(await client.responses.retrieve(last.id)), storageOf(last));
      }
      const guarded = gateway.client({ key: await gateway.createKey("private") });
      for (const response of await eventsOf({ model }, stream, guarded)) assert.equal(response.store, false);
    });

test("a conversation that was compacted goes on from the compaction item", async () => {
  const { id: conversation } = await client.conversations.create({ items: [] });
  const { bodies } = scripted([message("msg_1", "A summary.")]);
  const trigger = [{ type: "compaction_trigger" }] as never;
  await client.responses.create({ model: "scripted", input: "One.", conversation });
  await client.responses.create({ model: "scripted", input: trigger, conversation });
  await client.responses.create({ model: "scripted", input: "Two.", conversation });
  assert.match(JSON.stringify(bodies[2]?.input[0]?.content), /A summary\."\}\]$/);
  assert.deepEqual(
    bodies[2]?.input.slice(1).map(({ content }) => content),
    ["Two."],
  );
});

test("an upstream that repeats the id of an item hides nothing in a conversation", async () => {
  const { id } = await client.conversations.create({ items: [] });
  for (const text of ["One.", "Two."]) {
    scripted([message("msg_same", text)]);
    await client.responses.create({ model: "scripted", input: "Hi.", conversation: id });
  }
  const ids: string[] = [];
  for await (const { id: one } of client.conversations.items.list(id, { limit: 1 })) {
    assert.ok(ids.length < 4, "the pages have no end");
    ids.push(String(one));
  }
  assert.equal(new Set(ids).size, 4);
  const texts = await Promise.all(
    ids.map(async (one) => JSON.stringify(await client.conversations.items.retrieve(one, { conversation_id: id }))),
  );
  assert.deepEqual(
    texts.map((text) => /One\.|Two\.|Hi\./.exec(text)?.[0]),
    ["Two.", "Hi.", "One.", "Hi."],
  );
  const { bodies } = scripted([message("msg_same", "Three.")]);
  await client.responses.create({ model: "scripted", input: "Hi.", conversation: id });
  const itemIds = bodies[0]?.input.flatMap(({ id: one }) => (one === undefined ? [] : [one]));
  assert.deepEqual(itemIds, ["msg_same"]);
});

test("items that no request could send are not added to a conversation", async () => {
  const { id } = await client.conversations.create({ items: [] });
  const message = { role: "user", content: "Hi." };
  const wrong: [object[], string, RegExp][] = [
    [[message, { type: "mystery" }], "items[1].type", /items\[1\]\.type.*"function_call"/],
    [[{ type: "item_reference", id: "msg_1" }], "items[0].type", /items\[0\]\.type/],
    [[{ type: "compaction_trigger" }], "items[0].type", /items\[0\]\.type/],
    [[{ id: "msg_1" }], "items[0].role", /items\[0\]\.role/],
    [
      [{ ...message, id: "msg_1" }, message, { ...message, id: "msg_1" }],
      "items[2].id",
      /Duplicate item found with id msg_1\./,
    ],
  ];
  for (const [items, param, words] of wrong)
    for (const call of [
      client.conversations.create({ items: items as [] }),
      client.conversations.items.create(id, { items: items as [] }),
    ]) {
      const error = await errorOf(call);
      assert.deepEqual([error.status, error.param], [400, param], error.message);
      assert.match(error.message, words);
    }
  assert.deepEqual((await client.conversations.items.list(id)).data, []);
});

test("requests that read or change what is stored wait while Redis is away", async () => {
  const { id } = await client.responses.create({ model: "sim", input: "Hello." });
  const conversation = await client.conversations.create();
  const items = [{ type: "message" as const, role: "user" as const, content: "Hello." }];
  await gateway.redis.kill();
  const waiting = Promise.all([
    client.responses.retrieve(id),
    client.responses.create({ model: "sim", input: "And now?", previous_response_id: id }),
    client.responses.create({ model: "sim", input: "Hello.", background: true }),
    client.conversations.create(),
    client.conversations.items.create(conversation.id, { items }),
    client.get<{ object: string }>("/usage"),
  ]);
  await gateway.redis.restart();
  const [first, continued, , , , usage] = await waiting;
  assert.deepEqual([first.id, continued.previous_response_id, usage.object], [id, id, "usage"]);
  assert.equal((await client.conversations.items.list(conversation.id)).data.length, 1);
});

test("a model that can't read a vendor's compaction item gets the responses that it stands for", async () => {
  const compaction = { id: "cmp_1", type: "compaction", encrypted_content: "sealed by a vendor" };
  const { bodies } = scripted([message("msg_1", "Noted."), compaction]);
  const first = await client.responses.create({ model: "scripted", input: "My name is Ada." });
  const textsFor = async (model: string) => {
    await client.responses.create({ model, previous_response_id: first.id, input: "What is it?" });
    return JSON.stringify(bodies.at(-1)?.input);
  };
  assert.doesNotMatch(await textsFor("scripted"), /Ada/);
  assert.match(await textsFor("other"), /Ada/);
});
