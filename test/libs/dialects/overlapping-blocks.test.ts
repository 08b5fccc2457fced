/**
 * Servers interrupt a call's arguments with text, reasoning and other calls. Nothing of a block may
 * be lost, and blocks never overlap.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { AnswerEvent } from "#dialects/neutral/neutral.ts";

type Json = Record<string, unknown>;

/** The blocks of a streamed answer, each as its kind, a call's name, and its content. */
function blocksIn(dialect: ConversationDialect, sent: readonly Json[]): string[] {
  const decoder = codecs[dialect].streamDecoder();
  const events: AnswerEvent[] = [
    ...sent.flatMap((event) => decoder.push({ event: undefined, data: Buffer.from(JSON.stringify(event)) })),
    ...decoder.end(),
  ];
  const blocks: string[] = [];
  let isOpen = false;
  for (const event of events)
    switch (event.kind) {
      case "block": {
        assert.equal(isOpen, false, "blocks overlap");
        isOpen = event.block.kind !== undefined;
        const { block } = event;
        blocks.push(block.kind === "call" ? `call ${block.name} ` : `${block.kind} `);
        break;
      }
      case "delta":
        assert.equal(isOpen, true);
        blocks.push(`${blocks.pop()}${event.text}`);
        break;
      case "signature":
        blocks.push(`${blocks.pop()}|${event.signature.data}`);
        break;
      case "block-end":
        isOpen = false;
        break;
      default:
        blocks.push(event.kind === "finish" ? event.finish : event.kind);
    }
  return blocks;
}

const chunk = (delta: Json, reason: string | null = null) => ({
  choices: [{ index: 0, delta, finish_reason: reason }],
});
const call = (index: number | undefined, id: string | undefined, name: string | undefined, args: string) =>
  chunk({ tool_calls: [{ index, id, function: { name, arguments: args } }] });
const over = chunk({}, "tool_calls");

const start = (index: number | undefined, block: Json) => ({
  type: "content_block_start",
  index,
  content_block: block,
});
const use = (name: string, input: Json = {}) => ({ type: "tool_use", id: `toolu_${name}`, name, input });
const delta = (index: number | undefined, member: Json) => ({ type: "content_block_delta", index, delta: member });
const json = (index: number | undefined, text: string) =>
  delta(index, { type: "input_json_delta", partial_json: text });
const textDelta = (index: number | undefined, text: string) => delta(index, { type: "text_delta", text });
const stop = (index: number | undefined) => ({ type: "content_block_stop", index });
const ended = [{ type: "message_delta", delta: { stop_reason: "tool_use" } }, { type: "message_stop" }];

const added = (output_index: number | undefined, item: Json) => ({
  type: "response.output_item.added",
  output_index,
  item,
});
const itemDone = (output_index: number | undefined, item: Json) => ({
  type: "response.output_item.done",
  output_index,
  item,
});
const fn = (id: string | undefined, name: string, args = "") => ({
  type: "function_call",
  id,
  call_id: `call_${name}`,
  name,
  arguments: args,
});
const message = (id?: string) => ({ type: "message", id, role: "assistant", content: [] });
const args = (output_index: number | undefined, item_id: string | undefined, text: string) => ({
  type: "response.function_call_arguments.delta",
  output_index,
  item_id,
  delta: text,
});
const text = (output_index: number | undefined, item_id: string | undefined, words: string) => ({
  type: "response.output_text.delta",
  output_index,
  item_id,
  content_index: 0,
  delta: words,
});
const completed = { type: "response.completed", response: { status: "completed", output: [] } };

