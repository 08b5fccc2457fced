import assert from "node:assert/strict";
import { test } from "node:test";
import { type AnswerEvent, foldedOf } from "#dialects/neutral/neutral.ts";
import { decodeAnswer } from "#dialects/openai-chat/answer.ts";
import { ChatDecoder } from "#dialects/openai-chat/stream.ts";

/** The calls of a streamed answer as id, name and arguments. */
function callsIn(deltas: readonly object[]): string[] {
  const decoder = new ChatDecoder();
  const events: AnswerEvent[] = [];
  const chunk = (delta: object, finish_reason: string | null = null) =>
    decoder.push({
      event: undefined,
      data: Buffer.from(JSON.stringify({ choices: [{ index: 0, delta, finish_reason }] })),
    });
  for (const call of deltas) events.push(...chunk({ tool_calls: [call] }));
  events.push(...chunk({}, "tool_calls"), ...decoder.end());
  const calls: string[] = [];
  for (const event of events)
    if (event.kind === "block") calls.push(event.block.kind === "call" ? `${event.block.id} ${event.block.name} ` : "");
    else if (event.kind === "delta") calls.push(`${calls.pop()}${event.text}`);
  return calls;
}

const called = (index: number | undefined, id: string | null, name: string | null, args: string) => ({
  index,
  id,
  type: "function",
  function: { name, arguments: args },
});

test("calls stay apart when a server gives all of them one index, and one call stays whole when its id changes", () => {
  const cases: [string, object[], string[]][] = [
    [
      "whole calls at index 0",
      [called(0, "a", "f", "{}"), called(0, "b", "g", '{"z":2}'), called(0, "c", "g", '{"z":3}')],
      ["a f ", 'b g {"z":2}', 'c g {"z":3}'],
    ],
    [
      "the second in parts",
      [
        called(0, "a", "f", '{"x":1}'),
        called(0, "b", "f", ""),
        called(0, null, null, '{"y":'),
        called(0, "", "", "2}"),
      ],
      ['a f {"x":1}', 'b f {"y":2}'],
    ],
    [
      "a new id with each chunk",
      [called(0, "a", "f", '{"x"'), called(0, "b", "f", ":1"), called(0, "c", null, "}"), called(0, "d", null, "")],
      ['a f {"x":1}'],
    ],
    ["no index", [called(undefined, "a", "f", "{}"), called(undefined, "b", "g", "{}")], ["a f ", "b g "]],
    [
      "empty arguments before the arguments",
      [called(0, "a", "f", "{}"), called(0, null, null, '{"x"'), called(0, null, null, ":1}")],
      ['a f {"x":1}'],
    ],
    [
      "all arguments again at the end",
      [called(0, "a", "f", '{"x":'), called(0, null, null, "1}"), called(0, null, null, '{"x":1}')],
      ['a f {"x":1}'],
    ],
    ["the whole call again", [called(0, "a", "f", '{"x":1}'), called(0, "a", "f", '{"x":1}')], ['a f {"x":1}']],
    ["empty arguments again", [called(0, "a", "f", "{}"), called(0, null, null, "{}")], ["a f "]],
    [
      "all arguments so far in each chunk",
      [
        called(0, "a", "f", '{"x'),
        called(0, null, null, '{"x":"{'),
        called(0, null, null, '{"x":"{'),
        called(0, null, null, '{"x":"{}"}'),
        called(0, null, null, '{"x":"{}"}'),
      ],
      ['a f {"x":"{}"}'],
    ],
    [
      "an object that begins as the one around it",
      [called(0, "a", "f", '{"x":'), called(0, null, null, '{"x":{}'), called(0, null, null, "}}")],
      ['a f {"x":{"x":{}}}'],
    ],
  ];
  for (const [name, deltas, expected] of cases) assert.deepEqual(callsIn(deltas), expected, name);
});

/** https://github.com/HKUDS/nanobot/issues/1481 */
test("text and calls in choices of their own are one answer, whatever index a choice has", () => {
  const call = { id: "a", type: "function", function: { name: "f", arguments: '{"x":1}' } };
  const parts = [
    { role: "assistant", content: "Looking." },
    { role: "assistant", tool_calls: [{ ...call, index: 0 }] },
  ];
  const expected = { blocks: ["text Looking.", 'call f {"x":1}'], finish: "calls" };
  const seenIn = (events: readonly AnswerEvent[]) => {
    const answer = foldedOf(events);
    assert.ok(answer !== undefined && !("error" in answer));
    const blocks = answer.blocks.map((block) =>
      block.kind === "call"
        ? `call ${block.name} ${block.input}`
        : `${block.kind} ${"text" in block ? block.text : ""}`,
    );
    return { blocks, finish: answer.finish };
  };
  for (const indexes of [
    [undefined, undefined],
    [0, 1],
    [null, null],
    [0, 0],
    ["0", "0"],
  ]) {
    const choices = parts.map((part, place) => ({ index: indexes[place], part, finish_reason: "tool_calls" }));
    const whole = { choices: choices.map(({ part, ...choice }) => ({ ...choice, message: part })) };
    assert.deepEqual(seenIn(decodeAnswer(whole)), expected, String(indexes));
    const decoder = new ChatDecoder();
    const events = choices.flatMap(({ part, ...choice }) =>
      decoder.push({ event: undefined, data: Buffer.from(JSON.stringify({ choices: [{ ...choice, delta: part }] })) }),
    );
    assert.deepEqual(seenIn([...events, ...decoder.end()]), expected, `${indexes}, streamed`);
  }
});

test("a whole message in a stream is read, unless the answer has begun", () => {
  const message = {
    role: "assistant",
    content: "Hi",
    tool_calls: [{ id: "a", function: { name: "f", arguments: '{"a":1}' } }],
  };
  const call = { kind: "call", id: "a", name: "f", input: '{"a":1}' };
  const text = { kind: "text", text: "Hi" };
  const cases: [object[], object[]][] = [
    [[{ message, finish_reason: "tool_calls" }], [text, call]],
    [[{ delta: { content: "Hi" } }, { message, finish_reason: "stop" }], [text]],
    [
      [
        { delta: { content: "Hi" }, message },
        { delta: {}, message, finish_reason: "stop" },
      ],
      [text],
    ],
  ];
  for (const [choices, blocks] of cases) {
    const decoder = new ChatDecoder();
    const events = choices.flatMap((choice) =>
      decoder.push({ event: undefined, data: Buffer.from(JSON.stringify({ choices: [choice] })) }),
    );
    const answer = foldedOf([...events, ...decoder.end()]);
    assert.ok(answer !== undefined && "blocks" in answer);
    assert.deepEqual(answer.blocks, blocks);
  }
});
