import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { verbatim } from "#dialects/anthropic-messages/verbatim.ts";
import type { StreamRelay } from "#dialects/codec.ts";
import { wrappedSignatureMark, wrappedSignatureOf } from "#dialects/neutral/wrapped-signature.ts";
import { targetOf } from "../../../support/target.ts";

const target = targetOf("anthropic-messages", "theirs");
const requestOf = (text: string) => verbatim.request(Buffer.from(text), "sse", target)?.body.toString();
const streamOf = () => verbatim.stream(Buffer.alloc(0), "sse", { id: "abc123", model: "mine" });

/** The texts that a caller gets for these events, by event. */
function relayed(stream: StreamRelay, ...events: (string | ({ type: string } & Record<string, unknown>))[]): string[] {
  return events.map((event) => {
    const out: Buffer[] = [];
    if (typeof event === "string") stream.push({ event: undefined, data: Buffer.from(event) }, out);
    else stream.push({ event: event.type, data: Buffer.from(JSON.stringify(event)) }, out);
    return Buffer.concat(out).toString();
  });
}

const shown = (...events: { type: string }[]) =>
  events
    .map(
      (event) =>
        `event: ${event.type}\ndata: ${JSON.stringify(event).replace('"model":"theirs"', '"model":"mine"')}\n\n`,
    )
    .join("");

const began = {
  type: "message_start",
  message: {
    id: "msg_1",
    model: "theirs",
    usage: { input_tokens: 6, cache_read_input_tokens: 4, output_tokens: 1 },
    new: 1,
  },
};
const ping = { type: "ping" };
const start = { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } };
const chunk = { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: '"model":"theirs"' } };
const stop = { type: "content_block_stop", index: 0 };
const ended = {
  type: "message_delta",
  delta: { stop_reason: "end_turn" },
  usage: { output_tokens: 7, output_tokens_details: { thinking_tokens: 2 } },
};
const over = { type: "message_stop", tomorrow: true };

test("only the model's name of a request changes: unknown fields, large numbers, order and white space stay", () => {
  const text =
    '\n{ "top_k" : 12345678901234567890,\t"model":"mine", "x":{"model":"inner"}, "\\u006dodel":"b", "é":"\\u00e9 " }\n';
  assert.equal(requestOf(text), text.replace('"mine"', '"theirs"').replace('"b"', '"theirs"'));
  assert.deepEqual(verbatim.request(Buffer.from('{"model":"m"}'), "whole", target)?.headers, {
    "anthropic-version": "2023-06-01",
  });
});

test("other vendors' reasoning is removed from a request, and nothing else", () => {
  const foreign = (dialect: "gemini" | "anthropic-messages") => ({
    type: "thinking",
    thinking: "x",
    signature: wrappedSignatureOf({ dialect, data: "S" }),
  });
  const native = { type: "thinking", thinking: "y", signature: "native" };
  const call = { type: "tool_use", id: "c", name: "n", input: {} };
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "c" }] };
  const ask = { role: "user", content: "hi" };
  const turn = (...content: object[]) => ({ role: "assistant", content });
  const sentWith = (messages: object[], thinking: object) => {
    const text = JSON.stringify({ model: "m", thinking, messages }).replace("{", '{"big":12345678901234567890,');
    const body = requestOf(text) as string;
    assert.ok(body.startsWith('{"big":12345678901234567890,"model":"theirs",'));
    return JSON.parse(body);
  };
  const enabled = { type: "enabled", budget_tokens: 2_000 };
  const kept = sentWith(
    [ask, turn(foreign("gemini")), ask, turn(foreign("anthropic-messages"), foreign("gemini"), native, call), result],
    enabled,
  );
  assert.deepEqual(kept.messages, [
    ask,
    ask,
    turn({ type: "thinking", thinking: "x", signature: "S" }, native, call),
    result,
  ]);
  assert.deepEqual(kept.thinking, enabled);
  const lost = [ask, turn(foreign("gemini"), call), result];
  assert.deepEqual(sentWith(lost, enabled).thinking, { type: "disabled" });
  assert.deepEqual(sentWith(lost, { type: "adaptive" }).thinking, { type: "adaptive" });
});