const cases: [name: string, dialect: ConversationDialect, sent: Json[], blocks: string[]][] = [
  [
    "text inside a call",
    "openai-chat",
    [
      call(0, "a", "f", '{"x":'),
      chunk({ content: "Wait" }),
      chunk({ content: "." }),
      call(0, undefined, undefined, "1}"),
      over,
    ],
    ['call f {"x":1}', "text Wait.", "calls"],
  ],
  [
    "reasoning inside a call",
    "openai-chat",
    [call(0, "a", "f", '{"x":'), chunk({ reasoning_content: "Hm" }), call(0, undefined, undefined, "1}"), over],
    ['call f {"x":1}', 'reasoning Hm|{"in":["reasoning_content"]}', "calls"],
  ],
  [
    "text, reasoning and another call inside a call",
    "openai-chat",
    [
      call(0, "a", "f", '{"x":'),
      chunk({ reasoning_content: "Hm" }),
      chunk({ content: "Well" }),
      call(1, "b", "g", '{"y":'),
      chunk({ content: "!" }),
      call(0, undefined, undefined, "1}"),
      call(1, undefined, undefined, "2}"),
      over,
    ],
    ['call f {"x":1}', 'reasoning Hm|{"in":["reasoning_content"]}', "text Well", 'call g {"y":2}', "text !", "calls"],
  ],
  [
    "a picture and a refusal inside a call",
    "openai-chat",
    [
      call(0, "a", "f", '{"x":'),
      chunk({ images: [{ image_url: { url: "data:image/png;base64,AA==" } }] }),
      chunk({ refusal: "No" }),
      call(0, undefined, undefined, "1}"),
      over,
    ],
    ['call f {"x":1}', "image ", "refusal No", "calls"],
  ],
  [
    "a call that is never completed",
    "openai-chat",
    [call(0, "a", "f", '{"x":'), chunk({ content: "Wait" }), chunk({}, "length")],
    ['call f {"x":', "text Wait", "length"],
  ],
  [
    "a call without arguments before text",
    "openai-chat",
    [call(0, "a", "f", ""), chunk({ content: "Wait" }), over],
    ["call f ", "text Wait", "calls"],
  ],
  [
    "a name that follows the id",
    "openai-chat",
    [call(0, "a", undefined, ""), call(0, undefined, "f", '{"x":'), call(0, undefined, undefined, "1}"), over],
    ['call f {"x":1}', "calls"],
  ],
  [
    "interleaved calls of one index",
    "openai-chat",
    [
      call(0, "a", "f", '{"x":'),
      call(0, "b", "g", '{"y":'),
      call(0, "a", undefined, "1}"),
      call(0, "b", undefined, "2}"),
      over,
    ],
    ['call f {"x":1}', 'call g {"y":2}', "calls"],
  ],
  [
    "whole calls of one index and one id",
    "openai-chat",
    [call(0, "a", "f", '{"x":1}'), call(0, "a", "g", '{"y":2}'), call(0, "a", "g", '{"y":3}'), over],
    ['call f {"x":1}', 'call g {"y":2}', 'call g {"y":3}', "calls"],
  ],
  [
    "calls of one id with an index each",
    "openai-chat",
    [
      call(0, "a", "f", '{"x":'),
      call(1, "a", "g", '{"y":'),
      call(0, "a", undefined, "1}"),
      call(1, "a", undefined, "2}"),
      over,
    ],
    ['call f {"x":1}', 'call g {"y":2}', "calls"],
  ],
  [
    "calls without index and id",
    "openai-chat",
    [
      call(undefined, undefined, "f", '{"x":'),
      call(undefined, undefined, undefined, "1}"),
      call(undefined, undefined, "f", '{"x":2}'),
      call(undefined, undefined, "g", ""),
      over,
    ],
    ['call f {"x":1}', 'call f {"x":2}', "call g ", "calls"],
  ],
  [
    "calls without index and arguments",
    "openai-chat",
    [call(undefined, "a", "f", ""), call(undefined, "b", "f", ""), call(undefined, "c", "g", "{}"), over],
    ["call f ", "call f ", "call g ", "calls"],
  ],
  [
    "calls without index whose id comes with every chunk",
    "openai-chat",
    [
      call(undefined, "a", "f", '{"x":'),
      call(undefined, "b", "g", '{"y":'),
      call(undefined, "a", undefined, "1}"),
      call(undefined, "b", undefined, "2}"),
      over,
    ],
    ['call f {"x":1}', 'call g {"y":2}', "calls"],
  ],
  [
    "several calls in one chunk without index",
    "openai-chat",
    [
      chunk({
        tool_calls: [
          { id: "a", function: { name: "f", arguments: "{}" } },
          { id: "b", function: { name: "g", arguments: '{"y":2}' } },
        ],
      }),
      over,
    ],
    ["call f ", 'call g {"y":2}', "calls"],
  ],
  [
    "arguments as an object",
    "openai-chat",
    [chunk({ tool_calls: [{ index: 0, id: "a", function: { name: "f", arguments: { x: 1 } } }] }), over],
    ['call f {"x":1}', "calls"],
  ],
  [
    "blocks that overlap",
    "anthropic-messages",
    [
      start(0, use("f")),
      json(0, '{"x":'),
      start(1, { type: "text", text: "" }),
      textDelta(1, "Wait"),
      start(2, use("g")),
      json(2, '{"y":'),
      json(0, "1}"),
      textDelta(1, "."),
      json(2, "2}"),
      stop(0),
      stop(1),
      stop(2),
      ...ended,
    ],
    ['call f {"x":1}', "text Wait", 'call g {"y":2}', "text .", "calls"],
  ],
  [
    "thinking that overlaps with text",
    "anthropic-messages",
    [
      start(0, { type: "thinking", thinking: "" }),
      delta(0, { type: "thinking_delta", thinking: "Hm" }),
      start(1, { type: "text", text: "" }),
      textDelta(1, "Hi"),
      delta(0, { type: "thinking_delta", thinking: "!" }),
      delta(0, { type: "signature_delta", signature: "S" }),
      stop(0),
      stop(1),
      ...ended,
    ],
    ["reasoning Hm!|S", "text Hi", "stop"],
  ],
  [
    "text of a call's index",
    "anthropic-messages",
    [start(0, use("f")), json(0, '{"x":'), textDelta(0, "Wait"), json(0, "1}"), stop(0), ...ended],
    ['call f {"x":1}', "text Wait", "calls"],
  ],
  [
    "blocks without index and without ends",
    "anthropic-messages",
    [
      start(undefined, { type: "text", text: "" }),
      textDelta(undefined, "Go"),
      start(undefined, use("f")),
      json(undefined, '{"x":1}'),
      start(undefined, use("g", { y: 2 })),
      start(undefined, { type: "text", text: "" }),
      textDelta(undefined, "."),
      ...ended,
    ],
    ["text Go", 'call f {"x":1}', 'call g {"y":2}', "text .", "calls"],
  ],
  [
    "items that overlap",
    "openai-responses",
    [
      added(0, fn("fc_1", "f")),
      args(0, "fc_1", '{"x":'),
      added(1, message("msg_1")),
      text(1, "msg_1", "Wait"),
      args(0, "fc_1", "1}"),
      text(1, "msg_1", "."),
      itemDone(0, fn("fc_1", "f", '{"x":1}')),
      itemDone(1, message("msg_1")),
      completed,
    ],
    ['call f {"x":1}', "text Wait.", "calls"],
  ],
  [
    "items that have one index",
    "openai-responses",
    [
      added(0, message("msg_1")),
      text(0, "msg_1", "Go"),
      itemDone(0, message("msg_1")),
      added(0, fn("fc_1", "f")),
      added(0, fn("fc_2", "g")),
      args(0, "fc_1", '{"x":'),
      args(0, "fc_2", '{"y":'),
      args(0, "fc_1", "1}"),
      args(0, "fc_2", "2}"),
      itemDone(0, fn("fc_1", "f")),
      itemDone(0, fn("fc_2", "g")),
      completed,
    ],
    ["text Go", 'call f {"x":1}', 'call g {"y":2}', "calls"],
  ],
  [
    "items without index and id",
    "openai-responses",
    [
      added(undefined, message()),
      text(undefined, undefined, "Go"),
      itemDone(undefined, message()),
      added(undefined, fn(undefined, "f")),
      args(undefined, undefined, '{"x":'),
      text(undefined, undefined, "Wait"),
      args(undefined, undefined, "1}"),
      itemDone(undefined, fn(undefined, "f")),
      itemDone(undefined, fn(undefined, "g", '{"y":2}')),
      completed,
    ],
    ["text Go", 'call f {"x":1}', "text Wait", 'call g {"y":2}', "calls"],
  ],
  [
    "items whose id is another in each event",
    "openai-responses",
    [
      added(0, fn("1", "f")),
      args(0, "2", '{"x":1}'),
      itemDone(0, fn("3", "f", '{"x":1}')),
      added(1, fn("4", "g")),
      args(1, "5", "{}"),
      itemDone(1, fn("6", "g", "{}")),
      completed,
    ],
    ['call f {"x":1}', "call g {}", "calls"],
  ],
];

for (const [name, dialect, sent, blocks] of cases)
  test(`nothing is lost of ${name} (${dialect})`, () => assert.deepEqual(blocksIn(dialect, sent), blocks));
