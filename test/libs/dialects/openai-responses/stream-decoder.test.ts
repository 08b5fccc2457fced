import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import fc from "fast-check";
import { type Answer, type AnswerEvent, foldedOf } from "#dialects/neutral/neutral.ts";
import { openaiResponses } from "#dialects/openai-responses/codec.ts";
import { SseReader } from "#wire/sse.ts";

const golden = readFileSync(join(import.meta.dirname, "../../../fixtures/wire/openai-responses.sse"));
const goldenAnswer: Answer = {
  blocks: [
    {
      kind: "reasoning",
      text: "Where?\n\nGhent.",
      signature: { dialect: "openai-responses", data: "ENC", itemId: "rs_f1" },
    },
    { kind: "text", text: "Ik kijk even. ☂️" },
    { kind: "call", id: "call_f1", name: "weather", input: '{"city":"Gent"}' },
    { kind: "call", id: "call_f2", name: "exec", input: '{"input":"print(\\"a\\")\\n"}' },
  ],
  finish: "calls",
  usage: { inputTokens: 10, cachedInputTokens: 4, cacheWriteTokens: 1, outputTokens: 7, reasoningTokens: 2 },
};

const read = (events: readonly unknown[], named = false): AnswerEvent[] => {
  const decoder = openaiResponses.streamDecoder();
  const decoded = events.flatMap((event) => {
    const name = named ? (event as { type?: string }).type : undefined;
    return decoder.push({ event: name, data: Buffer.from(typeof event === "string" ? event : JSON.stringify(event)) });
  });
  return [...decoded, ...decoder.end()];
};

/** Blocks never overlap, deltas and signatures are inside of one, and nothing follows an end. */
function checkGrammar(events: readonly AnswerEvent[]): void {
  let open = false;
  for (const [place, event] of events.entries()) {
    if (event.kind === "block") assert.equal(open, false);
    else if (event.kind !== "error") assert.equal(open, event.kind !== "finish");
    if (event.kind === "block" || event.kind === "block-end") open = event.kind === "block";
    if (event.kind === "finish" || event.kind === "error") assert.equal(place, events.length - 1);
  }
}

test("a stream decodes chunk by chunk to the same events however it is split", () => {
  for (const size of [1, 7, 64, golden.length]) {
    const reader = new SseReader(1 << 16);
    const decoder = openaiResponses.streamDecoder();
    const events: AnswerEvent[] = [];
    for (let at = 0; at < golden.length; at += size)
      for (const event of reader.push(golden.subarray(at, at + size))) events.push(...decoder.push(event));
    checkGrammar(events);
    assert.deepEqual(foldedOf(events), goldenAnswer);
    assert.equal(decoder.finished, true);
    assert.ok(events.some((event) => event.kind === "delta" && event.text === "Ik kijk "));
  }
});

test("a whole answer decodes to the same as its stream", () => {
  const text = golden.toString("utf8");
  const body = JSON.parse(text.slice(text.lastIndexOf("data: ") + 6)).response;
  assert.deepEqual(foldedOf(openaiResponses.decodeAnswer(body)), goldenAnswer);
});

const added = (output_index: number, item: object) => ({ type: "response.output_item.added", output_index, item });
const over = (output_index: number, item: object) => ({ type: "response.output_item.done", output_index, item });
const completed = (response: object = {}) => ({
  type: "response.completed",
  response: { status: "completed", output: [], ...response },
});
const call = (call_id: string, args: string) => ({ type: "function_call", call_id, name: "f", arguments: args });
const message = (...content: object[]) => ({ type: "message", role: "assistant", content });
const delta = (name: string, output_index: number, text: string, fields: object = {}) => ({
  type: `response.${name}.delta`,
  output_index,
  delta: text,
  ...fields,
});

