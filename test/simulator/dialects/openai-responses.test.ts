/** Responses as the official client sees them, and the streams event by event. */
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";
import { ask, startSimulator } from "../support.ts";

type Input = OpenAI.Responses.ResponseInputItem;
type Event = OpenAI.Responses.ResponseStreamEvent;

const path = "/v1/responses";
const weather: OpenAI.Responses.FunctionTool = {
  type: "function",
  name: "get_weather",
  strict: true,
  parameters: {
    type: "object",
    properties: { city: { type: "string" } },
    required: ["city"],
    additionalProperties: false,
  },
};
const clock: OpenAI.Responses.FunctionTool = {
  ...weather,
  name: "get_time",
  parameters: { type: "object", properties: {}, additionalProperties: false },
};
const code: OpenAI.Responses.CustomTool = { type: "custom", name: "run_code" };
const include: OpenAI.Responses.ResponseIncludable[] = ["reasoning.encrypted_content"];

const eventsOf = (events: string[]): Event[] => events.map((event) => JSON.parse(event));

/** Checks the rules of every stream; returns its last response. */
function checkedLifeCycle(events: Event[]): OpenAI.Responses.Response {
  assert.deepEqual(
    events.map(({ sequence_number: number }) => number),
    events.map((_, index) => index),
  );
  assert.deepEqual(
    events.slice(0, 2).map(({ type }) => type),
    ["response.created", "response.in_progress"],
  );
  const grown = new Map<string, string>();
  const done: unknown[] = [];
  for (const event of events) {
    if ("item_id" in event) assert.equal(event.item_id, openId(events, event.output_index));
    switch (event.type) {
      case "response.output_item.added":
        assert.equal(event.output_index, done.length);
        break;
      case "response.output_text.delta":
      case "response.reasoning_summary_text.delta":
      case "response.function_call_arguments.delta":
      case "response.custom_tool_call_input.delta":
        grown.set(event.item_id, (grown.get(event.item_id) ?? "") + event.delta);
        break;
      case "response.output_text.done":
      case "response.reasoning_summary_text.done":
        assert.equal(event.text, grown.get(event.item_id) ?? "");
        break;
      case "response.function_call_arguments.done":
        assert.equal(event.arguments, grown.get(event.item_id));
        break;
      case "response.custom_tool_call_input.done":
        assert.equal(event.input, grown.get(event.item_id));
        break;
      case "response.output_item.done":
        assert.equal(event.output_index, done.push(event.item) - 1);
        break;
    }
  }
  const last = events.at(-1);
  assert.ok(last?.type === "response.completed" || last?.type === "response.incomplete");
  assert.equal(last.type, `response.${last.response.status}`);
  assert.deepEqual(last.response.output, done);
  assert.ok(events.every((event) => !("response" in event) || event.response.id === last.response.id));
  return last.response;
}

function openId(events: Event[], place: number): string | null | undefined {
  const added = events.find((event) => event.type === "response.output_item.added" && event.output_index === place);
  return added?.type === "response.output_item.added" && "id" in added.item ? added.item.id : undefined;
}

