import assert from "node:assert/strict";
import { after, test } from "node:test";
import OpenAI from "openai";
import { makeParseableResponseFormat } from "openai/lib/parser";
import { catalogueOf, startGateway } from "../support/gateway.ts";
import { brokenTextOf } from "../support/stream.ts";
import { until } from "../support/time.ts";
import {
  bodyAnswer,
  chatChunk,
  chatCompletion,
  chatEnd,
  chunkedAnswer,
  dataEvent,
  jsonAnswer,
  startScriptedUpstream,
  streamAnswer,
} from "../support/upstream.ts";
import { modelLine } from "./support.ts";

type Message = OpenAI.Chat.ChatCompletionMessageParam;
type Chunk = OpenAI.Chat.ChatCompletionChunk;

const fast = "sim-text;rate=0;first=0";
/** For answers that wait until a test has seen what it waits for. */
const upstream = await startScriptedUpstream();
const simulated = catalogueOf(
  [
    { id: "sim", model: fast },
    { id: "maker/thinks:1", model: "sim-reasoning;rate=0;first=0" },
    { id: "large", model: "sim-text;rate=0;tokens=80;size=65536" },
  ],
  `  scripted: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }\n`,
);
const gateway = await startGateway({
  catalogue: `${simulated}${modelLine({ id: "late", model: "scripted", upstream: "scripted" })}`,
  environment: { KEEP_ALIVE_MS: "200", ATTACHMENT_NETWORKS: "127.0.0.0/8" },
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});
const client = gateway.client();

const hello: Message[] = [{ role: "user", content: "Hello, how are you?" }];
const answer = "You said: Hello, how are you?\nThis is the simulator: the same words always get the same answer.";
const textOf = (chunks: Chunk[], index = 0) =>
  chunks
    .flatMap(({ choices }) =>
      choices.filter((choice) => choice.index === index).map(({ delta }) => delta.content ?? ""),
    )
    .join("");

async function chunksOf(stream: AsyncIterable<Chunk>): Promise<Chunk[]> {
  const chunks: Chunk[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return chunks;
}

test("a whole answer has a request id and the catalogue's name of the model", async () => {
  const completion = await client.chat.completions.create({ model: "sim", messages: hello });
  assert.equal(completion.object, "chat.completion");
  assert.equal(completion.choices[0]?.message.content, answer);
  assert.equal(completion.choices[0]?.finish_reason, "stop");
  assert.equal(completion.model, "sim");
  assert.match(completion._request_id ?? "", /^req_[0-9a-z]+$/);
  assert.ok((completion.usage?.completion_tokens ?? 0) > 0);
});

test("a stream has the same text, the catalogue's name in every chunk, and no usage unless requested", async () => {
  const chunks = await chunksOf(await client.chat.completions.create({ model: "sim", messages: hello, stream: true }));
  assert.equal(textOf(chunks), answer);
  assert.ok(chunks.every(({ model, usage, choices }) => model === "sim" && !usage && choices.length === 1));
  assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, "stop");
});

test("a stream with requested usage ends with it, and it equals the whole answer's", async () => {
  const whole = await client.chat.completions.create({ model: "sim", messages: hello });
  const chunks = await chunksOf(
    await client.chat.completions.create({
      model: "sim",
      messages: hello,
      stream: true,
      stream_options: { include_usage: true },
    }),
  );
  assert.deepEqual(chunks.at(-1)?.choices, []);
  assert.deepEqual(chunks.at(-1)?.usage, whole.usage);
  assert.equal(chunks.filter(({ usage }) => usage).length, 1);
});

test("the client's stream helper accumulates the answer and its usage", async () => {
  const stream = client.chat.completions.stream({
    model: "sim",
    messages: hello,
    stream_options: { include_usage: true },
  });
  const deltas: string[] = [];
  stream.on("content", (delta) => deltas.push(delta));
  const completion = await stream.finalChatCompletion();
  assert.equal(completion.choices[0]?.message.content, answer);
  assert.equal(deltas.join(""), answer);
  assert.ok(deltas.length > 3);
  assert.ok((completion.usage?.total_tokens ?? 0) > 0);
});

const toolOf = (name: string): OpenAI.Chat.ChatCompletionFunctionTool => ({
  type: "function",
  function: {
    name,
    description: name,
    strict: true,
    parameters: {
      type: "object",
      properties: { city: { type: "string" } },
      required: ["city"],
      additionalProperties: false,
    },
  },
});
const tools = [toolOf("get_weather"), toolOf("get_time")];
const question: Message[] = [{ role: "user", content: 'Call get_weather for "Oslo" and get_time for "Rome".' }];