test("streams that lack parts of the life cycle are understood", () => {
  const text = (...texts: string[]) => texts.map((value) => ({ kind: "text", text: value }));
  const cases: [string, object[], unknown[]][] = [
    ["only the last event", [completed({ output: [message({ type: "output_text", text: "Hi" })] })], text("Hi")],
    ["only whole items", [over(0, message({ type: "output_text", text: "Hi" })), completed()], text("Hi")],
    [
      "only whole texts",
      [{ type: "response.output_text.done", output_index: 0, content_index: 0, text: "Hi" }, completed()],
      text("Hi"),
    ],
    [
      "no items, no indexes",
      [
        { type: "response.output_text.delta", delta: "H" },
        { type: "response.output_text.delta", delta: "i" },
        completed(),
      ],
      text("Hi"),
    ],
    [
      "no ends",
      [delta("output_text", 0, "A"), added(1, call("c", "")), delta("function_call_arguments", 1, "{}"), completed()],
      [...text("A"), { kind: "call", id: "c", name: "f", input: "{}" }],
    ],
    [
      "a call only in the last event",
      [
        added(0, message()),
        delta("output_text", 0, "A"),
        added(1, call("c", "")),
        over(1, call("c", "{}")),
        completed({
          output: [message({ type: "output_text", text: "A" }), call("c", "{}"), call("d", '{"a":1}')],
        }),
      ],
      [
        ...text("A"),
        { kind: "call", id: "c", name: "f", input: "{}" },
        { kind: "call", id: "d", name: "f", input: '{"a":1}' },
      ],
    ],
    [
      "a text only in the last event",
      [
        added(0, { type: "reasoning", id: "r" }),
        delta("reasoning_summary_text", 0, "Why?", { item_id: "r", summary_index: 0 }),
        completed({
          output: [
            { type: "reasoning", id: "r", summary: [{ type: "summary_text", text: "Why?" }] },
            message({ type: "output_text", text: "So." }),
          ],
        }),
      ],
      [{ kind: "reasoning", text: "Why?" }, ...text("So.")],
    ],
    [
      "other ids in the last event",
      [
        added(0, call("c", "")),
        over(0, call("c", "{}")),
        completed({ output: [call("other", "{}"), message({ type: "output_text", text: "" })] }),
      ],
      [{ kind: "call", id: "c", name: "f", input: "{}" }],
    ],
    [
      "inputs whose rest is in the last event",
      [
        added(0, { ...call("c", ""), id: "fc" }),
        added(1, call("d", "")),
        delta("function_call_arguments", 0, '{"city":"Par', { item_id: "fc" }),
        delta("function_call_arguments", 1, '{"a"'),
        completed({ output: [{ ...call("c", '{"city":"Paris"}'), id: "fc" }, call("d", '{"a":1}')] }),
      ],
      [
        { kind: "call", id: "c", name: "f", input: '{"city":"Paris"}' },
        { kind: "call", id: "d", name: "f", input: '{"a":1}' },
      ],
    ],
    [
      "a free text whose rest is at its end",
      [
        added(0, { type: "custom_tool_call", call_id: "c", name: "f" }),
        delta("custom_tool_call_input", 0, "a"),
        over(0, { type: "custom_tool_call", call_id: "c", name: "f", input: 'a"b' }),
        completed(),
      ],
      [{ kind: "call", id: "c", name: "f", input: '{"input":"a\\"b"}' }],
    ],
    [
      "a call's input at its end",
      [added(0, call("c", "")), over(0, call("c", '{"a":1}')), completed()],
      [{ kind: "call", id: "c", name: "f", input: '{"a":1}' }],
    ],
    [
      "a call's name at its end",
      [
        added(0, { type: "function_call" }),
        delta("function_call_arguments", 0, "{}"),
        over(0, call("c", "{}")),
        completed(),
      ],
      [{ kind: "call", id: "c", name: "f", input: "{}" }],
    ],
    [
      "a call without input",
      [added(0, call("c", "")), over(0, call("c", "")), completed()],
      [{ kind: "call", id: "c", name: "f", input: "" }],
    ],
    [
      "overlapping calls",
      [
        added(0, call("a", "")),
        added(1, call("b", "")),
        delta("function_call_arguments", 1, "{1"),
        delta("function_call_arguments", 0, "{0"),
        over(1, call("b", "{1}")),
        delta("function_call_arguments", 0, "}"),
        over(0, call("a", "{0}")),
        completed(),
      ],
      [
        { kind: "call", id: "a", name: "f", input: "{0}" },
        { kind: "call", id: "b", name: "f", input: "{1}" },
      ],
    ],
    [
      "two parts of a message",
      [
        delta("output_text", 0, "No", { content_index: 0 }),
        delta("refusal", 0, "never", { content_index: 1 }),
        completed(),
      ],
      [...text("No"), { kind: "refusal", text: "never" }],
    ],
    [
      "bare thinking",
      [
        delta("reasoning_text", 0, "Hm", { content_index: 0 }),
        delta("reasoning_text", 0, "m", { content_index: 0 }),
        over(0, { type: "reasoning", summary: [] }),
        completed(),
      ],
      [{ kind: "reasoning", text: "Hmm" }],
    ],
    [
      "thinking that is not shown",
      [
        added(0, { type: "reasoning" }),
        over(0, { id: "rs", type: "reasoning", summary: [], encrypted_content: "E" }),
        completed(),
      ],
      [{ kind: "reasoning", text: "", signature: { dialect: "openai-responses", data: "E", itemId: "rs" } }],
    ],
    [
      "a custom call without input",
      [added(0, { type: "custom_tool_call", call_id: "c", name: "x" }), completed()],
      [{ kind: "call", id: "c", name: "x", input: '{"input":""}' }],
    ],
    [
      "a picture",
      [
        added(0, { type: "image_generation_call" }),
        over(0, { type: "image_generation_call", result: "QQ==", output_format: "webp" }),
        completed(),
      ],
      [{ kind: "image", mimeType: "image/webp", data: "QQ==" }],
    ],
    [
      "tools of the upstream's own",
      [
        added(0, { type: "web_search_call" }),
        { type: "response.web_search_call.completed", output_index: 0 },
        over(0, { type: "web_search_call" }),
        delta("output_text", 1, "Hi"),
        completed(),
      ],
      text("Hi"),
    ],
    ["nothing", [completed()], []],
  ];
  for (const named of [false, true])
    for (const [name, events, blocks] of cases) {
      const decoded = read(events, named);
      checkGrammar(decoded);
      const answer = foldedOf(decoded);
      assert.ok(answer !== undefined && "blocks" in answer, name);
      assert.deepEqual(answer.blocks, blocks, name);
    }
});

