/** Anthropic messages as the official client sees them. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import Anthropic from "@anthropic-ai/sdk";
import type { SimulatorOptions } from "../../../apps/simulator/server.ts";
import { ask, type Heard, startSimulator } from "../support.ts";

type Message = Anthropic.MessageParam;
type Request = Anthropic.MessageCreateParamsNonStreaming;

const user = (content: Message["content"]): Message => ({ role: "user", content });
const assistant = (content: Message["content"]): Message => ({ role: "assistant", content });
const requestOf = (content: Message["content"], more: Partial<Request> = {}): Request => ({
  model: "sim-text",
  max_tokens: 4_000,
  messages: [user(content)],
  ...more,
});

const weather: Anthropic.Tool = {
  name: "get_weather",
  input_schema: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};
const noArguments: Anthropic.Tool = { name: "list_all", input_schema: { type: "object", properties: {} } };
const thinking: Anthropic.ThinkingConfigParam = { type: "enabled", budget_tokens: 1_024 };
const png = Buffer.alloc(70).toString("base64");

async function start(t: TestContext, options: SimulatorOptions = {}) {
  const { url } = await startSimulator(t, options);
  const client = new Anthropic({ baseURL: url, apiKey: options.key ?? "sk-test-0000", maxRetries: 0 });
  const post = (
    body: object,
    headers: Record<string, string> = { "anthropic-version": "2023-06-01" },
    path = "/v1/messages",
  ) => ask({ url, path, body, headers });
  return { url, client, post };
}

const textIn = ({ content }: Pick<Anthropic.Message, "content">) =>
  content.map((block) => (block.type === "text" ? block.text : "")).join("");
const callsIn = ({ content }: Pick<Anthropic.Message, "content">) =>
  content.filter((block) => block.type === "tool_use");

/** Ids differ from request to request. */
const withoutIds = ({ content }: Anthropic.Message) =>
  content.map((block) => ({ ...block, id: "id" in block ? block.id.replace(/[0-9a-f]+$/, "") : undefined }));

interface Event {
  type: string;
  index?: number;
  content_block?: { type: string };
  delta?: { type: string };
}

/**
 * Every event has its name twice, blocks come one by one, and nothing is missing; gives the kinds
 * of the blocks and of their deltas.
 */
function blocksOf({ text, headers }: Heard): string[] {
  assert.equal(headers["content-type"], "text/event-stream; charset=utf-8");
  const events = [...text.matchAll(/^event: (.+)\ndata: (.+)\n\n/gm)].map(([, name, data]) => {
    const event: Event = JSON.parse(data as string);
    assert.equal(event.type, name);
    return event;
  });
  assert.deepEqual(
    [events[0]?.type, events.at(-2)?.type, events.at(-1)?.type],
    ["message_start", "message_delta", "message_stop"],
  );
  const kinds: string[] = [];
  let open: number | undefined;
  for (const { type, index, content_block: block, delta } of events.slice(1, -2)) {
    if (type === "content_block_start") assert.deepEqual([open, index], [undefined, kinds.length]);
    else assert.equal(index, open);
    if (type === "content_block_start") kinds.push(block?.type ?? "");
    if (type === "content_block_delta" && !kinds.at(-1)?.endsWith(delta?.type ?? ""))
      kinds[kinds.length - 1] += `>${delta?.type}`;
    open = type === "content_block_stop" ? undefined : index;
  }
  assert.equal(open, undefined);
  return kinds;
}

test("an answer repeats what the user said and counts its tokens", async (t) => {
  const { client } = await start(t);
  const answer = await client.messages.create(
    requestOf("Good morning", { system: [{ type: "text", text: "Be short." }] }),
  );
  assert.match(textIn(answer), /^You said: Good morning/);
  assert.deepEqual([answer.role, answer.stop_reason, answer.stop_sequence], ["assistant", "end_turn", null]);
  const plain = await client.messages.create(requestOf("Good morning"));
  assert.ok(answer.usage.output_tokens > 0 && answer.usage.input_tokens > plain.usage.input_tokens);
  assert.match(answer._request_id ?? "", /^req_[0-9a-f]{24}$/);
});

