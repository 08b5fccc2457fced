import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { StreamRelay } from "#dialects/codec.ts";
import { failureOf } from "#dialects/errors.ts";
import { verbatim } from "#dialects/openai-chat/verbatim.ts";
import { profiles } from "#dialects/profiles.ts";
import { upstreamErrorOf } from "#dialects/upstream-errors/upstream-errors.ts";

const streamOf = (requestBody: object = {}) =>
  verbatim.stream(Buffer.from(JSON.stringify(requestBody)), "sse", { id: "abc123", model: "mine" });
const wholeOf = (text: string) => verbatim.answer(Buffer.from(text), { id: "abc123", model: "mine" });

/** The texts that a caller gets for these events, by event. */
function relayed(stream: StreamRelay, ...events: (string | object)[]): string[] {
  return events.map((event) => {
    const out: Buffer[] = [];
    stream.push(
      { event: undefined, data: Buffer.from(typeof event === "string" ? event : JSON.stringify(event)) },
      out,
    );
    return Buffer.concat(out).toString();
  });
}

const envelope = { id: "c", object: "chat.completion.chunk", created: 1, model: "theirs" };
const chunk = (delta: object, finish: string | null = null, index = 0) => ({
  ...envelope,
  choices: [{ index, delta, finish_reason: finish }],
});
const opening = chunk({ role: "assistant", content: "" });
const usageChunk = {
  ...envelope,
  choices: [],
  usage: {
    prompt_tokens: 7,
    completion_tokens: 5,
    total_tokens: 12,
    completion_tokens_details: { reasoning_tokens: 2 },
  },
};
const shown = (event: object) => `data: ${JSON.stringify(event).replaceAll('"theirs"', '"mine"')}\n\n`;
const done = "data: [DONE]\n\n";

test("events before the first content are held back, and none is lost", () => {
  const stream = streamOf();
  assert.deepEqual(relayed(stream, opening), [""]);
  assert.equal(stream.committed, false);
  assert.deepEqual(relayed(stream, chunk({ content: "a" }), chunk({ content: "b" })), [
    shown(opening) + shown(chunk({ content: "a" })),
    shown(chunk({ content: "b" })),
  ]);
  assert.equal(stream.committed, true);
});

test("reasoning, tool calls, a refusal, an unknown delta and an empty finish all count as content", () => {
  for (const delta of [{ reasoning_content: "hm" }, { tool_calls: [{ index: 0 }] }, { refusal: "no" }, { audio: {} }]) {
    const stream = streamOf();
    relayed(stream, chunk(delta));
    assert.equal(stream.committed, true, JSON.stringify(delta));
  }
  for (const delta of [{}, { role: "assistant" }, { content: "" }, { content: null }]) {
    const stream = streamOf();
    relayed(stream, chunk(delta));
    assert.equal(stream.committed, false, JSON.stringify(delta));
    relayed(stream, chunk(delta, "stop"));
    assert.equal(stream.committed, true);
  }
});

test("a stream with endless opening events is relayed after a bound, so that memory is bounded", () => {
  const stream = streamOf();
  for (let count = 0; count < 40 && !stream.committed; count++) relayed(stream, opening);
  assert.equal(stream.committed, true);
});

test("every byte except the model's name is relayed unchanged", () => {
  const text =
    '{ "model" : "theirs",  "big":12345678901234567890, "choices":[{"index":0,"delta":{"content":"x","model":"theirs"},"new":1.0}],"id":"c","object":"o","created":1,"model":"theirs"}';
  const [event] = relayed(streamOf(), text);
  assert.equal(
    event,
    `data: ${text
      .replace('"model" : "theirs"', '"model" : "mine"')
      .replace(',"model":"theirs"}', ',"model":"theirs"}')
      .replace(/"theirs"}$/, '"mine"}')}\n\n`,
  );
});

