/** Chat completions as the official client sees them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type OpenAI from "openai";
import { ask, chatOf, chunksOf, startSimulator, tokensIn } from "../support.ts";

type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam;
type Tool = OpenAI.Chat.Completions.ChatCompletionFunctionTool;

const user = (content: string): Message => ({ role: "user", content });

const weather: Tool = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: { city: { type: "string" }, days: { type: "integer", minimum: 1, maximum: 7 } },
      required: ["city", "days"],
    },
  },
};
const clock: Tool = {
  type: "function",
  function: {
    name: "get_time",
    parameters: { type: "object", properties: { zone: { enum: ["UTC", "CET"] } }, required: ["zone"] },
  },
};

const functionCalls = (message: OpenAI.Chat.Completions.ChatCompletionMessage) =>
  (message.tool_calls ?? []).map((call) =>
    call.type === "function"
      ? { name: call.function.name, input: JSON.parse(call.function.arguments) }
      : { name: call.custom.name, input: call.custom.input },
  );

test("an answer repeats what the user said and counts its tokens", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.chat.completions.create({
    model: "sim-text",
    messages: [{ role: "system", content: "Be short." }, user("Good morning")],
  });
  assert.match(answer.choices[0]?.message.content ?? "", /^You said: Good morning/);
  assert.equal(answer.choices[0]?.finish_reason, "stop");
  assert.ok(answer.usage && answer.usage.prompt_tokens > 0 && answer.usage.completion_tokens > 0);
  assert.equal(answer.usage.total_tokens, answer.usage.prompt_tokens + answer.usage.completion_tokens);
  assert.match(answer._request_id ?? "", /^req_[0-9a-f]{24}$/);
});

test("a stream has the same content as the whole answer, one token per event", async (t) => {
  const { openai, url } = await startSimulator(t);
  const messages = [user("Grüße, 😀 and\n two lines")];
  const whole = await openai.chat.completions.create({ model: "sim-text", messages });
  const heard = await ask({
    url,
    body: { model: "sim-text", messages, stream: true, stream_options: { include_usage: true } },
  });
  const tokens = tokensIn(heard.events);
  assert.equal(tokens.join(""), whole.choices[0]?.message.content);
  assert.equal(tokens.length, whole.usage?.completion_tokens);
  const chunks = chunksOf(heard.events);
  assert.deepEqual(chunks[0]?.choices[0]?.delta, { role: "assistant", content: "", refusal: null });
  assert.deepEqual(chunks.at(-1)?.choices, []);
  assert.deepEqual(chunks.at(-1)?.usage, whole.usage);
  assert.ok(chunks.slice(0, -1).every(({ usage }) => usage === null));
  assert.equal(heard.events.at(-1), "[DONE]");
  assert.equal(heard.headers["content-type"], "text/event-stream; charset=utf-8");
});

test("usage is streamed on request, or according to a setting", async (t) => {
  const { url } = await startSimulator(t);
  const usagesOf = async (model: string) =>
    chunksOf((await ask({ url, body: chatOf(model) })).events).map(({ usage }) => usage);
  assert.ok((await usagesOf("sim-text")).every((usage) => usage === undefined));
  assert.ok((await usagesOf("sim-text;usage=always")).at(-1)?.completion_tokens);
  const running = (await usagesOf("sim-text;usage=every;tokens=3")).map((usage) => usage?.completion_tokens);
  assert.deepEqual(running, [undefined, 1, 2, 3, undefined, 3]);
});

test("the stream helper accumulates text, and its strict checks pass", async (t) => {
  const { openai } = await startSimulator(t);
  const stream = openai.chat.completions.stream({
    model: "sim-text;tokens=20",
    messages: [user("x")],
    stream_options: { include_usage: true },
  });
  const final = await stream.finalChatCompletion();
  assert.equal(final.choices[0]?.finish_reason, "stop");
  assert.equal(final.usage?.completion_tokens, 20);
});

test("the same request gets the same bytes, and another request another id", async (t) => {
  const { url } = await startSimulator(t);
  for (const stream of [true, false]) {
    const first = await ask({ url, body: chatOf("sim-text", { stream }) });
    const again = await ask({ url, body: chatOf("sim-text", { stream }) });
    assert.equal(first.text, again.text);
    const other = await ask({ url, body: chatOf("sim-text", { stream, seed: 1 }) });
    assert.notEqual(first.headers["x-request-id"], other.headers["x-request-id"]);
  }
});

test("the text does not depend on the model's name, so that replicas agree", async (t) => {
  const { url } = await startSimulator(t);
  const texts = await Promise.all(
    ["one;tokens=40", "two;tokens=40;rate=2000"].map(async (model) =>
      tokensIn((await ask({ url, body: chatOf(model) })).events).join(""),
    ),
  );
  assert.equal(texts[0], texts[1]);
});

test("tokens and size set the exact length of the answer", async (t) => {
  const { url } = await startSimulator(t);
  const heard = await ask({ url, body: chatOf("sim-text;tokens=50;size=17") });
  const tokens = tokensIn(heard.events);
  assert.equal(tokens.length, 50);
  assert.ok(tokens.every((token) => Buffer.byteLength(token) === 17));
  assert.deepEqual(tokensIn((await ask({ url, body: chatOf("sim-text;tokens=0") })).events), []);
});

test("a token limit ends the answer with length, an earlier stop sequence with stop", async (t) => {
  const { openai } = await startSimulator(t);
  for (const limit of [{ max_tokens: 3 }, { max_completion_tokens: 3 }]) {
    const short = await openai.chat.completions.create({ model: "sim-text", messages: [user("x")], ...limit });
    assert.equal(short.choices[0]?.finish_reason, "length");
    assert.equal(short.usage?.completion_tokens, 3);
  }
  const stopped = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user("one STOP two")],
    stop: ["STOP"],
  });
  assert.equal(stopped.choices[0]?.message.content, "You said: one ");
  assert.equal(stopped.choices[0]?.finish_reason, "stop");
});

test("a content filter ends the answer at its setting, and no tool is called", async (t) => {
  const { openai } = await startSimulator(t);
  const { choices } = await openai.chat.completions.create({
    model: "sim-text;filter=2",
    messages: [user("call get_time")],
    tools: [clock],
  });
  assert.deepEqual([choices[0]?.message.content, choices[0]?.finish_reason], ["You said:", "content_filter"]);
});

test("several choices are streamed in turns with their indexes", async (t) => {
  const { openai, url } = await startSimulator(t);
  const whole = await openai.chat.completions.create({ model: "sim-text", messages: [user("x")], n: 3 });
  assert.deepEqual(
    whole.choices.map(({ index }) => index),
    [0, 1, 2],
  );
  assert.equal(new Set(whole.choices.map(({ message }) => message.content)).size, 3);
  const chunks = chunksOf(
    (await ask({ url, body: { model: "sim-text", messages: [user("x")], n: 3, stream: true } })).events,
  );
  for (const { index, message } of whole.choices) {
    const own = chunks.flatMap(({ choices }) => choices.filter((choice) => choice.index === index));
    assert.equal(own.map(({ delta }) => delta.content ?? "").join(""), message.content);
    assert.equal(own.at(-1)?.finish_reason, "stop");
  }
});

test("reasoning comes before the text and is counted separately", async (t) => {
  const { openai, url } = await startSimulator(t);
  const whole = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user("x")],
    reasoning_effort: "low",
  });
  assert.equal(whole.usage?.completion_tokens_details?.reasoning_tokens, 8);
  assert.ok((whole.choices[0]?.message as { reasoning_content?: string } | undefined)?.reasoning_content);
  const deltas = chunksOf((await ask({ url, body: chatOf("sim-text;reasoning=5") })).events).flatMap(({ choices }) =>
    choices.map(({ delta }) => delta),
  );
  assert.equal(deltas.filter(({ reasoning_content: thought }) => thought).length, 5);
  assert.ok(
    deltas.findLastIndex(({ reasoning_content: thought }) => thought) < deltas.findIndex(({ content }) => content),
  );
  const none = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user("x")],
    reasoning_effort: "none",
  });
  assert.equal(none.usage?.completion_tokens_details?.reasoning_tokens, 0);
  const model = await openai.chat.completions.create({ model: "sim-reasoning", messages: [user("x")] });
  assert.equal(model.usage?.completion_tokens_details?.reasoning_tokens, 16);
});

test("a limit that reasoning uses up leaves the text empty", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user("x")],
    reasoning_effort: "high",
    max_completion_tokens: 10,
  });
  assert.deepEqual(
    [answer.choices[0]?.message.content, answer.choices[0]?.finish_reason, answer.usage?.completion_tokens],
    ["", "length", 10],
  );
});

test("a long conversation has cached tokens, all but its last turn in steps of 128", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.chat.completions.create({
    model: "sim-text",
    messages: [{ role: "system", content: "long ".repeat(2_000) }, user("x")],
  });
  assert.equal(answer.usage?.prompt_tokens_details?.cached_tokens, 19 * 128);
  const set = await openai.chat.completions.create({ model: "sim-text;cached=3", messages: [user("Good morning")] });
  assert.equal(set.usage?.prompt_tokens_details?.cached_tokens, 3);
});

test("an image is acknowledged with its type and size", async (t) => {
  const { openai } = await startSimulator(t);
  const content: OpenAI.Chat.Completions.ChatCompletionContentPart[] = [
    { type: "text", text: "What is this?" },
    { type: "image_url", image_url: { url: `data:image/png;base64,${Buffer.alloc(70).toString("base64")}` } },
    { type: "image_url", image_url: { url: "https://example.com/cat.jpg" } },
  ];
  const answer = await openai.chat.completions.create({ model: "sim-text", messages: [{ role: "user", content }] });
  assert.match(
    answer.choices[0]?.message.content ?? "",
    /I see 2 images \(image\/png, 70 bytes; at https:\/\/example.com\/cat.jpg\)/,
  );
  assert.ok((answer.usage?.prompt_tokens ?? 0) > 170);
});

test("documents, recordings and films are acknowledged with their type and size", async (t) => {
  const { openai } = await startSimulator(t);
  const content = [
    { type: "file", file: { filename: "a.pdf", file_data: `data:application/pdf;base64,${btoa("%PDF-1.4")}` } },
    { type: "input_audio", input_audio: { format: "wav", data: btoa("RIFF") } },
    { type: "video_url", video_url: { url: "https://example.com/a.mp4" } },
  ] as OpenAI.Chat.Completions.ChatCompletionContentPart[];
  const answer = await openai.chat.completions.create({ model: "sim-text", messages: [{ role: "user", content }] });
  assert.match(
    answer.choices[0]?.message.content ?? "",
    /I read 3 documents \(application\/pdf, 8 bytes; audio\/wav, 4 bytes; at https:\/\/example.com\/a.mp4\)/,
  );
});

test("a tool is called when the user names it, speaks of a call, or a call is required", async (t) => {
  const { openai } = await startSimulator(t);
  const callsOf = async (text: string, more: object = {}) => {
    const answer = await openai.chat.completions.create({
      model: "sim-text",
      messages: [user(text)],
      tools: [weather, clock],
      ...more,
    });
    const [choice] = answer.choices;
    assert.equal(choice?.finish_reason, choice?.message.tool_calls ? "tool_calls" : "stop");
    if (choice?.message.tool_calls) assert.equal(choice.message.content, null);
    return choice ? functionCalls(choice.message).map(({ name }) => name) : [];
  };
  assert.deepEqual(await callsOf("Good morning"), []);
  assert.deepEqual(await callsOf("Use get_time please"), ["get_time"]);
  assert.deepEqual(await callsOf("Please call something"), ["get_weather"]);
  assert.deepEqual(await callsOf("Good morning", { tool_choice: "required" }), ["get_weather"]);
  assert.deepEqual(await callsOf("Use get_weather", { tool_choice: "none" }), []);
  assert.deepEqual(
    await callsOf("Good morning", { tool_choice: { type: "function", function: { name: "get_time" } } }),
    ["get_time"],
  );
  assert.deepEqual(await callsOf("get_time, then get_weather"), ["get_time", "get_weather"]);
  assert.deepEqual(await callsOf("get_time, then get_weather", { parallel_tool_calls: false }), ["get_time"]);
  assert.deepEqual(await callsOf("get_weather 3 times"), ["get_weather", "get_weather", "get_weather"]);
  const allowed = {
    type: "allowed_tools",
    allowed_tools: { mode: "required", tools: [{ type: "function", function: { name: "get_time" } }] },
  };
  assert.deepEqual(await callsOf("Good morning", { tool_choice: allowed }), ["get_time"]);
});

test("arguments match the tool's schema and use the user's quoted texts", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user('get_weather for "Oslo" and "Rome", twice')],
    tools: [weather],
  });
  const message = answer.choices[0]?.message;
  assert.ok(message);
  const inputs = functionCalls(message).map(({ input }) => input);
  assert.deepEqual(
    inputs.map(({ city }) => city),
    ["Oslo", "Rome"],
  );
  assert.ok(inputs.every(({ days }) => Number.isInteger(days) && days >= 1 && days <= 7));
  assert.equal(new Set(message.tool_calls?.map(({ id }) => id)).size, 2);
});

test("streamed calls assemble to the whole ones", async (t) => {
  const { openai } = await startSimulator(t);
  const request = {
    model: "sim-text",
    messages: [user("get_time and get_weather in parallel")],
    tools: [weather, clock],
  };
  const whole = await openai.chat.completions.create(request);
  const final = await openai.chat.completions.stream(request).finalChatCompletion();
  const [streamed, sent] = [final.choices[0]?.message, whole.choices[0]?.message];
  assert.ok(streamed && sent);
  assert.deepEqual(functionCalls(streamed), functionCalls(sent));
  assert.equal(final.choices[0]?.finish_reason, "tool_calls");
});

test("a free-text tool is called with free text", async (t) => {
  const { openai } = await startSimulator(t);
  const answer = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user('call run_code with "print(1)"')],
    tools: [{ type: "custom", custom: { name: "run_code" } }],
  });
  const message = answer.choices[0]?.message;
  assert.deepEqual(message && functionCalls(message), [{ name: "run_code", input: "print(1)" }]);
});

test("runTools completes the loop and ends with a text that uses the result", async (t) => {
  const { openai } = await startSimulator(t);
  const cities: string[] = [];
  const runner = openai.chat.completions.runTools({
    model: "sim-text",
    messages: [user('get_weather for "Oslo"')],
    tools: [
      {
        type: "function",
        function: {
          name: "get_weather",
          description: "The weather of a city",
          parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
          parse: JSON.parse,
          function: ({ city }: { city: string }) => {
            cities.push(city);
            return `snow in ${city}`;
          },
        },
      },
    ],
  });
  assert.match((await runner.finalContent()) ?? "", /The tool get_weather returned: snow in Oslo/);
  assert.deepEqual(cities, ["Oslo"]);
});

test("a JSON answer is JSON, and matches the schema if there is one", async (t) => {
  const { openai } = await startSimulator(t);
  const free = await openai.chat.completions.create({
    model: "sim-text",
    messages: [user("x")],
    response_format: { type: "json_object" },
  });
  assert.equal(typeof JSON.parse(free.choices[0]?.message.content ?? ""), "object");
  const schema = {
    type: "object",
    properties: {
      name: { type: "string" },
      age: { type: "integer", minimum: 18 },
      tags: { type: "array", items: { enum: ["a", "b"] }, minItems: 2 },
    },
    required: ["name", "age", "tags"],
    additionalProperties: false,
  };
  const parsed = await openai.chat.completions.parse({
    model: "sim-text",
    messages: [user("x")],
    response_format: { type: "json_schema", json_schema: { name: "person", strict: true, schema } },
  });
  const person = JSON.parse(parsed.choices[0]?.message.content ?? "");
  assert.deepEqual(Object.keys(person), ["name", "age", "tags"]);
  assert.ok(person.age >= 18 && person.tags.length === 2);
});

test("an invalid body is a 400 that names the field", async (t) => {
  const { url } = await startSimulator(t);
  const faultOf = async (body: unknown) => {
    const heard = await ask({ url, body });
    const { error } = JSON.parse(heard.text);
    assert.deepEqual(Object.keys(error), ["message", "type", "param", "code"]);
    return [heard.status, error.param];
  };
  assert.deepEqual(await faultOf("{"), [400, null]);
  assert.deepEqual(await faultOf({ model: "m" }), [400, "messages"]);
  assert.deepEqual(await faultOf({ model: "m", messages: [] }), [400, "messages"]);
  assert.deepEqual(
    await faultOf({ model: "m", messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] }),
    [400, "messages[0].content[0].image_url.url"],
  );
  assert.deepEqual(await faultOf({ model: "m", messages: [user("x")], n: 0 }), [400, "n"]);
  assert.deepEqual(
    await faultOf({
      model: "m",
      messages: [user("x")],
      tools: [weather],
      tool_choice: { type: "function", function: { name: "none" } },
    }),
    [400, "tool_choice"],
  );
  assert.deepEqual(
    await faultOf({
      model: "m",
      messages: [user("x")],
      response_format: { type: "json_schema", json_schema: { name: "x", schema: false } },
    }),
    [400, "response_format"],
  );
});