test("a stream has the same content as the whole answer", async (t) => {
  const { client, post } = await start(t);
  const tools = [weather, noArguments];
  const cases: { name: string; request: Request; blocks: string[] }[] = [
    { name: "text", request: requestOf("Grüße, 😀 and\n two lines"), blocks: ["text>text_delta"] },
    {
      name: "thinking",
      request: requestOf("x", { thinking }),
      blocks: ["thinking>thinking_delta>signature_delta", "text>text_delta"],
    },
    {
      name: "omitted thinking",
      request: requestOf("x", { thinking: { type: "adaptive", display: "omitted" }, output_config: { effort: "low" } }),
      blocks: ["thinking>signature_delta", "text>text_delta"],
    },
    {
      name: "redacted thinking",
      request: requestOf("x", { model: "sim-reasoning;redacted" }),
      blocks: ["redacted_thinking", "text>text_delta"],
    },
    {
      name: "parallel calls",
      request: requestOf("list_all and get_weather", { tools, thinking }),
      blocks: ["thinking>thinking_delta>signature_delta", "tool_use>input_json_delta", "tool_use>input_json_delta"],
    },
    {
      name: "a call that is cut off",
      request: requestOf("get_weather", { tools, max_tokens: 1 }),
      blocks: ["tool_use"],
    },
    { name: "nothing", request: requestOf("x", { model: "sim-text;tokens=0" }), blocks: [] },
    { name: "a refusal", request: requestOf("x", { model: "sim-text;filter=2" }), blocks: ["text>text_delta"] },
  ];
  for (const { name, request, blocks } of cases) {
    const whole = await client.messages.create(request);
    const streamed = await client.messages.stream(request).finalMessage();
    assert.deepEqual(withoutIds(streamed), withoutIds(whole), name);
    assert.deepEqual([streamed.stop_reason, streamed.stop_details], [whole.stop_reason, whole.stop_details], name);
    assert.deepEqual(
      [streamed.usage.output_tokens, streamed.usage.input_tokens],
      [whole.usage.output_tokens, whole.usage.input_tokens],
      name,
    );
    assert.deepEqual(streamed.usage.output_tokens_details, whole.usage.output_tokens_details, name);
    assert.deepEqual(blocksOf(await post({ ...request, stream: true })), blocks, name);
  }
});

test("the stop reason is reported, with the stop sequence or the reason of a refusal", async (t) => {
  const { client } = await start(t);
  const endOf = async (content: string, more: Partial<Request>) => {
    const {
      stop_reason: reason,
      stop_sequence: sequence,
      stop_details: details,
    } = await client.messages.create(requestOf(content, more));
    return [reason, sequence, details?.type];
  };
  assert.deepEqual(await endOf("one STOP two", { stop_sequences: ["never", "STOP"] }), [
    "stop_sequence",
    "STOP",
    undefined,
  ]);
  assert.deepEqual(await endOf("x", { max_tokens: 3 }), ["max_tokens", null, undefined]);
  assert.deepEqual(await endOf("x", { max_tokens: 0 }), ["max_tokens", null, undefined]);
  assert.deepEqual(await endOf("call it", { tools: [weather] }), ["tool_use", null, undefined]);
  assert.deepEqual(await endOf("x", { model: "sim-text;filter=0" }), ["refusal", null, "refusal"]);
});

test("cached tokens are counted separately, read and written, and usage can be withheld", async (t) => {
  const { client, post } = await start(t);
  const system: Anthropic.TextBlockParam[] = [
    { type: "text", text: "long ".repeat(2_000), cache_control: { type: "ephemeral" } },
  ];
  const { usage } = await client.messages.create(requestOf("x", { system, model: "sim-text;cached=1000" }));
  assert.deepEqual([usage.cache_read_input_tokens, usage.cache_creation_input_tokens], [1_000, 1_408]);
  const { input_tokens: all } = await client.messages.countTokens({ model: "sim-text", system, messages: [user("x")] });
  assert.equal(usage.input_tokens + 1_000 + 1_408, all);
  const silent = await post({ ...requestOf("x", { model: "sim-text;usage=never" }), stream: true });
  assert.doesNotMatch(silent.text, /"usage"/);
});