test("the usage chunk is read, and relayed only to callers that asked for it", () => {
  for (const usageShown of [true, false, null]) {
    const stream = streamOf({ stream_options: { include_usage: usageShown } });
    const [, , usage] = relayed(stream, chunk({ content: "a" }), chunk({}, "stop"), usageChunk);
    assert.equal(usage, usageShown ? shown(usageChunk) : "");
    assert.deepEqual(stream.usage, {
      inputTokens: 7,
      cachedInputTokens: 0,
      cacheWriteTokens: 0,
      outputTokens: 5,
      reasoningTokens: 2,
    });
    assert.equal(stream.complete, true);
  }
});

test("of running usage totals the last counts, and none ends the answer", () => {
  const stream = streamOf();
  relayed(
    stream,
    { ...chunk({ content: "a" }), usage: { prompt_tokens: 7, completion_tokens: 1 } },
    { ...chunk({ content: "b" }), usage: { prompt_tokens: 7, completion_tokens: 2 } },
  );
  assert.equal(stream.usage?.outputTokens, 2);
  assert.equal(stream.complete, false);
});

test("an answer is finished when each of its choices is", () => {
  const stream = streamOf({ n: 2 });
  relayed(stream, chunk({ content: "a" }), chunk({}, "stop", 1));
  assert.equal(stream.finished, false);
  relayed(stream, chunk({}, "stop", 1));
  assert.equal(stream.finished, false, "the same choice twice");
  relayed(stream, chunk({}, "length", 0));
  assert.equal(stream.finished, true);
});

test("an empty finish reason in every chunk does not finish the answer", () => {
  const stream = streamOf();
  relayed(stream, chunk({ role: "assistant", content: "" }, ""));
  assert.equal(stream.committed, false);
  relayed(
    stream,
    chunk({ content: "a" }, ""),
    chunk({ content: "finish_reason" }),
    chunk({ content: '"finish_reason":"stop"' }),
  );
  assert.equal(stream.finished, false);
  relayed(stream, chunk({}, "stop"));
  assert.equal(stream.finished, true);
});

test("the terminator comes once, and nothing follows it", () => {
  const stream = streamOf();
  assert.deepEqual(
    relayed(stream, chunk({ content: "a" }), chunk({}, "stop"), "[DONE]", "[DONE]", chunk({ content: "b" })).slice(2),
    [done, "", ""],
  );
  const out: Buffer[] = [];
  stream.end(out);
  assert.deepEqual(out, []);
});

test("a terminator before any content is not an answer", () => {
  const stream = streamOf();
  assert.deepEqual(relayed(stream, opening, "[DONE]"), ["", ""]);
  assert.equal(stream.ended, false);
  assert.equal(stream.finished, false);
});

test("an error of any shape ends the stream", () => {
  const shapes: [string | object, { message: string; code: string | undefined; status: number | undefined }][] = [
    [
      { error: { message: "full", code: "context_length_exceeded" } },
      { message: "full", code: "context_length_exceeded", status: undefined },
    ],
    [{ error: { message: "busy", code: 429 } }, { message: "busy", code: undefined, status: 429 }],
    [{ error: { message: "busy", status: 503, code: "x" } }, { message: "busy", code: "x", status: 503 }],
    [{ error: "words" }, { message: "words", code: undefined, status: undefined }],
    [
      { error: [] },
      {
        message: "The upstream of this model reported an error without a message.",
        code: undefined,
        status: undefined,
      },
    ],
  ];
  for (const [event, expected] of shapes) {
    const stream = streamOf();
    assert.deepEqual(relayed(stream, chunk({ content: "a" }), event, chunk({ content: "b" }), "[DONE]").slice(1), [
      "",
      "",
      "",
    ]);
    const { message, code, status } = stream.error ?? {};
    assert.deepEqual({ message, code, status }, expected);
  }
  const named = streamOf();
  named.push({ event: "error", data: Buffer.from('{"message":"by name"}') }, []);
  assert.equal(named.error?.message, "by name");
  assert.equal(
    relayed(streamOf(), { ...chunk({ content: "a" }), error: null })[0],
    shown({ ...chunk({ content: "a" }), error: null }),
  );
});