test("calls without an id get ids that never repeat", () => {
  const events = [
    over(0, { type: "function_call", name: "f", arguments: {} }),
    over(1, { type: "function_call", name: "f", arguments: '{"a":1}' }),
    completed(),
  ];
  const answers = [foldedOf(read(events)), foldedOf(read(events))] as Answer[];
  const ids = answers.flatMap(({ blocks }) => blocks.map((block) => (block.kind === "call" ? block.id : "")));
  assert.equal(new Set(ids).size, 4);
  for (const id of ids) assert.match(id, /^call_[0-9a-f]{24}$/);
});

test("the finish tells the reason: complete, truncated, filtered, or tool calls", () => {
  const finishOf = (...events: object[]) =>
    read(events).flatMap((event) => (event.kind === "finish" ? [event.finish] : []));
  const incomplete = (reason?: string) => ({
    type: "response.incomplete",
    response: { status: "incomplete", ...(reason !== undefined && { incomplete_details: { reason } }) },
  });
  assert.deepEqual(finishOf(completed()), ["stop"]);
  assert.deepEqual(finishOf(over(0, call("c", "{}")), completed()), ["calls"]);
  assert.deepEqual(finishOf(over(0, call("c", "{")), incomplete("max_output_tokens")), ["length"]);
  assert.deepEqual(finishOf(incomplete("content_filter")), ["content-filter"]);
  assert.deepEqual(finishOf(incomplete()), ["length"]);
});