test("streams follow the life cycle and end like the whole answer", async (t) => {
  const { url, openai } = await startSimulator(t);
  const bodies: OpenAI.Responses.ResponseCreateParamsNonStreaming[] = [
    { model: "sim-text", input: "Grüße, 😀 and\n two lines" },
    {
      model: "sim-text",
      input: [{ role: "user", content: "again" }],
      instructions: "Be short.",
      store: false,
      metadata: { a: "b" },
    },
    { model: "sim-text;tokens=0", input: "nothing" },
    { model: "sim-text", input: "think", reasoning: { effort: "low" } },
    { model: "sim-text", input: "think aloud", reasoning: { effort: "high", summary: "auto" }, include },
    {
      model: "sim-text",
      input: "think too long",
      reasoning: { effort: "high", summary: "auto" },
      max_output_tokens: 20,
    },
    { model: "sim-text;tokens=40", input: "be cut short", max_output_tokens: 20 },
    { model: "sim-text;filter=3", input: "be filtered" },
    {
      model: "sim-text",
      input: "get_time and get_weather and run_code",
      tools: [weather, clock, code],
      reasoning: { effort: "low" },
    },
    { model: "sim-text;tokens=3000;size=200;reasoning=100", input: "long", reasoning: { summary: "detailed" } },
  ];
  for (const body of bodies) {
    const heard = await ask({ url, path, body: { ...body, stream: true } });
    assert.equal(heard.text.match(/^event: (.*)\ndata: \{"type":"\1",/gm)?.length, heard.events.length);
    const streamed = checkedLifeCycle(eventsOf(heard.events));
    const whole = await openai.responses.create(body);
    const plain = (response: object) =>
      JSON.stringify(response, (name, value) =>
        /^(?:id|call_id|encrypted_content|\w+_at)$/.test(name) ? typeof value : value,
      );
    const { output_text: text, ...sent } = whole;
    assert.equal(plain(streamed), plain(sent));
    assert.equal(whole.usage?.total_tokens, (whole.usage?.input_tokens ?? 0) + (whole.usage?.output_tokens ?? 0));
    assert.equal(typeof text, "string");
  }
});

test("a response repeats the request's settings, including storage", async (t) => {
  const { openai } = await startSimulator(t);
  const kept = await openai.responses.create({ model: "sim-text", input: "Good morning" });
  assert.match(kept.output_text, /^You said: Good morning/);
  assert.deepEqual(
    [Reflect.get(kept, "store"), kept.status, kept.object, kept.reasoning],
    [true, "completed", "response", { effort: null, summary: null }],
  );
  const settings = {
    store: false,
    instructions: "Be short.",
    temperature: 0.5,
    metadata: { a: "b" },
    prompt_cache_key: "k",
    tools: [weather],
  };
  const other = await openai.responses.create({ model: "sim-text", input: "Good morning", ...settings });
  for (const [name, value] of Object.entries(settings)) assert.deepEqual(Reflect.get(other, name), value);
  assert.deepEqual(Object.keys(other.usage ?? {}), [
    "input_tokens",
    "input_tokens_details",
    "output_tokens",
    "output_tokens_details",
    "total_tokens",
  ]);
  assert.ok((other.usage?.input_tokens ?? 0) > (kept.usage?.input_tokens ?? 0));
});

test("the stream helper assembles text, reasoning and calls", async (t) => {
  const { openai } = await startSimulator(t);
  const heard: string[] = [];
  const stream = openai.responses.stream({
    model: "sim-text",
    input: 'run_code with "print(1)", then get_weather',
    tools: [weather, code],
    reasoning: { effort: "low", summary: "auto" },
  });
  stream.on("response.reasoning_summary_text.delta", ({ delta }) => heard.push(delta));
  const final = await stream.finalResponse();
  assert.equal(heard.length, 8);
  assert.deepEqual(
    final.output.map(({ type }) => type),
    ["reasoning", "custom_tool_call", "function_call"],
  );
  const text = await openai.responses.stream({ model: "sim-text;tokens=20", input: "x" }).finalResponse();
  assert.equal(text.usage?.output_tokens, 20);
  assert.match(text.output_text, /^You said: x/);
});

test("reasoning is shown and returned only on request", async (t) => {
  const { openai } = await startSimulator(t);
  const reasoningOf = async (body: object) => {
    const { output, usage } = await openai.responses.create({ model: "sim-text", input: "x", ...body });
    const [item] = output;
    if (item?.type !== "reasoning") return [output.length, usage?.output_tokens_details.reasoning_tokens];
    return [item.summary.length, typeof item.encrypted_content, usage?.output_tokens_details.reasoning_tokens];
  };
  assert.deepEqual(await reasoningOf({}), [1, 0]);
  assert.deepEqual(await reasoningOf({ include }), [1, 0]);
  assert.deepEqual(await reasoningOf({ reasoning: { effort: "none", summary: "auto" } }), [1, 0]);
  assert.deepEqual(await reasoningOf({ reasoning: { effort: "low" } }), [0, "undefined", 8]);
  assert.deepEqual(await reasoningOf({ reasoning: { effort: "low", summary: "auto" } }), [1, "undefined", 8]);
  assert.deepEqual(await reasoningOf({ reasoning: { effort: "low" }, include }), [0, "string", 8]);
  assert.deepEqual(await reasoningOf({ model: "sim-reasoning", include }), [0, "string", 16]);
});

test("a token limit or a content filter makes the response incomplete", async (t) => {
  const { openai } = await startSimulator(t);
  const short = await openai.responses.create({ model: "sim-text;tokens=100", input: "x", max_output_tokens: 16 });
  assert.deepEqual(
    [short.status, short.incomplete_details, short.usage?.output_tokens],
    ["incomplete", { reason: "max_output_tokens" }, 16],
  );
  assert.equal(short.output[0]?.type === "message" && short.output[0].status, "incomplete");
  const thought = await openai.responses.create({
    model: "sim-text",
    input: "x",
    max_output_tokens: 16,
    reasoning: { effort: "high" },
  });
  assert.deepEqual(
    [thought.status, thought.output.map(({ type }) => type), thought.output_text],
    ["incomplete", ["reasoning"], ""],
  );
  const filtered = await openai.responses.create({ model: "sim-text;filter=3", input: "x" });
  assert.deepEqual([filtered.incomplete_details, filtered.usage?.output_tokens], [{ reason: "content_filter" }, 3]);
  const blocked = await openai.responses.create({ model: "sim-text;filter=0", input: "x" });
  assert.deepEqual([blocked.status, blocked.output], ["incomplete", []]);
});

test("a loop of calls continues with the returned reasoning, and ends with a text that uses the results", async (t) => {
  const { openai } = await startSimulator(t);
  const input: Input[] = [{ role: "user", content: 'get_weather for "Oslo" and run_code' }];
  const request = { model: "sim-reasoning", tools: [weather, code], store: false, include };
  const first = await openai.responses.stream({ ...request, input }).finalResponse();
  assert.deepEqual(
    first.output.map(({ type }) => type),
    ["reasoning", "function_call", "custom_tool_call"],
  );
  for (const item of first.output) {
    input.push(item as Input);
    if (item.type === "function_call") {
      assert.deepEqual(JSON.parse(item.arguments), { city: "Oslo" });
      assert.notEqual(item.id, item.call_id);
      const output = [
        { type: "input_text" as const, text: "snow" },
        {
          type: "input_image" as const,
          detail: "auto" as const,
          image_url: `data:image/png;base64,${Buffer.alloc(70).toString("base64")}`,
        },
      ];
      input.push({ type: "function_call_output", call_id: item.call_id, output });
    }
    if (item.type === "custom_tool_call")
      input.push({ type: "custom_tool_call_output", call_id: item.call_id, output: "done" });
  }
  const second = await openai.responses.create({ ...request, input });
  assert.match(
    second.output_text,
    /The tool get_weather returned: snow image\/png, 70 bytes\nThe tool run_code returned: done/,
  );
  input.push(...(second.output as Input[]), { role: "user", content: "thanks" });
  assert.match(
    (await openai.responses.create({ ...request, input, tool_choice: "none" })).output_text,
    /^You said: thanks/,
  );
});

test("tools are called according to the choice", async (t) => {
  const { openai } = await startSimulator(t);
  const callsOf = async (input: string, more: object = {}) => {
    const { output } = await openai.responses.create({
      model: "sim-text",
      input,
      tools: [weather, clock, code, { type: "web_search" }],
      ...more,
    });
    return output.flatMap((item) =>
      item.type === "function_call" || item.type === "custom_tool_call" ? [item.name] : [],
    );
  };
  assert.deepEqual(await callsOf("Good morning"), []);
  assert.deepEqual(await callsOf("Good morning", { tool_choice: "required" }), ["get_weather"]);
  assert.deepEqual(await callsOf("get_time", { tool_choice: "none" }), []);
  assert.deepEqual(await callsOf("Good morning", { tool_choice: { type: "function", name: "get_time" } }), [
    "get_time",
  ]);
  assert.deepEqual(await callsOf("Good morning", { tool_choice: { type: "custom", name: "run_code" } }), ["run_code"]);
  const allowed = { type: "allowed_tools", mode: "required", tools: [{ type: "function", name: "get_time" }] };
  assert.deepEqual(await callsOf("Good morning", { tool_choice: allowed }), ["get_time"]);
  assert.deepEqual(await callsOf("get_time, then get_weather"), ["get_time", "get_weather"]);
  assert.deepEqual(await callsOf("get_time, then get_weather", { parallel_tool_calls: false }), ["get_time"]);
});

test("the client's helper parses a JSON answer", async (t) => {
  const { openai } = await startSimulator(t);
  const schema = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer", minimum: 18 } },
    required: ["name", "age"],
    additionalProperties: false,
  };
  const text = { format: { type: "json_schema" as const, name: "person", strict: true, schema } };
  const parsed = await openai.responses.parse<
    { model: string; input: string; text: typeof text },
    { name: string; age: number }
  >({
    model: "sim-text",
    input: "x",
    text,
  });
  assert.ok(parsed.output_parsed && parsed.output_parsed.age >= 18);
  assert.deepEqual(parsed.text?.format, text.format);
  const free = await openai.responses.create({
    model: "sim-text",
    input: "json",
    text: { format: { type: "json_object" } },
  });
  assert.equal(typeof JSON.parse(free.output_text), "object");
});