test("an event that is not a JSON object ends the stream; an empty one does not", () => {
  for (const broken of ['{"choices":[{"del', "7", "hello"]) {
    const stream = streamOf();
    const texts = relayed(
      stream,
      chunk({ content: "a" }),
      "",
      chunk({ content: "b" }),
      broken,
      chunk({ content: "c" }),
    );
    assert.deepEqual(texts.slice(1), ["", shown(chunk({ content: "b" })), "", ""]);
    assert.deepEqual([stream.error?.status, stream.malformedEvents], [502, 1], broken);
  }
});

test("an event on several lines stays one event", () => {
  const [event] = relayed(
    streamOf(),
    '{"model":"theirs","id":"c","object":"o","created":1,\n"choices":[{"index":0,"delta":{"content":"x"}}]}',
  );
  assert.equal(
    event,
    'data: {"model":"mine","id":"c","object":"o","created":1,\ndata: "choices":[{"index":0,"delta":{"content":"x"}}]}\n\n',
  );
});

test("no event throws", () => {
  const any = fc.oneof(
    fc.json(),
    fc.string(),
    fc
      .record({
        choices: fc.oneof(
          fc.jsonValue(),
          fc.array(fc.record({ delta: fc.jsonValue(), finish_reason: fc.jsonValue(), index: fc.jsonValue() })),
        ),
        usage: fc.jsonValue(),
      })
      .map((value) => JSON.stringify(value)),
  );
  fc.assert(fc.property(fc.array(any), (events) => void relayed(streamOf({ n: 2 }), ...events)));
  fc.assert(fc.property(any, (text) => void wholeOf(text)));
});

test("a whole answer keeps every byte except the model's name, and its usage is read", () => {
  const text =
    '{"id":"x", "object":"o","created":1,"model":"theirs","choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7,"prompt_tokens_details":{"cached_tokens":2}},"big":12345678901234567890}\n';
  const answer = wholeOf(text);
  assert.ok(answer.kind === "answer");
  assert.equal(answer.body.toString(), text.replace("theirs", "mine"));
  assert.deepEqual(answer.usage, {
    inputTokens: 3,
    cachedInputTokens: 2,
    cacheWriteTokens: 0,
    outputTokens: 4,
    reasoningTokens: 0,
  });
  for (const broken of ["", "[]", "{}", text.slice(0, 60), '{"object":"chat.completion"}'])
    assert.equal(wholeOf(broken).kind, "malformed");
  assert.equal(wholeOf('{"error":{"message":"no"}}').kind, "error");
});

test("an error of the caller keeps the upstream's message, field and code", () => {
  const told = (status: number, error: unknown) =>
    JSON.parse(profiles["openai-chat"].errorBodyOf(failureOf(status, upstreamErrorOf(error)), "")).error;
  assert.deepEqual(
    told(400, { message: "Bad temperature.", type: "invalid_request_error", param: "temperature", code: null }),
    {
      message: "Bad temperature.",
      type: "invalid_request_error",
      param: "temperature",
      code: null,
    },
  );
  assert.deepEqual(told(422, { message: "No.", type: "x", param: null, code: "y" }), {
    message: "No.",
    type: "invalid_request_error",
    param: null,
    code: "y",
  });
  assert.equal(told(400, { message: "Too long.", code: "context_length_exceeded" }).code, "context_length_exceeded");
  assert.equal(
    told(400, { message: "Too long.", type: "context_length_exceeded", code: 400 }).code,
    "context_length_exceeded",
  );
  assert.equal(told(400, { message: "x".repeat(5_000) }).message.length, 2_000);
});

