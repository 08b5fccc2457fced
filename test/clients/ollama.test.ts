/** Ollama's own client, with nothing changed but address and key, on upstreams of every dialect. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Ollama } from "ollama";
import { conversationDialects } from "#dialects/dialect.ts";
import { png } from "../support/png.ts";
import { greeting, modelOf, startClientsGateway, weather } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());
const clientWith = (key: string) => new Ollama({ host: gateway.url, headers: { Authorization: `Bearer ${key}` } });
const client = clientWith(gateway.key);
const messages = [{ role: "user", content: "hello there" }];
const tools = [
  { type: "function", function: { name: weather.name, description: weather.description, parameters: weather.schema } },
] as never;

const post = (path: string, body: unknown, key = gateway.key) =>
  fetch(`${gateway.url}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: typeof body === "string" ? body : JSON.stringify(body),
  });

for (const upstream of conversationDialects) {
  const model = modelOf(upstream);

  test(`chat from ${upstream}, whole and streamed, with usage`, async () => {
    const whole = await client.chat({ model: `${model}:latest`, messages, stream: false });
    assert.deepEqual(
      [whole.model, whole.message.role, whole.message.content],
      [`${model}:latest`, "assistant", greeting],
    );
    assert.deepEqual([whole.done, whole.done_reason], [true, "stop"]);
    assert.ok(whole.prompt_eval_count > 0 && whole.eval_count > 0 && whole.total_duration > 0);
    let text = "";
    let last: typeof whole | undefined;
    for await (const line of await client.chat({ model, messages, stream: true })) {
      text += line.message.content;
      last = line;
    }
    assert.equal(text, greeting);
    assert.deepEqual(
      [last?.done, last?.done_reason, last?.prompt_eval_count, last?.eval_count],
      [true, "stop", whole.prompt_eval_count, whole.eval_count],
    );
  });

  test(`a tool call from ${upstream} has its arguments as an object, and its result continues the chat`, async () => {
    const question = [{ role: "user", content: 'Use get_weather for "Paris".' }];
    const whole = await client.chat({ model, messages: question, tools, stream: false });
    const [call] = whole.message.tool_calls ?? [];
    assert.equal(call?.function.name, weather.name);
    assert.equal(typeof call?.function.arguments, "object");
    const streamed = [];
    for await (const line of await client.chat({ model, messages: question, tools, stream: true }))
      streamed.push(...(line.message.tool_calls ?? []));
    assert.deepEqual(
      streamed.map(({ function: { name, arguments: input } }) => ({ name, input })),
      [{ name: weather.name, input: call?.function.arguments }],
    );
    const next = await client.chat({
      model,
      messages: [...question, whole.message, { role: "tool", tool_name: weather.name, content: "sunny" }],
      tools,
      stream: false,
    });
    assert.match(next.message.content, /sunny/);
  });

  test(`generate, images and formats from ${upstream}`, async () => {
    const whole = await client.generate({ model, prompt: "hello there", system: "Be brief.", stream: false });
    assert.match(String(whole.response), /You said: hello there/);
    let text = "";
    for await (const line of await client.generate({ model, prompt: "hello there", stream: true }))
      text += line.response;
    assert.equal(text, greeting);
    const image = Buffer.from(png).toString("base64");
    const seen = await client.chat({ model, messages: [{ ...messages[0]!, images: [image] }], stream: false });
    assert.match(seen.message.content, /image/i);
    if (upstream !== "openai-responses") {
      const stopped = await client.chat({ model, messages, options: { stop: ["there"] }, stream: false });
      assert.equal(stopped.message.content, "You said: hello ");
    }
    const format = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
    const options = { temperature: 0, num_ctx: 4096, top_k: 3, num_predict: 200, seed: 1 };
    const formed = await client.chat({ model, messages, format, options, keep_alive: "5m", stream: false });
    assert.equal(typeof JSON.parse(formed.message.content).city, "string");
  });

  test(`an answer from ${upstream} that is cut short by num_predict says so`, async () => {
    const { done_reason } = await client.chat({ model, messages, options: { num_predict: 3 }, stream: false });
    assert.equal(done_reason, "length");
  });

  test(`errors of ${upstream} are texts, and a broken stream never looks complete`, async () => {
    await assert.rejects(client.chat({ model: modelOf(upstream, "refusing"), messages, stream: false }), {
      name: "ResponseError",
      status_code: 400,
    });
    await assert.rejects(client.chat({ model: modelOf(upstream, "overloaded"), messages, stream: true }), {
      name: "ResponseError",
      status_code: 503,
    });
    const breaking = await client.chat({ model: modelOf(upstream, "breaking"), messages, stream: true });
    await assert.rejects(async () => {
      for await (const line of breaking) assert.equal(line.done, false);
    }, /upstream/i);
  });
}

test("thinking is a field of its own, and is left out when the caller turns it off", async () => {
  const model = "gemini-reasoner";
  const whole = await client.chat({ model, messages, think: "low", stream: false });
  assert.ok((whole.message.thinking ?? "").length > 0);
  assert.match(whole.message.content, /You said/);
  let thinking = "";
  for await (const line of await client.chat({ model, messages, think: true, stream: true }))
    thinking += line.message.thinking ?? "";
  assert.ok(thinking.length > 0);
  const plain = await client.generate({ model, prompt: "hello there", think: false, stream: false });
  assert.equal(plain.thinking, undefined);
});

test("embeddings, of the current endpoint and the old one", async () => {
  for (const model of ["embedding", "gemini-embedding"]) {
    const { embeddings, prompt_eval_count } = await client.embed({ model, input: ["a", "b"] });
    assert.deepEqual([embeddings.length, typeof embeddings[0]?.[0]], [2, "number"]);
    assert.ok(prompt_eval_count >= 0);
    const { embedding } = await client.embeddings({ model, prompt: "a" });
    assert.deepEqual(embedding, embeddings[0]);
  }
});

test("the model list, a model's details, the version and the root", async () => {
  const { models } = await client.list();
  const listed = models.find(({ name }) => name === "reasoner");
  assert.match(listed?.digest ?? "", /^[0-9a-f]{64}$/);
  assert.ok(!Number.isNaN(new Date(listed?.modified_at ?? "").getTime()));
  const shown = await client.show({ model: "reasoner:latest" });
  assert.deepEqual(shown.capabilities, ["completion", "thinking"]);
  assert.deepEqual(
    Object.entries(shown.model_info)
      .filter(([name]) => name.endsWith(".context_length"))
      .map(([, length]) => length),
    [128_000],
  );
  assert.deepEqual((await client.ps()).models, []);
  assert.match((await client.version()).version, /^0\.\d+\.\d+$/);
  const root = await fetch(`${gateway.url}/`, { headers: { authorization: `Bearer ${gateway.key}` } });
  assert.equal(await root.text(), "Ollama is running");
});

test("streaming is the default, one JSON object a line", async () => {
  const response = await post("/api/chat", { model: modelOf("openai-chat"), messages });
  assert.equal(response.headers.get("content-type"), "application/x-ndjson");
  const lines = (await response.text())
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.ok(lines.length > 2);
  assert.deepEqual([lines.at(-1).done, lines.at(-2).done], [true, false]);
});

test("bodies are JSON whatever their type says, as curl sends them, and only for Ollama's endpoints", async () => {
  const model = modelOf("openai-chat");
  const plain = { model, stream: false };
  const bodies: [string, object][] = [
    ["/api/chat", { ...plain, messages }],
    ["/api/generate", { ...plain, prompt: "hello there" }],
    ["/api/embed", { model: "embedding", input: "hello" }],
    ["/api/embeddings", { model: "embedding", prompt: "hello" }],
    ["/api/show", { model }],
  ];
  const postAs = (path: string, body: string, type: string | undefined) =>
    fetch(`${gateway.url}${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}`, ...(type && { "content-type": type }) },
      body: Buffer.from(body),
    });
  for (const type of ["application/x-www-form-urlencoded", "text/plain;charset=UTF-8", undefined])
    for (const [path, body] of bodies) {
      const response = await postAs(path, JSON.stringify(body), type);
      assert.equal(response.status, 200, `${path} ${type}: ${await response.text()}`);
    }
  assert.equal((await postAs("/api/chat", `model=${model}`, "application/x-www-form-urlencoded")).status, 400);
  const chat = JSON.stringify({ ...plain, messages });
  assert.equal((await postAs("/v1/chat/completions", chat, "application/x-www-form-urlencoded")).status, 415);
});

test("a request without a prompt loads a model at once", async () => {
  for (const [path, more, reason] of [
    ["/api/chat", { messages: [] }, "load"],
    ["/api/generate", {}, "load"],
    ["/api/generate", { keep_alive: 0 }, "unload"],
  ] as const) {
    const answer = (await (await post(path, { model: modelOf("gemini"), ...more })).json()) as Record<string, unknown>;
    assert.deepEqual([answer.done, answer.done_reason], [true, reason]);
  }
});

test("errors of the gateway itself are texts with a status", async () => {
  const model = modelOf("openai-chat");
  const cases: [number, string, unknown, string?][] = [
    [401, "/api/chat", { model, messages }, "sk-wrong"],
    [404, "/api/chat", { model: "none", messages }],
    [404, "/api/generate", { model: "none" }],
    [404, "/api/show", { model: "none" }],
    [404, "/api/pull", { model }],
    [400, "/api/chat", { messages }],
    [400, "/api/chat", { model, messages: "hello" }],
    [400, "/api/chat", { model, messages, options: { temperature: "hot" } }],
    [400, "/api/generate", { model, prompt: "a", suffix: "b" }],
    [400, "/api/generate", { model, prompt: "a", raw: true }],
    [400, "/api/chat", { model, messages, format: "xml" }],
    [400, "/api/chat", { model: modelOf("gemini"), messages, logprobs: true }],
    [400, "/api/embed", { model: "embedding" }],
    [400, "/api/chat", "{"],
    [400, "/api/show", "[]"],
  ];
  for (const [status, path, body, key] of cases) {
    const response = await post(path, body, key);
    const { error } = (await response.json()) as { error: unknown };
    assert.deepEqual([response.status, typeof error], [status, "string"], `${path} ${JSON.stringify(body)}`);
  }
});

test("an error names the field that is missing or not supported", async () => {
  const upstream = modelOf("anthropic-messages");
  for (const [path, body, field] of [
    ["/api/show", {}, "'model' is missing"],
    ["/api/show", { model: "" }, "'model' must NOT be empty"],
    ["/api/chat", { model: upstream, messages, format: "xml" }, "'format'.*\"json\""],
    ["/api/chat", { model: upstream, messages, logprobs: true, stream: false }, "logprobs"],
    ["/api/generate", { model: upstream, prompt: "hello", top_logprobs: 2, stream: false }, "logprobs"],
    ["/api/chat", { model: upstream, messages, top_logprobs: 21 }, "'top_logprobs'"],
  ] as const) {
    const response = await post(path, body);
    assert.equal(response.status, 400, field);
    assert.match(((await response.json()) as { error: string }).error, new RegExp(field));
  }
  assert.equal((await post("/api/show", { name: upstream })).status, 200);
  const plain = { model: upstream, messages, format: "", logprobs: false, top_logprobs: 0, stream: false };
  assert.equal((await post("/api/chat", plain)).status, 200);
});

test("a body too large for one turn of the event loop is read in a thread", async () => {
  const content = `hello ${"x".repeat(300_000)}`;
  const response = await post("/api/chat", {
    model: modelOf("anthropic-messages"),
    messages: [{ role: "user", content }],
    stream: false,
  });
  assert.equal(response.status, 200);
  const bad = await post("/api/chat", { model: 1, messages: [{ role: "user", content }] });
  assert.equal(bad.status, 400);
});