test("images and documents are acknowledged and counted, also in results", async (t) => {
  const { client } = await start(t);
  const image: Anthropic.ImageBlockParam = {
    type: "image",
    source: { type: "base64", media_type: "image/png", data: png },
  };
  const document: Anthropic.DocumentBlockParam = {
    type: "document",
    source: { type: "text", media_type: "text/plain", data: "four" },
  };
  const linked: Anthropic.ImageBlockParam = {
    type: "image",
    source: { type: "url", url: "https://example.com/cat.jpg" },
  };
  const shown = await client.messages.create(requestOf([{ type: "text", text: "What?" }, image, linked, document]));
  assert.match(
    textIn(shown),
    /I see 2 images \(image\/png, 70 bytes; at https:\/\/example.com\/cat.jpg\)\.\nI read 1 document \(text\/plain, 4 bytes\)/,
  );
  assert.ok(shown.usage.input_tokens > 170);
  const messages = [
    user("paint"),
    assistant([{ type: "tool_use", id: "toolu_1", name: "paint", input: {} }]),
    user([
      { type: "tool_result", tool_use_id: "toolu_1", is_error: true, content: [{ type: "text", text: "half" }, image] },
    ]),
  ];
  const result = await client.messages.create(requestOf("", { messages }));
  assert.match(textIn(result), /^The tool paint failed: half\nI see 1 image \(image\/png, 70 bytes\)/);
});

test("a tool is called according to the choice", async (t) => {
  const { client } = await start(t);
  const namesOf = async (content: string, choice?: Anthropic.ToolChoice) => {
    const answer = await client.messages.create(
      requestOf(content, { tools: [weather, noArguments], ...(choice && { tool_choice: choice }) }),
    );
    assert.equal(answer.stop_reason, callsIn(answer).length > 0 ? "tool_use" : "end_turn");
    return callsIn(answer).map(({ name }) => name);
  };
  assert.deepEqual(await namesOf("Good morning"), []);
  assert.deepEqual(await namesOf("Good morning", { type: "any" }), ["get_weather"]);
  assert.deepEqual(await namesOf("Good morning", { type: "tool", name: "list_all" }), ["list_all"]);
  assert.deepEqual(await namesOf("list_all", { type: "none" }), []);
  assert.deepEqual(await namesOf("list_all, get_weather", { type: "auto" }), ["list_all", "get_weather"]);
  assert.deepEqual(await namesOf("list_all, get_weather", { type: "auto", disable_parallel_tool_use: true }), [
    "list_all",
  ]);
});

test("a loop of calls with thinking completes if everything is sent back unchanged", async (t) => {
  const { client } = await start(t);
  for (const model of ["sim-text", "sim-text;redacted"]) {
    const messages = [user('list_all and get_weather for "Oslo"')];
    const request = requestOf("", { model, tools: [weather, noArguments], thinking, messages });
    const first = await client.messages.stream(request).finalMessage();
    assert.deepEqual(
      callsIn(first).map(({ name, input }) => [name, input]),
      [
        ["list_all", {}],
        ["get_weather", { city: "Oslo" }],
      ],
    );
    const results = callsIn(first).map(({ id, name }) => ({
      type: "tool_result" as const,
      tool_use_id: id,
      content: `${name} says 7`,
    }));
    messages.push(assistant(first.content), user(results));
    const last = await client.messages.create(request);
    assert.match(
      textIn(last),
      /^The tool list_all returned: list_all says 7\nThe tool get_weather returned: get_weather says 7/,
    );
    messages.push(assistant(last.content), user("Good morning"));
    assert.equal((await client.messages.create(request)).stop_reason, "end_turn");
  }
});

test("the client's tool runner learns that threads are not stored, and ends with a text that uses the result", async (t) => {
  const { client } = await start(t);
  const run = async (input: unknown) => `snow in ${(input as { city: string }).city}`;
  const tool = { ...weather, type: "custom" as const, run, parse: (content: unknown) => content };
  const final = await client.beta.messages.toolRunner({
    model: "sim-reasoning",
    max_tokens: 2_000,
    messages: [user('get_weather for "Oslo"')],
    tools: [tool],
  });
  assert.match(
    final.content.map((block) => (block.type === "text" ? block.text : "")).join(""),
    /The tool get_weather returned: snow in Oslo/,
  );
});

test("a JSON answer matches the schema", async (t) => {
  const { client } = await start(t);
  const schema = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer", minimum: 18 } },
    required: ["name", "age"],
  };
  const parsed = await client.messages.parse(
    requestOf("x", { output_config: { format: { type: "json_schema", schema } } }),
  );
  const person = JSON.parse(textIn(parsed));
  assert.deepEqual([Object.keys(person), person.age >= 18], [["name", "age"], true]);
});

test("token counts match the answer's", async (t) => {
  const { client } = await start(t);
  const prompt = { model: "sim-text", system: "Be short.", tools: [weather], messages: [user("Good morning")] };
  const { input_tokens: counted } = await client.messages.countTokens(prompt);
  const { usage } = await client.messages.create({ ...prompt, max_tokens: 100 });
  assert.equal(counted, usage.input_tokens);
});