test("other errors get the gateway's own message, because the upstream's may contain addresses, accounts and keys", () => {
  const secret = "Incorrect API key sk-secret of org-secret at 10.0.0.1 for model theirs";
  for (const status of [401, 403, 404, 408, 429, 500, 502, 503, 504, 529, 302, 418]) {
    const failure = failureOf(
      status,
      upstreamErrorOf({ message: secret, type: "secret", code: "secret_code", param: "secret" }),
    );
    assert.doesNotMatch(profiles["openai-chat"].errorBodyOf(failure, ""), /secret|10\.0/, String(status));
  }
  const expected = {
    401: "upstream_failed",
    403: "upstream_failed",
    404: "upstream_failed",
    408: "upstream_timeout",
    429: "rate_limited",
    500: "upstream_failed",
    503: "overloaded",
    504: "upstream_timeout",
    529: "overloaded",
  };
  for (const [status, code] of Object.entries(expected))
    assert.equal(failureOf(Number(status), upstreamErrorOf({})).code, code);
});

test("the calls of a stream are counted from zero, because clients keep them in a list by their index", () => {
  const call = (index: number | undefined, id: string | undefined, name: string | undefined, args: string) => ({
    index,
    id,
    type: "function",
    function: { name, arguments: args },
  });
  const streams: [object[][], (number | undefined)[]][] = [
    // https://github.com/ollama/ollama/issues/15457
    [
      [[call(0, "a", "f", '{"city":"Paris"}')], [call(0, "b", "f", '{"city":"Rome"}')]],
      [0, 1],
    ],
    [
      [[call(0, "a", "f", "{}"), call(0, "b", "g", "{}")], [call(0, "c", "g", "{}")]],
      [0, 1, 2],
    ],
    [
      [[call(undefined, "a", "f", "{}")], [call(undefined, "b", "g", "{}")]],
      [0, 1],
    ],
    [
      [
        [call(0, "a", "f", '{"x":')],
        [call(0, undefined, undefined, "1}")],
        [call(0, "b", "f", '{"y":')],
        [call(0, undefined, undefined, "2}")],
      ],
      [0, 0, 1, 1],
    ],
    // https://github.com/agentgateway/agentgateway/issues/2965
    [
      [[call(1, "a", "f", "{}")], [call(2, "b", "g", "{}")], [call(2, "c", "g", "{}")]],
      [0, 1, 2],
    ],
    // https://github.com/aws-samples/bedrock-access-gateway/pull/247
    [
      [[call(-1, "a", "f", '{"x":')], [call(-1, undefined, undefined, "1}")], [call(3, "b", "g", "{}")]],
      [0, 0, 1],
    ],
    [
      [
        [call(2, "a", "f", '{"x":'), call(4, "b", "g", '{"y":')],
        [call(4, undefined, undefined, "2}"), call(2, undefined, undefined, "1}")],
      ],
      [0, 1, 1, 0],
    ],
  ];
  for (const [chunks, indexes] of streams) {
    const stream = streamOf();
    const out = relayed(
      stream,
      ...chunks.map((calls) => chunk({ tool_calls: calls })),
      chunk({}, "tool_calls"),
      "[DONE]",
    );
    const seen = out
      .join("")
      .split("\n")
      .filter((line) => line.startsWith("data: {"))
      .flatMap((line) => JSON.parse(line.slice(6)).choices[0].delta.tool_calls ?? []);
    assert.deepEqual(
      seen.map((one) => one.index),
      indexes,
    );
    assert.deepEqual(
      seen.map((one) => one.function.arguments),
      chunks.flat().map((one) => (one as ReturnType<typeof call>).function.arguments),
    );
  }
});

