/**
 * An event that differs from an earlier one only in its text is relayed by its bytes alone. The
 * result must be the same as that of reading it: each event here goes through a stream that has
 * such a pattern, and through one that has none.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { codecs } from "#dialects/codecs.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import type { SseEvent } from "#wire/sse.ts";

interface Case {
  name: string;
  dialect: ConversationDialect;
  /** The stream's request, its first events, and one of text that makes a pattern. */
  request?: object;
  opening: string[];
  event?: string;
  of(text: string, place: number): string;
  isThought?: boolean;
}

const chunk = (delta: object, more: object = {}) =>
  JSON.stringify({
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 1_700_000_000,
    model: "vendor/model-1",
    choices: [{ index: 0, delta, logprobs: null, finish_reason: null }],
    usage: null,
    ...more,
  });

const cases: Case[] = [
  {
    name: "chat",
    dialect: "openai-chat",
    opening: [chunk({ role: "assistant", content: "" })],
    of: (content) => chunk({ content }),
  },
  {
    name: "chat with padding",
    dialect: "openai-chat",
    opening: [chunk({ role: "assistant", content: "" })],
    of: (content, place) => chunk({ content }, { obfuscation: `x7${"y".repeat(place)}` }),
  },
  {
    name: "chat with thinking",
    dialect: "openai-chat",
    opening: [chunk({ role: "assistant", content: null })],
    of: (thinking) => chunk({ content: null, reasoning_content: thinking }),
    isThought: true,
  },
  {
    name: "chat, the model last",
    dialect: "openai-chat",
    opening: [],
    of(content) {
      const { model, ...others } = JSON.parse(chunk({ content }));
      return JSON.stringify({ ...others, model });
    },
  },
  {
    name: "messages",
    dialect: "anthropic-messages",
    opening: [
      '{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}',
      '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
    ],
    event: "content_block_delta",
    of: (text) => JSON.stringify({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text } }),
  },
  {
    name: "messages with thinking, without names",
    dialect: "anthropic-messages",
    opening: ['{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}'],
    of: (thinking) =>
      JSON.stringify({ type: "content_block_delta", index: 0, delta: { type: "thinking_delta", thinking } }),
    isThought: true,
  },
  {
    name: "responses",
    dialect: "openai-responses",
    opening: [
      '{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","status":"in_progress","output":[]}}',
    ],
    event: "response.output_text.delta",
    of: (delta, place) =>
      JSON.stringify({
        type: "response.output_text.delta",
        sequence_number: place + 8,
        item_id: "msg_1",
        output_index: 0,
        content_index: 0,
        delta,
        logprobs: [],
        obfuscation: `q${place}`,
      }),
  },
];

/** The outcome of a stream of these events. */
function outcomeOf({ dialect, request = {} }: Case, events: readonly SseEvent[]) {
  const stream = codecs[dialect].verbatim.stream(Buffer.from(JSON.stringify(request)), "sse", {
    id: "abc123",
    model: "a/longer-name",
  });
  stream.produced.keepPlain();
  const out: string[] = [];
  for (const event of events) {
    const bytes: Buffer[] = [];
    stream.push(event, bytes);
    out.push(Buffer.concat(bytes).toString("latin1"));
  }
  const { outputTokens, reasoningTokens, parts, plain, reported } = stream.produced;
  const { error, finished, ended, settled, malformedEvents, usage, relayedText } = stream;
  const decoder = codecs[dialect].streamDecoder();
  const decoded = events.map((event) => decoder.push(event));
  return {
    last: out.at(-1),
    read: {
      last: decoded.at(-1),
      finished: decoder.finished,
      malformed: decoder.malformedEvents,
      usage: decoder.usage,
    },
    end: decoder.end(),
    state: { error, finished, ended, settled, malformedEvents, usage, relayedText },
    counts: { outputTokens, reasoningTokens, parts, plain, reported },
  };
}

const eventOf = (event: string | undefined, data: Buffer | string): SseEvent => ({ event, data: Buffer.from(data) });

/** The same text, with an escape: an event with one makes no pattern. */
const escaped = (json: string, text: string) =>
  json.replace(`"${text}"`, `"\\u00${Buffer.from(text[0] ?? "").toString("hex")}${text.slice(1)}"`);

function sameAsRead(one: Case, events: SseEvent[], what: string): void {
  const opening = one.opening.map((data) => eventOf(undefined, data));
  const plain = one.of("first words", 1);
  const withPattern = outcomeOf(one, [...opening, eventOf(one.event, plain), ...events]);
  const read = outcomeOf(one, [...opening, eventOf(one.event, escaped(plain, "first words")), ...events]);
  assert.deepEqual(withPattern, read, `${one.name}: ${what}`);
}

const parsesOf = (context: TestContext) => context.mock.method(JSON, "parse").mock;

