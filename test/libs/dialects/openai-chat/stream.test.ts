import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerEvent } from "#dialects/neutral/neutral.ts";
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
      ["a f {}", 'b g {"z":2}', 'c g {"z":3}'],
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
    ["no index", [called(undefined, "a", "f", "{}"), called(undefined, "b", "g", "{}")], ["a f {}", "b g {}"]],
  ];
  for (const [name, deltas, expected] of cases) assert.deepEqual(callsIn(deltas), expected, name);
});