test("each call begins with an id of its own, a type and a name, and no later chunk has one of them", () => {
  const fn = (name: string | null, args: string) => ({ name, arguments: args });
  // Expected ids: a text is the server's, a number stands for one that the gateway makes.
  const streams: [object[], (string | number | undefined)[]][] = [
    // https://github.com/vercel/ai/issues/18440
    [
      [
        { index: 0, function: fn("f", "{}") },
        { index: 0, function: fn("f", '{"x":1}') },
      ],
      [0, 1],
    ],
    // https://github.com/CherryHQ/cherry-studio/pull/16322
    [
      [
        { index: 0, id: 123, function: fn("f", "{") },
        { index: 0, id: 123, function: fn(null, "}") },
      ],
      ["123", undefined],
    ],
    [
      [
        { index: 0, id: null, function: fn("f", "{") },
        { index: 0, id: null, function: fn(null, "}") },
      ],
      [0, undefined],
    ],
    [
      [
        { index: 0, id: " ", function: fn("f", "{") },
        { index: 0, id: " ", function: fn(null, "}") },
      ],
      [0, undefined],
    ],
    [
      [
        { index: 0, id: "a", function: fn("f", "{}") },
        { index: 1, id: "a", function: fn("g", "{}") },
      ],
      ["a", 0],
    ],
    // https://github.com/NousResearch/hermes-agent/pull/106943
    [
      [
        { index: 0, id: "a", function: fn("f", "") },
        { index: 0, id: "b", function: fn("", "{}") },
      ],
      ["a", undefined],
    ],
    // https://github.com/spring-projects/spring-ai/issues/5974,
    // https://github.com/NousResearch/hermes-agent/pull/12230
    [
      [
        { index: 0, id: "a", function: fn("f", "{") },
        { index: 0, id: "a", function: fn("f", "}") },
      ],
      ["a", undefined],
    ],
    // https://github.com/spring-projects/spring-ai/issues/6591,
    // https://github.com/sandbaseai/sandbase-harness/pull/220
    [
      [
        { index: 0, id: "a", type: "function", function: fn("f", "{") },
        { index: 0, id: "", type: "", function: fn("", "}") },
      ],
      ["a", undefined],
    ],
    [
      [
        { index: 0, type: "function", id: "a", function: { arguments: "" } },
        { index: 0, type: "function", id: "a", function: fn("f", "{") },
        { index: 0, type: "function", function: fn("f", "}") },
      ],
      ["a", undefined, undefined],
    ],
  ];
  for (const [calls, ids] of streams) {
    const stream = streamOf();
    const seen = relayed(stream, ...calls.map((call) => chunk({ tool_calls: [call] }))).map(
      (event) => JSON.parse(event.slice("data: ".length)).choices[0].delta.tool_calls[0],
    );
    const made: string[] = [];
    for (const [place, id] of ids.entries()) {
      const call = seen[place];
      const what = JSON.stringify([calls, seen]);
      if (typeof id === "number") {
        assert.match(call.id, /^call_\w{24}$/, what);
        made.push(call.id);
      } else assert.equal(call.id ?? undefined, id, what);
      if (id !== undefined && place === 0) assert.equal(call.type, "function", what);
      assert.notEqual(call.type, "", what);
    }
    const names = seen.filter((call) => call.function.name);
    assert.equal(names.length, ids.filter((id) => id !== undefined).length, JSON.stringify(seen));
    assert.equal(new Set(made).size, made.length);
  }
  const message = {
    tool_calls: [
      { id: "", function: fn("f", "{}") },
      { id: 7, function: fn("g", "{}") },
    ],
  };
  const whole = wholeOf(JSON.stringify({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] }));
  assert.ok(whole.kind === "answer");
  const [first, second] = JSON.parse(whole.body.toString()).choices[0].message.tool_calls;
  assert.match(first.id, /^call_\w{24}$/);
  assert.deepEqual([first.type, second.id], ["function", "7"]);
});

test("arguments that a server repeats are sent once", () => {
  for (const [sent, expected] of [
    // https://github.com/anomalyco/opencode/pull/17339
    [
      ["", '{"x":1}', '{"x":1}'],
      ["", '{"x":1}', ""],
    ],
    // https://github.com/NousResearch/hermes-agent/pull/35718
    [
      ['{"x', '{"x":', '{"x":', '{"x":1}'],
      ['{"x', '":', "", "1}"],
    ],
    [
      ['{"x":', '{"x":1}}'],
      ['{"x":', '{"x":1}}'],
    ],
    [
      ['{"x":1}', "\n"],
      ['{"x":1}', "\n"],
    ],
  ]) {
    const stream = streamOf();
    const chunks = (sent as string[]).map((text, place) =>
      chunk({
        tool_calls: [{ index: 0, ...(place === 0 && { id: "a", type: "function" }), function: { arguments: text } }],
      }),
    );
    const seen = relayed(stream, ...chunks).map((event) => JSON.parse(event.slice("data: ".length)));
    assert.deepEqual(
      seen.map(({ choices }) => choices[0].delta.tool_calls[0].function.arguments),
      expected,
    );
  }
});