for (const one of cases) {
  test(`${one.name}: an event of the pattern is not parsed, and counts as if it were`, (context) => {
    const texts = ["second", " third", "ö €", "a", "𝛑", "role", " ".repeat(5_000)];
    for (const text of texts) sameAsRead(one, [eventOf(one.event, one.of(text, 2))], JSON.stringify(text));
    sameAsRead(
      one,
      texts.map((text, place) => eventOf(one.event, one.of(text, place + 2))),
      "all",
    );
    const opening = [...one.opening, one.of("first words", 1)].map((data) => eventOf(one.event, data));
    const rest = texts.map((text, place) => eventOf(one.event, one.of(text, place + 2)));
    const parses = parsesOf(context);
    outcomeOf(
      one,
      opening.map((event, place) => (place < one.opening.length ? { ...event, event: undefined } : event)),
    );
    const before = parses.callCount();
    parses.resetCalls();
    outcomeOf(
      one,
      [...opening, ...rest].map((event, place) =>
        place < one.opening.length ? { ...event, event: undefined } : event,
      ),
    );
    // `relayedText` reads the last event.
    assert.ok(parses.callCount() - before <= 1, `${parses.callCount()} and ${before} calls`);
  });

  test(`${one.name}: any other byte makes it another event`, () => {
    const json = Buffer.from(one.of("second", 2));
    const bytes = ['"', "\\", ",", "}", "]", "0", "e", "\n", "\u0001", "\u00ff"].map((text) =>
      Buffer.from(text, "latin1"),
    );
    for (let at = 0; at <= json.length; at++) {
      for (const byte of bytes)
        for (const [what, cut] of [
          ["in place", 1],
          ["before", 0],
        ] as const) {
          const changed = Buffer.concat([json.subarray(0, at), byte, json.subarray(at + cut)]);
          sameAsRead(one, [eventOf(one.event, changed)], `${byte.toString("hex")} ${what} ${at}: ${changed}`);
        }
      const shorter = Buffer.concat([json.subarray(0, at), json.subarray(at + 1)]);
      sameAsRead(one, [eventOf(one.event, shorter)], `without ${at}: ${shorter}`);
    }
  });

  test(`${one.name}: other events between, other names, and empty texts`, () => {
    const next = eventOf(one.event, one.of("second", 2));
    const others = [
      eventOf(one.event, one.of("", 2)),
      eventOf(one.event, one.of('say "so"\n', 2)),
      eventOf(undefined, "[DONE]"),
      eventOf(undefined, "ping"),
      eventOf("ping", '{"type":"ping"}'),
      eventOf("error", one.of("second", 2)),
      eventOf("other", one.of("second", 2)),
      eventOf(undefined, '{"error":{"message":"overloaded","type":"server_error"}}'),
      eventOf(undefined, "no json"),
      eventOf(undefined, chunk({}, { choices: [{ index: 0, delta: {}, finish_reason: "stop" }] })),
      eventOf(undefined, chunk({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "{}" } }] })),
      eventOf(
        undefined,
        chunk({}, { choices: [], usage: { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 } }),
      ),
      eventOf(
        "message_delta",
        '{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}',
      ),
      eventOf(undefined, '{"type":"message_stop"}'),
      eventOf(undefined, '{"type":"response.completed","response":{"id":"resp_1","status":"completed","output":[]}}'),
    ];
    for (const other of others) {
      sameAsRead(one, [other, next], `${other.event}: ${other.data}`);
      sameAsRead(one, [next, other, next, next], `${other.event}: ${other.data}, after one`);
      for (const then of others) sameAsRead(one, [next, other, then, next], `${other.data}, ${then.data}`);
    }
  });
}

test("a chat stream with several choices, with usage in each chunk, and after its end", () => {
  const [chat] = cases as [Case];
  const of = (index: number, content: string, reason: string | null = null) =>
    chunk({}, { choices: [{ index, delta: { content }, finish_reason: reason }] });
  const two = { ...chat, request: { n: 2 } };
  const all = [
    of(0, "a"),
    of(1, "b"),
    of(0, "c"),
    of(0, "d", "stop"),
    of(1, "e"),
    of(0, "f"),
    of(1, "g", "stop"),
    of(0, "h"),
    of(0, "i"),
  ];
  for (const one of [chat, two])
    for (let from = 0; from < all.length; from++)
      sameAsRead(
        one,
        all.slice(from).map((data) => eventOf(undefined, data)),
        `from ${from}`,
      );
  const reported = ["a", "b", "c"].map((content, place) =>
    chunk({ content }, { usage: { prompt_tokens: 1, completion_tokens: place + 1, total_tokens: place + 2 } }),
  );
  sameAsRead(
    chat,
    reported.map((data) => eventOf(undefined, data)),
    "usage",
  );
});