test("a stream keeps every byte except the model's name; opening events are held back until there is content", () => {
  const stream = streamOf();
  assert.deepEqual(relayed(stream, began, ping, start), ["", "", ""]);
  assert.equal(stream.committed, false);
  assert.deepEqual(relayed(stream, chunk, ping, stop), [
    shown(began, ping, start) + shown({ ...chunk }).replaceAll("mine", "theirs"),
    shown(ping),
    shown(stop),
  ]);
  assert.deepEqual([stream.finished, stream.complete, stream.ended], [false, false, false]);
  assert.deepEqual(relayed(stream, ended), [shown(ended)]);
  assert.deepEqual([stream.finished, stream.ended], [true, false]);
  assert.deepEqual(relayed(stream, over, chunk), [shown(over), ""]);
  assert.deepEqual([stream.ended, stream.malformedEvents], [true, 0]);
  assert.deepEqual(stream.usage, {
    inputTokens: 10,
    cachedInputTokens: 4,
    cacheWriteTokens: 0,
    outputTokens: 7,
    reasoningTokens: 2,
  });
});

test("blocks with content at their start count as content, and so does the end of an empty answer", () => {
  const begins = (type: string) => ({ type: "content_block_start", index: 0, content_block: { data: "x", type } });
  for (const [event, committed] of [
    [begins("text"), false],
    [begins("thinking"), false],
    [begins("tool_use"), true],
    [begins("redacted_thinking"), true],
    [begins("server_tool_use"), true],
    [ended, true],
    [{ ...ended, delta: { stop_reason: null } }, false],
    [{ type: "unheard_of" }, false],
  ] as const) {
    const stream = streamOf();
    relayed(stream, began, event);
    assert.equal(stream.committed, committed, JSON.stringify(event));
  }
});

test("the input of a call that comes with its start comes as a part too, because clients read no other", () => {
  const block = (input: object) => ({ type: "tool_use", id: "toolu_1", name: "f", input });
  const begin = (input: object) => ({ type: "content_block_start", index: 0, content_block: block(input) });
  const part = (text: string) => ({
    type: "content_block_delta",
    index: 0,
    delta: { type: "input_json_delta", partial_json: text },
  });
  const end = { type: "content_block_stop", index: 0 };
  for (const [events, added] of [
    [[begin({ a: "x" }), end], [part('{"a":"x"}')]],
    [[begin({ a: "x" }), part(""), end], [part('{"a":"x"}')]],
    [[begin({ a: "x" }), part('{"a":'), part('"x"}'), end], []],
    [[begin({}), part('{"a":"x"}'), end], []],
    [[begin({}), end], []],
  ] as const) {
    const out = relayed(streamOf(), began, ...events).join("");
    assert.equal(out, shown(began, ...events.slice(0, -1), ...added, end), JSON.stringify(events));
  }
});

test("blocks are counted from zero, because clients keep them in a list by their index", () => {
  const block = (kind: string) => ({ type: "content_block_start", content_block: { type: kind } });
  const delta = (text: string) => ({ type: "content_block_delta", delta: { type: "text_delta", text } });
  const end = { type: "content_block_stop" };
  type Steps = [event: { type: string }, index: number, expected: number | undefined][];
  const streams: Steps[] = [
    // https://github.com/jundot/omlx/issues/1353
    [
      [block("thinking"), 0, 0],
      [delta("a"), 0, 0],
      [end, 0, 0],
      [block("text"), 2, 1],
      [delta("b"), 2, 1],
      [delta("c"), 2, 1],
      [end, 2, 1],
    ],
    // https://github.com/QuantumNous/new-api/issues/5482
    [
      [block("text"), 0, 0],
      [end, 0, 0],
      [end, 0, undefined],
      [end, 3, undefined],
      [block("text"), 4, 1],
      [delta("a"), 4, 1],
      [end, 4, 1],
    ],
    [
      [block("text"), 0, 0],
      [delta("a"), 0, 0],
      [delta("b"), 0, 0],
      [end, 0, 0],
      [block("text"), 0, 1],
      [delta("c"), 0, 1],
      [delta("d"), 0, 1],
      [end, 0, 1],
    ],
    [
      [block("text"), 1, 0],
      [block("text"), 0, 1],
      [delta("a"), 0, 1],
      [delta("b"), 1, 0],
    ],
  ];
  for (const steps of streams) {
    const stream = streamOf();
    relayed(stream, began, block("tool_use"), end);
    const seen = relayed(stream, ...steps.map(([event, index]) => ({ ...event, index })));
    const expected = steps.map(([event, , place]) =>
      place === undefined ? "" : shown({ ...event, index: place + 1 } as { type: string }),
    );
    assert.deepEqual(seen, expected);
  }
});