/**
 * The last turn of a loop of tool calls: answers each call, and checks that the results reached the
 * model.
 */
async function finishLoop(message: OpenAI.Chat.ChatCompletionMessage): Promise<void> {
  const calls = message.tool_calls ?? [];
  assert.deepEqual(
    calls.map((call) => (call.type === "function" ? [call.function.name, JSON.parse(call.function.arguments)] : [])),
    [
      ["get_weather", { city: "Oslo" }],
      ["get_time", { city: "Rome" }],
    ],
  );
  assert.equal(new Set(calls.map(({ id }) => id)).size, 2);
  const results = calls.map(
    (call, index): Message => ({ role: "tool", tool_call_id: call.id, content: `result ${index}` }),
  );
  const last = await client.chat.completions.create({
    model: "sim",
    messages: [...question, message, ...results],
    tools,
  });
  assert.match(
    last.choices[0]?.message.content ?? "",
    /get_weather returned: result 0\nThe tool get_time returned: result 1/,
  );
  assert.equal(last.choices[0]?.finish_reason, "stop");
}

test("a loop of parallel tool calls, not streamed", async () => {
  const { choices } = await client.chat.completions.create({ model: "sim", messages: question, tools });
  assert.equal(choices[0]?.finish_reason, "tool_calls");
  assert.equal(choices[0]?.message.content, null);
  await finishLoop(choices[0].message);
});

test("a loop of parallel tool calls, streamed, with the helper that is strict about tools", async () => {
  const stream = client.chat.completions.stream({ model: "sim", messages: question, tools });
  const done: string[] = [];
  stream.on("tool_calls.function.arguments.done", ({ name }) => done.push(name));
  const completion = await stream.finalChatCompletion();
  assert.deepEqual(done, ["get_weather", "get_time"]);
  assert.equal(completion.choices[0]?.finish_reason, "tool_calls");
  const [message] = completion.choices.map((choice) => choice.message);
  assert.ok(message);
  await finishLoop(message);
});

test("the client's own tool runner completes, streamed and whole", async () => {
  for (const stream of [false, true]) {
    const called: string[] = [];
    const runnable = (name: string) => ({
      type: "function" as const,
      function: {
        name,
        description: name,
        parameters: toolOf(name).function.parameters as Record<string, unknown>,
        parse: JSON.parse as (text: string) => { city: string },
        function: ({ city }: { city: string }) => {
          called.push(`${name} ${city}`);
          return `fine in ${city}`;
        },
      },
    });
    const body = { model: "sim", messages: question, tools: [runnable("get_weather"), runnable("get_time")] };
    const runner = stream
      ? client.chat.completions.runTools({ ...body, stream: true })
      : client.chat.completions.runTools(body);
    assert.match((await runner.finalContent()) ?? "", /get_weather returned: fine in Oslo/);
    assert.deepEqual(called, ["get_weather Oslo", "get_time Rome"]);
  }
});

test("structured output parses, streamed and whole", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer" } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const response_format = makeParseableResponseFormat(
    { type: "json_schema", json_schema: { name: "person", strict: true, schema } },
    (text) => JSON.parse(text) as { name: string; age: number },
  );
  const parsed = await client.chat.completions.parse({ model: "sim", messages: hello, response_format });
  const streamed = await client.chat.completions
    .stream({ model: "sim", messages: hello, response_format })
    .finalChatCompletion();
  for (const { choices } of [parsed, streamed]) {
    assert.equal(typeof choices[0]?.message.parsed?.name, "string");
    assert.ok(Number.isInteger(choices[0]?.message.parsed?.age));
  }
  const object = await client.chat.completions.create({
    model: "sim",
    messages: hello,
    response_format: { type: "json_object" },
  });
  assert.equal(JSON.parse(object.choices[0]?.message.content ?? "").simulated, true);
});

test("images reach the model, by address and as data", async () => {
  const png = Buffer.alloc(70_000, 7).toString("base64");
  const head = Buffer.from("89504e470d0a1a0a", "hex");
  await using place = await startScriptedUpstream(bodyAnswer(Buffer.concat([head, Buffer.alloc(992)]), "image/png"));
  const { choices } = await client.chat.completions.create({
    model: "sim",
    messages: [
      {
        role: "user",
        content: [
          { type: "text", text: "What is this?" },
          { type: "image_url", image_url: { url: `data:image/png;base64,${png}`, detail: "low" } },
          { type: "image_url", image_url: { url: `${place.url}/cat.png` } },
        ],
      },
    ],
  });
  assert.match(choices[0]?.message.content ?? "", /I see 2 images \(image\/png, 70000 bytes; image\/png, 1000 bytes\)/);
});