test("errors are read in every form, with the status of their code", () => {
  const cases: [object, object][] = [
    [
      { type: "error", code: "rate_limit_exceeded", message: "slow down", param: null },
      { code: "rate_limit_exceeded", message: "slow down", status: 429 },
    ],
    [
      { type: "error", error: { type: "invalid_request_error", code: "context_length_exceeded", message: "long" } },
      { code: "context_length_exceeded", type: "invalid_request_error" },
    ],
    [
      { type: "response.failed", response: { error: { code: "server_error", message: "oops" } } },
      { code: "server_error", message: "oops", status: 500 },
    ],
    [
      { type: "response.failed", response: { error: { code: "image_content_policy_violation", message: "no" } } },
      { means: "content_filter", status: 400 },
    ],
    [{ error: { message: "other server", code: 503 } }, { message: "other server", status: 503 }],
  ];
  for (const [event, expected] of cases) {
    const events = read([delta("output_text", 0, "Hi"), event, completed()]);
    const last = events.at(-1);
    assert.ok(last?.kind === "error");
    assert.deepEqual({ ...last.error, ...expected }, last.error);
    checkGrammar(events);
  }
  assert.deepEqual(
    openaiResponses.decodeAnswer({ status: "failed", output: [], error: { code: "slow_down", message: "m" } })[0],
    {
      kind: "error",
      error: { message: "m", code: "slow_down", type: undefined, param: undefined, status: 503 },
    },
  );
  for (const body of [{}, { status: "in_progress", output: [] }, { output: {} }])
    assert.equal(openaiResponses.decodeAnswer(body)[0]?.kind, "error");
});

test("a truncated stream is not finished, and an event that is not JSON ends it", () => {
  const decoder = openaiResponses.streamDecoder();
  const push = (text: string) => decoder.push({ event: undefined, data: Buffer.from(text) });
  for (const text of ["", JSON.stringify(delta("output_text", 0, "Hi")), "[DONE]"]) push(text);
  assert.equal(push("{")[0]?.kind, "error");
  assert.deepEqual([decoder.end(), decoder.finished, decoder.malformedEvents], [[], false, 1]);
});

test("no event throws or breaks the order of blocks", () => {
  const types = [
    "response.created",
    "response.output_item.added",
    "response.output_item.done",
    "response.output_text.delta",
    "response.output_text.done",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.reasoning_text.done",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.custom_tool_call_input.delta",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "error",
    "keepalive",
  ];
  const small = fc.oneof(
    fc.constantFrom<unknown>(undefined, null, 0, 1, -1, "", "x", [], {}),
    fc.jsonValue({ maxDepth: 2 }),
  );
  const item = fc.oneof(
    small,
    fc.record(
      {
        type: fc.constantFrom(
          "message",
          "reasoning",
          "function_call",
          "custom_tool_call",
          "image_generation_call",
          "other",
        ),
        name: small,
        call_id: small,
        arguments: small,
        input: small,
        content: small,
        summary: small,
        encrypted_content: small,
        result: small,
      },
      { requiredKeys: ["type"] },
    ),
  );
  const event = fc.oneof(
    small,
    fc.record(
      {
        type: fc.constantFrom(...types),
        output_index: fc.oneof(fc.nat(2), small),
        content_index: fc.nat(1),
        summary_index: small,
        delta: fc.oneof(fc.string(), small),
        text: small,
        arguments: small,
        input: small,
        item,
        response: fc.oneof(
          small,
          fc.record({
            output: fc.oneof(small, fc.array(item, { maxLength: 3 })),
            usage: small,
            status: small,
            error: small,
          }),
        ),
        error: small,
      },
      { requiredKeys: ["type"] },
    ),
  );
  fc.assert(
    fc.property(fc.array(event, { maxLength: 12 }), (events) => {
      const decoded = read(events.map((value) => JSON.stringify(value) ?? "null"));
      checkGrammar(decoded);
      foldedOf(decoded);
    }),
    { numRuns: 1_000 },
  );
  fc.assert(
    fc.property(
      fc.jsonValue(),
      (body) =>
        void openaiResponses.decodeAnswer({ output: [body], usage: body, ...(typeof body === "object" && body) }),
    ),
    { numRuns: 300 },
  );
});