test("errors map to the client's error classes, before the answer and within", async (t) => {
  const { client, post } = await start(t);
  await assert.rejects(client.messages.create(requestOf("x", { model: "m;status=429" })), Anthropic.RateLimitError);
  await assert.rejects(client.messages.create(requestOf("x", { model: "m;status=529" })), (error) => {
    assert.ok(error instanceof Anthropic.APIError && error.type === "overloaded_error");
    assert.equal((error.error as { request_id: string }).request_id, error.requestID);
    return true;
  });
  const broken = client.messages.stream(requestOf("x", { model: "m;error=2" })).finalMessage();
  await assert.rejects(broken, (error) => error instanceof Anthropic.APIError && error.type === "api_error");
  const unended = await post({ ...requestOf("x", { model: "m;no-end" }), stream: true });
  assert.ok(unended.text.includes("event: message_delta") && !unended.text.includes("message_stop"));
  const malformed = await post({ ...requestOf("x", { model: "m;tokens=4;malformed=2" }), stream: true });
  const whole = malformed.events.filter((event) => event.endsWith("}")).map((event) => JSON.parse(event).type);
  assert.deepEqual(
    [whole.filter((type) => type === "content_block_delta").length, malformed.events.length - whole.length],
    [3, 1],
  );
});

test("a required key may come in its header or as a bearer token", async (t) => {
  const { url } = await start(t, { key: "sk-right" });
  const statusWith = async (headers: Record<string, string>) =>
    (
      await ask({
        url,
        path: "/v1/messages",
        body: requestOf("x"),
        headers: { "anthropic-version": "2023-06-01", ...headers },
      })
    ).status;
  assert.equal(await statusWith({ "x-api-key": "sk-right", authorization: "" }), 200);
  assert.equal(await statusWith({ authorization: "Bearer sk-right" }), 200);
  assert.equal(await statusWith({ "x-api-key": "sk-wrong" }), 401);
});