test("arguments that a server sends as a value are text, in a stream and in a whole answer", () => {
  for (const [sent, text] of [
    [{ city: "Paris" }, '{"city":"Paris"}'],
    [{}, "{}"],
    [[], "{}"],
    [[1], "[1]"],
    ['{"city":"Paris"}', '{"city":"Paris"}'],
    ["", ""],
    [null, null],
  ]) {
    const call = { index: 0, id: "a", type: "function", function: { name: "f", arguments: sent } };
    const own = { ...call, function: { name: "f", arguments: text } };
    const [event = ""] = relayed(streamOf(), chunk({ tool_calls: [call] }));
    assert.deepEqual(JSON.parse(event.slice("data: ".length)).choices[0].delta.tool_calls, [own]);
    const message = { role: "assistant", content: null, tool_calls: [call] };
    const whole = wholeOf(JSON.stringify({ choices: [{ index: 0, message, finish_reason: "tool_calls" }] }));
    assert.equal(whole.kind, "answer");
    // A whole call always has an object: https://github.com/spring-projects/spring-ai/issues/3234
    const wholeCall = { ...call, function: { name: "f", arguments: text || "{}" } };
    if (whole.kind === "answer")
      assert.deepEqual(JSON.parse(whole.body.toString()).choices[0].message.tool_calls, [wholeCall]);
  }
});

test("a call that was cut off ends with the reason length, and any other end stays", () => {
  const call = (args: string) => ({ index: 0, id: "a", type: "function", function: { name: "f", arguments: args } });
  for (const [args, reason, expected] of [
    ['{"x":', "tool_calls", "length"],
    ['{"x":', "stop", "length"],
    ['{"x":', "content_filter", "content_filter"],
    ['{"x":', "something_new", "something_new"],
    ['{"x":1}', "tool_calls", "tool_calls"],
    ["", "tool_calls", "tool_calls"],
  ] as const) {
    const stream = streamOf();
    const [, end = ""] = relayed(stream, chunk({ tool_calls: [call(args)] }), chunk({}, reason), "[DONE]");
    assert.equal(end, shown(chunk({}, expected)), `${args}, ${reason}`);
    const whole = wholeOf(
      JSON.stringify({ choices: [{ index: 0, message: { tool_calls: [call(args)] }, finish_reason: reason }] }),
    );
    assert.ok(whole.kind === "answer");
    assert.equal(JSON.parse(whole.body.toString()).choices[0].finish_reason, expected, `${args}, ${reason}, whole`);
    assert.equal(whole.finish, stream.produced.finish);
  }
});