test("a missing usage is added, because clients read it without a check", () => {
  const counts = (input: number, output: number) => ({
    input_tokens: input,
    cache_creation_input_tokens: 0,
    cache_read_input_tokens: 0,
    output_tokens: output,
    output_tokens_details: { thinking_tokens: 0 },
    server_tool_use: null,
  });
  const bare = { type: "message_start", message: { id: "msg_1", model: "theirs" } };
  const end = { type: "message_delta", delta: { stop_reason: "end_turn" } };
  const started = relayed(streamOf(), bare, chunk, { ...end, usage: null })[1] as string;
  assert.ok(started.startsWith(shown({ ...bare, message: { ...bare.message, usage: counts(0, 0) } } as never)));
  const counted = { ...bare, message: { ...bare.message, usage: { input_tokens: 6, output_tokens: 1 } } };
  assert.equal(relayed(streamOf(), counted, chunk, end)[2], shown({ ...end, usage: counts(6, 5) } as never));
  const answer = verbatim.answer(Buffer.from('{"content":[],"stop_reason":"end_turn"}'), { id: "a", model: "m" });
  assert.ok(answer.kind === "answer");
  assert.deepEqual(JSON.parse(answer.body.toString()).usage, counts(0, 0));
});

test("the stop reason is one of Anthropic's and says whether there are calls", () => {
  const text = { type: "text", text: "a" };
  const use = { type: "tool_use", id: "t", name: "f", input: {} };
  const search = { type: "server_tool_use", id: "s", name: "web_search", input: {} };
  for (const [content, sent, expected] of [
    // https://github.com/BerriAI/litellm/issues/34692
    [[text, use], "end_turn", "tool_use"],
    [[use], "stop", "tool_use"],
    [[use, use], "tool_calls", "tool_use"],
    [[use], "tool_use", "tool_use"],
    [[use], "max_tokens", "max_tokens"],
    [[use], "refusal", "refusal"],
    [[use], "stop_sequence", "stop_sequence"],
    [[use], "pause_turn", "pause_turn"],
    // https://github.com/jasonxu114514/opencode2api/pull/27
    [[text], "tool_use", "end_turn"],
    [[text], "tool_calls", "end_turn"],
    [[text, search], "tool_use", "end_turn"],
    [[text, search], "pause_turn", "pause_turn"],
    [[text], "end_turn", "end_turn"],
    [[text], "stop", "end_turn"],
    [[text], "length", "max_tokens"],
    [[text], "content_filter", "refusal"],
    [[text], "model_context_window_exceeded", "model_context_window_exceeded"],
    [[text], "compaction", "compaction"],
    [[text], "something_new", "something_new"],
    [[text], null, null],
  ] as const) {
    const what = JSON.stringify([content, sent]);
    const message = { id: "msg_1", model: "mine", content, stop_reason: sent, usage: {} };
    const whole = verbatim.answer(Buffer.from(JSON.stringify(message)), { id: "1", model: "mine" });
    assert.ok(whole.kind === "answer");
    assert.equal(whole.body.toString(), JSON.stringify({ ...message, stop_reason: expected }), what);
    if (sent === null) continue;
    const stream = streamOf();
    const blocks = content.flatMap((block, index) => [
      { ...start, index, content_block: block },
      { ...stop, index },
    ]);
    const end = { ...ended, delta: { stop_reason: sent, stop_sequence: null } };
    const shownEnd = shown({ ...end, delta: { ...end.delta, stop_reason: expected } } as typeof ended);
    assert.ok(
      relayed(stream, began, ...blocks, end)
        .join("")
        .endsWith(shownEnd),
      what,
    );
    assert.equal(stream.produced.finish, whole.finish, what);
  }
});