test("images and files are acknowledged", async (t) => {
  const { openai } = await startSimulator(t);
  const content: OpenAI.Responses.ResponseInputContent[] = [
    { type: "input_text", text: "What is this?" },
    { type: "input_image", detail: "auto", image_url: `data:image/png;base64,${Buffer.alloc(70).toString("base64")}` },
    { type: "input_image", detail: "auto", image_url: "https://example.com/cat.jpg" },
    {
      type: "input_file",
      filename: "a.pdf",
      file_data: `data:application/pdf;base64,${Buffer.alloc(90).toString("base64")}`,
    },
  ];
  const answer = await openai.responses.create({ model: "sim-text", input: [{ role: "user", content }] });
  assert.match(answer.output_text, /I see 2 images \(image\/png, 70 bytes; at https:\/\/example.com\/cat.jpg\)/);
  assert.match(answer.output_text, /I read 1 document \(application\/pdf, 90 bytes\)/);
  assert.ok((answer.usage?.input_tokens ?? 0) > 400);
});

test("token counts match the answer's", async (t) => {
  const { openai } = await startSimulator(t);
  const body = { model: "sim-text", input: "Good morning", instructions: "Be short.", tools: [weather] };
  const counted = await openai.responses.inputTokens.count(body);
  const { usage } = await openai.responses.create(body);
  assert.deepEqual(counted, { object: "response.input_tokens", input_tokens: usage?.input_tokens });
  assert.equal((await openai.responses.inputTokens.count({})).input_tokens, 0);
});