test("several choices work, streamed and whole", async () => {
  const whole = await client.chat.completions.create({ model: "sim", messages: hello, n: 3 });
  assert.deepEqual(
    whole.choices.map(({ index }) => index),
    [0, 1, 2],
  );
  const chunks = await chunksOf(
    await client.chat.completions.create({ model: "sim", messages: hello, n: 3, stream: true }),
  );
  const helped = await client.chat.completions.stream({ model: "sim", messages: hello, n: 3 }).finalChatCompletion();
  for (const { index, message } of whole.choices) {
    assert.equal(textOf(chunks, index), message.content);
    assert.equal(helped.choices[index]?.message.content, message.content);
  }
});

test("limits of an answer apply and are reported", async () => {
  const short = await client.chat.completions.create({ model: "sim", messages: hello, max_completion_tokens: 3 });
  assert.equal(short.choices[0]?.finish_reason, "length");
  assert.equal(short.usage?.completion_tokens, 3);
  const chunks = await chunksOf(
    await client.chat.completions.create({ model: "sim", messages: hello, max_completion_tokens: 3, stream: true }),
  );
  assert.equal(chunks.at(-1)?.choices[0]?.finish_reason, "length");
  const stopped = await client.chat.completions.create({ model: "sim", messages: hello, stop: ["simulator"] });
  assert.equal(stopped.choices[0]?.message.content, answer.slice(0, answer.indexOf("simulator")));
});

test("reasoning passes unchanged, for a model whose id contains a slash and a colon", async () => {
  const request = { model: "maker/thinks:1", messages: hello, reasoning_effort: "low" as const };
  const whole = await client.chat.completions.create(request);
  const reasoningIn = (part: object | undefined) =>
    (part as { reasoning_content?: string } | undefined)?.reasoning_content ?? "";
  const reasoning = reasoningIn(whole.choices[0]?.message);
  assert.ok(reasoning.length > 0);
  assert.equal(whole.model, "maker/thinks:1");
  assert.equal(whole.usage?.completion_tokens_details?.reasoning_tokens, 8);
  const chunks = await chunksOf(await client.chat.completions.create({ ...request, stream: true }));
  const streamed = chunks.map(({ choices }) => reasoningIn(choices[0]?.delta)).join("");
  assert.equal(streamed, reasoning);
  assert.equal(textOf(chunks), whole.choices[0]?.message.content);
});

test("a conversation of several turns with every role works", async () => {
  const { choices } = await client.chat.completions.create({
    model: "sim",
    messages: [
      { role: "developer", content: "Be brief." },
      { role: "system", content: [{ type: "text", text: "Be kind." }] },
      { role: "user", content: "First.", name: "ann" },
      { role: "assistant", content: "Yes." },
      { role: "user", content: [{ type: "text", text: "Second." }] },
    ],
  });
  assert.match(choices[0]?.message.content ?? "", /^You said: Second\./);
});

test("an answer of megabytes, in events larger than a frame, arrives complete", async () => {
  const whole = await client.chat.completions.create({ model: "large", messages: hello });
  assert.equal(whole.choices[0]?.message.content?.length, 80 * 65_536);
  const chunks = await chunksOf(
    await client.chat.completions.create({ model: "large", messages: hello, stream: true }),
  );
  assert.equal(textOf(chunks), whole.choices[0]?.message.content);
});

test("the head of a stream tells proxies not to buffer or change it", async () => {
  const response = await gateway.post({ model: "sim", messages: hello, stream: true });
  assert.equal(response.headers.get("content-type"), "text/event-stream; charset=utf-8");
  assert.match(response.headers.get("cache-control") ?? "", /no-cache.*no-transform/);
  assert.equal(response.headers.get("x-accel-buffering"), "no");
  assert.equal(response.headers.get("content-length"), null);
  assert.match(response.headers.get("x-request-id") ?? "", /^req_/);
  const text = await response.text();
  assert.ok(text.endsWith("\n\ndata: [DONE]\n\n"));
  assert.doesNotMatch(text, /^(?!data: |$)/m);
  const whole = await gateway.post({ model: "sim", messages: hello });
  assert.equal(whole.headers.get("content-type"), "application/json");
  assert.equal(whole.headers.get("content-length"), String((await whole.arrayBuffer()).byteLength));
});