test("a missing terminator is added, and so are missing event names, which clients need", () => {
  const stream = streamOf();
  assert.deepEqual(
    relayed(
      stream,
      JSON.stringify(began),
      JSON.stringify({ index: 1, delta: chunk.delta, type: chunk.type }),
      JSON.stringify(ended),
      "[DONE]",
    ).slice(2),
    [shown(ended), ""],
  );
  const out: Buffer[] = [];
  stream.end(out);
  assert.equal(Buffer.concat(out).toString(), 'event: message_stop\ndata: {"type":"message_stop"}\n\n');
  assert.deepEqual([stream.ended, stream.malformedEvents], [true, 0]);
});

test("errors and events that are not JSON end a stream, and nothing throws", () => {
  const failing = streamOf();
  assert.deepEqual(
    relayed(failing, began, chunk, { type: "error", error: { type: "overloaded_error", message: "busy" } }, over).slice(
      2,
    ),
    ["", ""],
  );
  assert.deepEqual([failing.error?.status, failing.error?.message], [529, "busy"]);
  const unnamed = streamOf();
  relayed(unnamed, '{"error":{"message":"no"}}');
  assert.equal(unnamed.error?.message, "no");
  for (const broken of ['{"type":"content_block_delta","del', '{"type":"message_stop"', "7", "[1]"]) {
    const stream = streamOf();
    assert.deepEqual(relayed(stream, chunk, "", broken, stop).slice(1), ["", "", ""]);
    assert.deepEqual([stream.error?.status, stream.malformedEvents], [502, 1], broken);
  }
  const types = ["message_start", "content_block_start", "message_delta", "message_stop", "error", undefined];
  fc.assert(
    fc.property(fc.constantFrom(...types), fc.oneof(fc.json(), fc.string()), (event, text) => {
      streamOf().push({ event, data: Buffer.from(text) }, []);
      verbatim.answer(Buffer.from(text), { id: "abc123", model: "m" });
      requestOf(text);
    }),
  );
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue()),
      fc.jsonValue(),
      (messages, thinking) => void requestOf(JSON.stringify({ model: wrappedSignatureMark, messages, thinking })),
    ),
  );
});

test("a whole answer keeps every byte except the model's name, and its usage is read", () => {
  const text =
    '{"id":"x", "model":"theirs","content":[],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_creation_input_tokens":5,"output_tokens":4},"big":12345678901234567890}\n';
  const answer = verbatim.answer(Buffer.from(text), { id: "abc123", model: "mine" });
  assert.ok(answer.kind === "answer");
  assert.equal(answer.body.toString(), text.replace("theirs", "mine"));
  assert.deepEqual(answer.usage, {
    inputTokens: 8,
    cachedInputTokens: 0,
    cacheWriteTokens: 5,
    outputTokens: 4,
    reasoningTokens: 0,
  });
  for (const broken of ["", "[]", "{}", text.slice(0, 60), '{"content":null}'])
    assert.equal(verbatim.answer(Buffer.from(broken), { id: "abc123", model: "m" }).kind, "malformed");
  const failed = verbatim.answer(Buffer.from('{"type":"error","error":{"type":"api_error","message":"no"}}'), {
    id: "abc123",
    model: "m",
  });
  assert.ok(failed.kind === "error" && failed.error.status === 500);
});