test("requests that the vendor would reject are rejected, with the name of the field", async (t) => {
  const { url } = await startSimulator(t);
  const user = { role: "user", content: "x" };
  const call = { type: "function_call", call_id: "call_1", name: "get_weather", arguments: "{}" };
  const output = { type: "function_call_output", call_id: "call_1", output: "y" };
  const thought = { type: "reasoning", id: "rs_1", summary: [] };
  const cases: [object, number, string | null, string | null][] = [
    [{ model: "m" }, 400, "input", "missing_required_parameter"],
    [{ input: "x" }, 400, "model", "missing_required_parameter"],
    [{ model: "m", input: [] }, 400, "input", "missing_required_parameter"],
    [{ model: "m", input: 5 }, 400, "input", null],
    [{ model: "m", input: "x", max_output_tokens: 5 }, 400, "max_output_tokens", null],
    [
      { model: "m", input: "x", previous_response_id: "resp_1" },
      400,
      "previous_response_id",
      "previous_response_not_found",
    ],
    [{ model: "m", input: "x", background: true }, 400, "background", "unsupported_parameter"],
    [{ model: "m", input: "x", conversation: "conv_1" }, 400, "conversation", "unsupported_parameter"],
    [{ model: "m", input: [{ type: "item_reference", id: "msg_1" }] }, 404, "input", null],
    [{ model: "m", input: [{ type: "nonsense" }] }, 400, "input[0].type", "invalid_value"],
    [{ model: "m", input: [{ role: "robot", content: "x" }] }, 400, "input[0].role", null],
    [
      { model: "m", input: [{ role: "user", content: [{ type: "text", text: "x" }] }] },
      400,
      "input[0].content[0].type",
      "invalid_value",
    ],
    [
      { model: "m", input: [user, { role: "assistant", content: [{ type: "input_text", text: "x" }] }] },
      400,
      "input[1].content[0].type",
      "invalid_value",
    ],
    [
      { model: "m", input: [{ role: "user", content: [{ type: "input_text" }] }] },
      400,
      "input[0].content[0].text",
      null,
    ],
    [
      { model: "m", input: [{ role: "user", content: [{ type: "input_image", image_url: "cat.png" }] }] },
      400,
      "input[0].content[0].image_url",
      "invalid_value",
    ],
    [{ model: "m", input: [user, { ...call, id: "call_1" }, output] }, 400, "input[1].id", "invalid_value"],
    [{ model: "m", input: [user, { ...call, arguments: {} }, output] }, 400, "input[1].arguments", null],
    [{ model: "m", input: [user, { ...call, call_id: "c".repeat(65) }] }, 400, "input[1].call_id", null],
    [{ model: "m", input: [user, output] }, 400, "input", null],
    [{ model: "m", input: [output, call] }, 400, "input", null],
    [{ model: "m", input: [user, call, { ...output, type: "custom_tool_call_output" }] }, 400, "input", null],
    [{ model: "m", input: [user, call, { ...call, call_id: "call_2" }, output] }, 400, "input", null],
    [{ model: "m", input: [user, call, user] }, 400, "input", null],
    [
      { model: "m", input: [user, { ...thought, encrypted_content: "made up" }] },
      400,
      "input",
      "invalid_encrypted_content",
    ],
    [{ model: "m", input: [user, thought], store: false }, 404, "input", null],
    [{ model: "m", input: [user, { type: "reasoning", id: "rs_1" }] }, 400, "input[1].summary", null],
    [{ model: "m", input: "x", tools: [{ type: "function", function: { name: "f" } }] }, 400, "tools[0].name", null],
    [{ model: "m", input: "x", tools: [{ type: "function", name: "a.b" }] }, 400, "tools[0].name", null],
    [{ model: "m", input: "x", tools: [{ type: "nonsense" }] }, 400, "tools[0].type", "invalid_value"],
    [
      { model: "m", input: "x", tools: [weather], tool_choice: { type: "function", name: "none" } },
      400,
      "tool_choice",
      null,
    ],
    [{ model: "m", input: "x", tool_choice: "required" }, 400, "tool_choice", null],
    [
      { model: "m", input: "x", text: { format: { type: "json_schema", json_schema: {} } } },
      400,
      "text.format.name",
      "missing_required_parameter",
    ],
    [
      { model: "m", input: "x", text: { format: { type: "json_schema", name: "a", schema: false } } },
      400,
      "text.format.schema",
      null,
    ],
    [{ model: "m", input: "x", reasoning: { effort: "extreme" } }, 400, "reasoning.effort", null],
  ];
  for (const [body, status, param, errorCode] of cases) {
    const heard = await ask({ url, path, body });
    const { error } = JSON.parse(heard.text);
    assert.deepEqual(
      [heard.status, error?.param, error?.code, error?.type],
      [status, param, errorCode, "invalid_request_error"],
      JSON.stringify(body),
    );
  }
  const waiting = await ask({ url, path, body: { model: "m", input: [user, call, { ...call, call_id: "call_2" }] } });
  assert.equal(waiting.status, 200);
});