const late = { model: "late", messages: hello, stream: true } as const;
const post = (body: object) => gateway.post(body, { signal: AbortSignal.timeout(20_000) });

/**
 * Reads a body piece by piece, each time on until all that came is like the pattern; returns all of
 * it.
 */
function readingOf({ body }: Response): (pattern: RegExp) => Promise<string> {
  const reader = (body as ReadableStream<Uint8Array<ArrayBuffer>>).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return async (pattern) => {
    while (!pattern.test(text)) {
      const { done, value } = await reader.read();
      if (done) assert.fail(`it ended as ${JSON.stringify(text)}`);
      text += value;
    }
    return text;
  };
}

test("a waiting stream gets line feeds as keep-alives, before and between tokens, which the client ignores", async () => {
  const [begin, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  upstream.answerWith(
    chunkedAnswer(async function* () {
      await begin.promise;
      yield chatChunk({ role: "assistant", content: "Hello" });
      await goOn.promise;
      yield chatChunk({ content: ", again" }) + chatEnd;
    }),
  );
  const helper = client.chat.completions.stream(late);
  const connected = new Promise<void>((resolve) => void helper.on("connect", resolve));
  // Nothing but a sign of life can have brought their heads.
  const [response, stream] = await Promise.all([post(late), client.chat.completions.create(late), connected]);
  const readUntil = readingOf(response);
  await readUntil(/^\n+$/);
  begin.resolve();
  await readUntil(/^\n+data: .+\}\n\n\n+$/);
  goOn.resolve();
  const text = await readUntil(/\[DONE\]\n\n$/);
  assert.match(text, /^\n+data: \{.+\}\n\n\n+data: \{.+\n\ndata: \[DONE\]\n\n$/s);
  assert.equal(textOf(await chunksOf(stream)), "Hello, again");
  assert.equal((await helper.finalChatCompletion()).choices[0]?.message.content, "Hello, again");
});

test("a failure after a keep-alive is an error event, because the status is already sent", async () => {
  const fail = Promise.withResolvers<void>();
  upstream.answerWith(
    chunkedAnswer(async function* () {
      await fail.promise;
      yield dataEvent({ error: { message: "no", type: "server_error", code: null } });
    }),
  );
  const [response, stream] = await Promise.all([post(late), client.chat.completions.create(late)]);
  const reading = Promise.all([brokenTextOf(response), chunksOf(stream).catch((error: unknown) => error)]);
  fail.resolve();
  const [text, outcome] = await reading;
  assert.equal(response.status, 200);
  assert.match(
    text,
    /^\n+data: \{"error":\{"message":"[^"]+","type":"server_error","param":null,"code":"upstream_error"\}\}\n\n$/,
  );
  assert.ok(outcome instanceof OpenAI.APIError);
  assert.equal(outcome.code, "upstream_error");
});

test("a whole answer has no keep-alives, however late it is", async () => {
  const answer = Promise.withResolvers<void>();
  const before = upstream.requests.length;
  upstream.answerWith(async (response, { json }) => {
    await answer.promise;
    (json.stream ? streamAnswer(dataEvent("[DONE]")) : jsonAnswer(chatCompletion))(response);
  });
  const whole = post({ ...late, stream: false });
  await until("it waits", () => upstream.requests.length === before + 1);
  // A stream that came later has a sign of life: the whole one was looked at as well.
  const stream = await post(late);
  answer.resolve();
  assert.match(await (await whole).text(), /^\{/);
  await stream.body?.cancel();
});

test("Cursor's request, a body of Responses with flat tools, is answered with chunks and function calls", async () => {
  const response = await fetch(`${gateway.url}/v1/chat/completions`, {
    method: "POST",
    headers: { authorization: `Bearer ${client.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify({
      model: "sim",
      input: [{ role: "user", content: 'Call ApplyPatch with "*** Begin Patch"' }],
      tools: [
        { type: "function", name: "ReadFile", parameters: { type: "object", properties: {} } },
        { type: "custom", name: "ApplyPatch", format: { type: "grammar", syntax: "lark", definition: "start: x" } },
      ],
      stream: true,
    }),
  });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const [call] = text
    .split("\n")
    .flatMap((line) => (line.startsWith("data: {") ? [JSON.parse(line.slice(6)) as Chunk] : []))
    .flatMap(({ choices }) => choices[0]?.delta.tool_calls ?? []);
  assert.deepEqual([call?.type, call?.function], ["function", { name: "ApplyPatch", arguments: "*** Begin Patch" }]);
});