test("changed or invalid input is a 400 that names the field", async (t) => {
  const { post, client } = await start(t);
  const thought = await client.messages.create(requestOf("get_weather", { tools: [weather], thinking }));
  const [proof, call] = thought.content;
  assert.ok(proof?.type === "thinking" && call?.type === "tool_use");
  const result = { type: "tool_result", tool_use_id: call.id, content: "snow" };
  const round = (assistantContent: object[], answered: object[] | string) => ({
    messages: [
      user("get_weather"),
      { role: "assistant", content: assistantContent },
      { role: "user", content: answered },
    ],
  });
  const text = (words: string) => ({ type: "text", text: words });
  const image = (media_type: string) => [{ type: "image", source: { type: "base64", media_type, data: png } }];
  const cases: [object, RegExp][] = [
    [{ max_tokens: undefined }, /^max_tokens: Field required$/],
    [{ messages: [] }, /^messages: /],
    [
      { messages: [{ role: "user", content: [{ type: "text", text: 7 }] }] },
      /^messages\.0\.content\.0\.text: must be string/,
    ],
    [{ messages: [{ role: "assistant", content: "x" }] }, /^messages: first message must use the "user" role$/],
    [{ messages: [{ role: "system", content: "x" }, user("x")] }, /first message must use/],
    [{ messages: [user("x"), { role: "system", content: image("image/png") }] }, /^messages\.1\.content\.0: .*system/],
    [
      { messages: [{ role: "user", content: [text("")] }] },
      /^messages\.0\.content\.0: text content blocks must be non-empty$/,
    ],
    [
      { messages: [user("x"), { role: "assistant", content: [] }, user("x")] },
      /^messages\.1: all messages must have non-empty content/,
    ],
    [{ messages: [user("x"), { role: "assistant", content: "so " }] }, /trailing whitespace/],
    [{ system: [text("")] }, /^system: /],
    [
      { messages: [user("x"), { role: "user", content: image("image/bmp") }] },
      /^messages\.1\.content\.0\.image\.source\.base64\.media_type/,
    ],
    [{ messages: [{ role: "user", content: [{ type: "image_url" }] }] }, /Input tag 'image_url'/],
    [
      round([{ ...proof, thinking: "Something else." }, call], [result]),
      /^messages\.1\.content\.0: Invalid `signature` in `thinking` block$/,
    ],
    [round([{ ...proof, signature: "c2ln" }, call], [result]), /Invalid `signature`/],
    [
      round([{ type: "redacted_thinking", data: proof.signature }, call], [result]),
      /Invalid `data` in `redacted_thinking` block/,
    ],
    [{ ...round([call], [result]), thinking, tools: [weather] }, /^messages\.1\.content\.0\.type: Expected `thinking`/],
    [
      round([proof, call], "never mind"),
      /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_/,
    ],
    [round([proof, call], [text("first"), result]), /`tool_use` ids were found without/],
    [{ messages: [user("x"), { role: "assistant", content: [proof, call] }] }, /`tool_use` ids were found without/],
    [
      round([text("so")], [result]),
      /^messages\.2\.content\.0: unexpected `tool_use_id` found in `tool_result` blocks: toolu_/,
    ],
    [round([proof, call], [result, result]), /^messages\.2\.content\.1: unexpected `tool_use_id`/],
    [round([call, call], [result]), /`tool_use` ids must be unique/],
    [round([{ ...call, id: "call:1" }], [result]), /^messages\.1\.content\.0\.id: /],
    [{ tools: [{ name: "bad name", input_schema: { type: "object" } }] }, /^tools\.0\.name: /],
    [{ tools: [{ name: "f" }] }, /^tools\.0\.custom\.input_schema: Field required$/],
    [{ tools: [weather, weather] }, /Tool names must be unique/],
    [{ tool_choice: { type: "any" } }, /^tool_choice: /],
    [{ tools: [weather], tool_choice: { type: "tool", name: "other" } }, /'other' not found/],
    [
      { tools: [weather], tool_choice: { type: "any" }, thinking },
      /Thinking may not be enabled when tool_choice forces tool use/,
    ],
    [
      { thinking: { type: "enabled", budget_tokens: 4_000 } },
      /`max_tokens` must be greater than `thinking\.budget_tokens`/,
    ],
    [{ thinking: { type: "enabled", budget_tokens: 100 } }, /^thinking\.enabled\.budget_tokens: Input should be/],
    [{ thinking: { type: "enabled" } }, /^thinking\.enabled\.budget_tokens: Field required$/],
    [{ thinking, temperature: 0.5 }, /`temperature` may only be set to 1/],
    [{ temperature: 1.5 }, /^temperature: /],
    [{ stop_sequences: ["\n"] }, /^stop_sequences: /],
    [
      { system: Array(5).fill({ ...text("x"), cache_control: { type: "ephemeral" } }) },
      /A maximum of 4 blocks with cache_control may be provided\. Found 5\./,
    ],
    [
      round([proof, call], [{ ...result, content: [{ ...text("x"), cache_control: { type: "ephemeral" } }] }]),
      /^messages\.2\.content\.0\.tool_result\.content\.0\.cache_control: cache_control may not be specified within/,
    ],
    [
      { output_config: { format: { type: "json_schema", schema: { type: "array", minItems: 9_999 } } } },
      /^output_config\.format\.schema: /,
    ],
  ];
  for (const [change, message] of cases) {
    const heard = await post({ ...requestOf("x"), ...change });
    const { type, error, request_id: requestId } = JSON.parse(heard.text);
    assert.deepEqual(
      [heard.status, type, error.type, requestId],
      [400, "error", "invalid_request_error", heard.headers["request-id"]],
      String(message),
    );
    assert.match(error.message, message);
  }
  const long = { ...requestOf("x"), thinking: { type: "enabled", budget_tokens: 4_000 }, tools: [weather] };
  const beta = { "anthropic-version": "2023-06-01", "anthropic-beta": "interleaved-thinking-2025-05-14" };
  assert.deepEqual([(await post(long)).status, (await post(long, beta)).status], [400, 200]);
  assert.equal(
    (await post({ ...requestOf("x"), ...round([proof, call], [result]), thinking, tools: [weather] })).status,
    200,
  );
});

test("the version is required, and decides which fields are allowed", async (t) => {
  const { post } = await start(t);
  const faultWith = async (headers: Record<string, string>, more: object = {}) => {
    const heard = await post({ ...requestOf("x"), ...more }, headers);
    return heard.status === 200 ? "" : JSON.parse(heard.text).error.message;
  };
  assert.equal(await faultWith({}), "anthropic-version: header is required");
  assert.match(await faultWith({ "anthropic-version": "1999-01-01" }), /is not a valid version$/);
  assert.equal(await faultWith({ "anthropic-version": "2023-06-01" }, { temperature: 0.5 }), "");
  assert.match(await faultWith({ "anthropic-version": "2026-10-21" }, { temperature: 1 }), /^temperature: /);
});