test("changed reasoning is rejected", async (t) => {
  const { openai } = await startSimulator(t);
  const { output } = await openai.responses.create({ model: "sim-reasoning", input: "x", include });
  const [thought] = output;
  assert.ok(thought?.type === "reasoning" && thought.encrypted_content);
  const replay = (item: object) =>
    openai.responses.create({ model: "sim-text", input: [item as Input, { role: "user", content: "go on" }] });
  await replay(thought);
  const { id: _, ...nameless } = thought;
  await replay(nameless);
  for (const spoilt of [
    { ...thought, id: "rs_other" },
    { ...thought, encrypted_content: `${thought.encrypted_content.slice(0, -8)}AAAAAAAA` },
    { ...thought, encrypted_content: "" },
  ])
    await assert.rejects(
      replay(spoilt),
      (error) => error instanceof OpenAI.BadRequestError && error.code === "invalid_encrypted_content",
    );
});

test("an error in the stream is an error event and a failed response, in sequence at any position", async (t) => {
  const { url, openai } = await startSimulator(t);
  const body = { input: "x", stream: true, reasoning: { effort: "low" } };
  for (const [model, reasoning, tokens] of [
    ["error=0", 0, 0],
    ["error=0;early-opening", 0, 0],
    ["error=5", 5, 0],
    ["error=11", 8, 3],
    ["error=28", 8, 20],
  ] as const) {
    for (const summary of ["auto", null]) {
      const heard = await ask({
        url,
        path,
        body: { ...body, model: `sim-text;tokens=20;${model}`, reasoning: { effort: "low", summary } },
      });
      const events = eventsOf(heard.events);
      assert.deepEqual(
        events.map(({ sequence_number: number }) => number),
        events.map((_, index) => index),
      );
      const [error, failed] = events.slice(-2);
      assert.ok(error?.type === "error" && failed?.type === "response.failed");
      assert.deepEqual([error.message, error.code], [failed.response.error?.message, failed.response.error?.code]);
      assert.equal(events.filter(({ type }) => type === "response.output_text.delta").length, tokens);
      assert.equal(
        events.filter(({ type }) => type === "response.reasoning_summary_text.delta").length,
        summary ? reasoning : 0,
      );
    }
  }
  const stream = await openai.responses.create({ model: "sim-text;error=2", input: "x", stream: true });
  await assert.rejects(
    async () => {
      for await (const _ of stream);
    },
    { message: /told to fail/ },
  );
});