test("a stream that stops after calls ends with tool_calls, except where OpenAI stops too", () => {
  const call = { index: 0, id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const named = { type: "function", function: { name: "f" } };
  for (const [request, delta, reason, expected] of [
    // https://github.com/anomalyco/opencode/issues/14972, https://github.com/googleapis/python-genai/issues/2868
    [{}, { tool_calls: [call] }, "stop", "tool_calls"],
    [{ tool_choice: "auto" }, { tool_calls: [call] }, "STOP", "tool_calls"],
    [{ tool_choice: "required" }, { tool_calls: [call] }, "stop", "tool_calls"],
    [{ tool_choice: null }, { tool_calls: [{ ...call, function: { name: "f" } }] }, "eos", "tool_calls"],
    // https://github.com/vllm-project/vllm/pull/25054
    [{ tool_choice: named }, { tool_calls: [call] }, "stop", "stop"],
    [{ tool_choice: { type: "custom", custom: { name: "f" } } }, { tool_calls: [call] }, "stop", "stop"],
    [{ tool_choice: named }, { tool_calls: [call] }, "tool_calls", "tool_calls"],
    [{}, { content: "a" }, "stop", "stop"],
    [{}, { content: "a", tool_calls: [] }, "stop", "stop"],
    [{}, { tool_calls: [call] }, "content_filter", "content_filter"],
    [{}, { tool_calls: [call] }, "stop_sequence", "stop"],
    [{}, { function_call: { name: "f", arguments: "{}" } }, "stop", "stop"],
  ] as const) {
    const what = JSON.stringify([request, delta, reason]);
    const apart = relayed(streamOf(request), chunk(delta), chunk({}, reason), chunk({}, reason)).slice(1);
    for (const end of apart) assert.equal(end, shown(chunk({}, expected)), what);
    const [together = ""] = relayed(streamOf(request), chunk(delta, reason));
    assert.equal(JSON.parse(together.slice("data: ".length)).choices[0].finish_reason, expected, what);
  }
});

test("each chunk has a list of choices, and each choice a delta with a role that clients know", () => {
  const call = { index: 0, id: "a", type: "function", function: { name: "f", arguments: "{}" } };
  const choice = { index: 0, finish_reason: null };
  const message = { role: "assistant", content: "b" };
  const usage = { prompt_tokens: 1, completion_tokens: 1 };
  for (const [sent, expected] of [
    // https://github.com/vercel/ai/pull/15464, https://github.com/MiniMax-AI/MiniMax-M2.5/issues/2
    [{ choices: [{ ...choice, delta: { role: "", content: "b" } }] }, [{ ...choice, delta: message }]],
    // https://github.com/langchain-ai/langchainjs/pull/11470
    [
      { choices: [{ ...choice, delta: { role: "", tool_calls: [call] } }] },
      [{ ...choice, delta: { role: "assistant", tool_calls: [call] } }],
    ],
    // https://github.com/pydantic/pydantic-ai/issues/5165
    [{ choices: null }, []],
    [{ choices: null, usage }, []],
    // https://github.com/XSpoonAi/spoon-core/pull/179
    [{ usage }, []],
    // https://github.com/langwatch/tasks/issues/700
    [{ warning: "provider_did_not_report_usage_on_stream" }, []],
    // https://github.com/bagofwords1/bagofwords/pull/742
    [{ choices: [{ ...choice, delta: null }] }, [{ ...choice, delta: {} }]],
    [{ choices: [choice] }, [{ ...choice, delta: {} }]],
    [{ choices: [{ ...choice, delta: null, message }] }, [{ ...choice, delta: {} }]],
  ] as const) {
    const stream = streamOf({ stream_options: { include_usage: true } });
    const [, event = ""] = relayed(stream, chunk({ content: "a" }), sent);
    assert.deepEqual(JSON.parse(event.slice("data: ".length)).choices, expected);
    assert.equal(stream.error, undefined);
  }
  // https://github.com/Amm1rr/WebAI-to-API/issues/55
  const stream = streamOf();
  const ended = { ...choice, finish_reason: "stop" };
  const [event = ""] = relayed(stream, { choices: [{ ...ended, message }] });
  assert.deepEqual(JSON.parse(event.slice("data: ".length)).choices, [{ ...ended, delta: message }]);
  assert.equal(stream.finished, true);
  for (const same of [
    { ...envelope, choices: [{ ...choice, delta: { role: null, content: "b" } }] },
    { ...envelope, choices: [] },
  ])
    assert.equal(relayed(streamOf(), chunk({ content: "a" }), same)[1], shown(same));
});

test("chunks of calls whose indexes are right stay byte for byte", () => {
  const stream = streamOf();
  const chunks = [
    '{"id": "c", "object": "o", "created": 1, "model": "mine", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]}}]}',
    '{"id": "c", "object": "o", "created": 1, "model": "mine", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "function": {"arguments": "{}"}}]}}]}',
    '{"id": "c", "object": "o", "created": 1, "model": "mine", "choices": [{"index": 0, "delta": {"tool_calls": [{"index": 1, "id": "b", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}}]}',
  ];
  assert.deepEqual(
    relayed(stream, ...chunks),
    chunks.map((data) => `data: ${data}\n\n`),
  );
});