test("other faults apply after the given tokens, and the answer never looks finished", async (t) => {
  const { url } = await startSimulator(t);
  const typesOf = async (settings: string) => {
    const heard = await ask({ url, path, body: { model: `sim-text;tokens=10;${settings}`, input: "x", stream: true } });
    const isWhole = (event: string) => event.endsWith("}") && event.startsWith("{");
    const types = eventsOf(heard.events.filter(isWhole)).map(({ type }) => type);
    return {
      status: heard.status,
      ended: heard.ended,
      texts: types.filter((type) => type === "response.output_text.delta").length,
      last: types.at(-1),
    };
  };
  const [delta, done] = ["response.output_text.delta", "response.output_item.done"];
  assert.deepEqual(await typesOf("cut=4"), { status: 200, ended: "clean", texts: 4, last: delta });
  assert.deepEqual(await typesOf("cut=10"), { status: 200, ended: "clean", texts: 10, last: delta });
  assert.deepEqual(await typesOf("reset=4"), { status: 200, ended: "ECONNRESET", texts: 4, last: delta });
  assert.deepEqual(await typesOf("no-end"), { status: 200, ended: "clean", texts: 10, last: done });
  assert.deepEqual(await typesOf("malformed=1"), { status: 200, ended: "clean", texts: 9, last: "response.completed" });
  assert.deepEqual(await typesOf("status=503"), { status: 503, ended: "clean", texts: 0, last: undefined });
  const heard = await ask({ url, path, body: { model: "sim-text;usage=never", input: "x", stream: true } });
  assert.equal(checkedLifeCycle(eventsOf(heard.events)).usage, null);
});
