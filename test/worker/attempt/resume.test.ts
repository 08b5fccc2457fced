/**
 * Answers of plain text that break after their first content, for a model that says nothing of
 * resuming.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { SseReader } from "#wire/sse.ts";
import { dataEvent, typedEvent } from "../../support/upstream.ts";
import { startAttempt, streamHead } from "./start-attempt.ts";

interface Wire {
  upstream: string;
  body: object;
  /**
   * A stream of this text in two parts, with the upstream's own ids; the first part ends inside the
   * text.
   */
  stream(texts: readonly [string, string], id: string): [string, string];
  /** Settings by which the answer must be a JSON object. */
  structured: object;
  /** Something else than text, as the beginning of an answer. */
  other: string;
}

const wires: Record<ConversationDialect, Wire> = {
  "openai-chat": {
    upstream: "first",
    structured: { response_format: { type: "json_object" } },
    body: { messages: [{ role: "user", content: "hello" }] },
    stream(texts, id) {
      const chunk = (delta: object, finish: string | null = null) =>
        dataEvent({
          id,
          object: "chat.completion.chunk",
          created: 7,
          model: "x",
          choices: [{ index: 0, delta, finish_reason: finish }],
        });
      return [
        chunk({ role: "assistant", content: "" }) + chunk({ content: texts[0] }),
        `${chunk({ content: texts[1] })}${chunk({}, "stop")}data: [DONE]\n\n`,
      ];
    },
    other: dataEvent({
      choices: [
        {
          index: 0,
          delta: { tool_calls: [{ index: 0, id: "c", type: "function", function: { name: "f", arguments: "{" } }] },
        },
      ],
    }),
  },
  "openai-responses": {
    upstream: "responses",
    structured: { text: { format: { type: "json_schema", name: "a", schema: { type: "object" } } } },
    body: { input: "hello" },
    stream(texts, id) {
      let number = 0;
      const at = (type: string, fields: object) => typedEvent(type, { sequence_number: number++, ...fields });
      const part = { item_id: `msg_${id}`, output_index: 0, content_index: 0 };
      const text = texts.join("");
      const item = {
        id: `msg_${id}`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text, annotations: [] }],
      };
      return [
        at("response.created", { response: { id, status: "in_progress", output: [] } }) +
          at("response.in_progress", { response: { id, status: "in_progress", output: [] } }) +
          at("response.output_item.added", { output_index: 0, item: { ...item, status: "in_progress", content: [] } }) +
          at("response.content_part.added", { ...part, part: { type: "output_text", text: "", annotations: [] } }) +
          [...texts[0]].map((letter) => at("response.output_text.delta", { ...part, delta: letter })).join(""),
        at("response.output_text.delta", { ...part, delta: texts[1] }) +
          at("response.output_text.done", { ...part, text }) +
          at("response.output_item.done", { output_index: 0, item }) +
          at("response.completed", { response: { id, status: "completed", output: [item] } }),
      ];
    },
    other: typedEvent("response.output_item.added", {
      sequence_number: 2,
      output_index: 0,
      item: { id: "f", type: "function_call", name: "f", arguments: "" },
    }),
  },
  "anthropic-messages": {
    upstream: "messages",
    structured: { output_config: { format: { type: "json_schema", schema: { type: "object" } } } },
    body: { max_tokens: 100, messages: [{ role: "user", content: "hello" }] },
    stream(texts, id) {
      const textEvent = (text: string) =>
        typedEvent("content_block_delta", { index: 0, delta: { type: "text_delta", text } });
      return [
        typedEvent("message_start", {
          message: {
            id,
            type: "message",
            role: "assistant",
            model: "x",
            content: [],
            usage: { input_tokens: 3, output_tokens: 1 },
          },
        }) +
          typedEvent("content_block_start", { index: 0, content_block: { type: "text", text: "" } }) +
          textEvent(texts[0]) +
          typedEvent("ping", {}),
        textEvent(texts[1]) +
          typedEvent("content_block_stop", { index: 0 }) +
          typedEvent("message_delta", { delta: { stop_reason: "end_turn" }, usage: { output_tokens: 9 } }) +
          typedEvent("message_stop", {}),
      ];
    },
    other: typedEvent("content_block_start", {
      index: 0,
      content_block: { type: "tool_use", id: "t", name: "f", input: {} },
    }),
  },
  gemini: {
    upstream: "google",
    structured: { generationConfig: { responseMimeType: "application/json" } },
    body: { contents: [{ role: "user", parts: [{ text: "hello" }] }] },
    stream(texts, id) {
      const textChunk = (text: string, finishReason?: string) =>
        dataEvent({
          candidates: [{ index: 0, content: { role: "model", parts: [{ text }] }, finishReason }],
          responseId: id,
        });
      return [textChunk(texts[0]), textChunk(texts[1], "STOP")];
    },
    other: dataEvent({
      candidates: [{ index: 0, content: { role: "model", parts: [{ functionCall: { name: "f", args: {} } }] } }],
    }),
  },
};

const eventsOf = (text: string) => new SseReader(1 << 20).push(Buffer.from(text));

/** The attempt after its first target broke inside this beginning. */
async function broken(dialect: ConversationDialect, begin: string, model = "", end = "", more: object = {}) {
  const { upstream, body } = wires[dialect];
  const route = `route: [{ upstream: ${upstream}, model: a }, { upstream: ${upstream}, model: b }, { upstream: ${upstream}, model: c }]`;
  const started = startAttempt(`${model}retries: 5, ${route}`, {
    dialect,
    body: JSON.stringify({ model: "m", stream: true, ...body, ...more }),
  });
  const first = await started.called(1);
  first.head(200, streamHead);
  first.data(Buffer.from(begin));
  if (end === "") first.failed({ code: "upstream_failed", message: "The upstream broke." }, "ECONNRESET");
  else first.data(Buffer.from(end));
  return started;
}

for (const dialect of conversationDialects) {
  const { stream, other } = wires[dialect];

  for (const [how, end] of [
    ["a broken connection", ""],
    ["an error in the stream", 'data: {"error":{"message":"The server had an error","type":"server_error"}}\n\n'],
    ["an unreadable event", 'data: {"id":\n\n'],
  ] as const)
    test(`plain text goes on at the next target, which repeats it, after ${how} (${dialect})`, async () => {
      const { called, text, failure } = await broken(dialect, stream(["one ", "lost"], "theirs1")[0], "", end);
      const second = await called(2);
      second.head(200, streamHead);
      second.data(Buffer.from(stream(["one two ", "three"], "theirs2").join("")));
      second.end();
      assert.equal(failure(), null);
      const decoder = codecs[dialect].streamDecoder();
      const events = [...eventsOf(text()).flatMap((one) => decoder.push(one)), ...decoder.end()];
      assert.equal(events.flatMap((one) => (one.kind === "delta" ? [one.text] : [])).join(""), "one two three");
      assert.deepEqual(
        events.filter(({ kind }) => kind !== "delta").map(({ kind }) => kind),
        ["block", "block-end", "finish"],
      );
      const values = eventsOf(text()).flatMap(({ data }) => (data[0] === 0x7b ? [JSON.parse(String(data))] : []));
      const among = (name: string) => [...new Set(values.flatMap((value) => value[name] ?? []))];
      if (dialect === "openai-chat") assert.deepEqual([among("id"), among("created")], [["theirs1"], [7]]);
      if (dialect === "gemini") assert.deepEqual(among("responseId"), ["theirs1"]);
      if (dialect === "openai-responses") {
        assert.deepEqual(among("item_id"), ["msg_theirs1"]);
        assert.deepEqual(
          values.map((value) => value.sequence_number),
          values.map((_, place) => place),
        );
        assert.equal(values.at(-1).response.output[0].id, "msg_theirs1");
        assert.equal(values.at(-1).response.output[0].content[0].text, "one two three");
      }
      if (dialect === "anthropic-messages")
        assert.equal(text().match(/message_start|content_block_start/g)?.length, 4, "each once, with its name");
    });

  for (const [format, more, text] of [
    ["plain text", {}, "one two"],
    ["JSON", wires[dialect].structured, '{"a":1}'],
  ] as const)
    test(`a target with prefill continues plain text and starts JSON again: ${format} (${dialect})`, async () => {
      const [begin] = stream([text.slice(0, 3), ""], "theirs1");
      const { called, failure, text: received } = await broken(dialect, begin, "traits: { prefill: true }, ", "", more);
      const second = await called(2);
      const isContinued = format === "plain text";
      assert.equal(String(second.request.body).includes(JSON.stringify(text.slice(0, 3)).slice(1, -1)), isContinued);
      second.head(200, streamHead);
      const rest = isContinued ? [text.slice(3, 5), text.slice(5)] : [text.slice(0, 5), text.slice(5)];
      second.data(Buffer.from(stream(rest as [string, string], "theirs2").join("")));
      second.end();
      assert.equal(failure(), null);
      const decoder = codecs[dialect].streamDecoder();
      const events = [...eventsOf(received()).flatMap((one) => decoder.push(one)), ...decoder.end()];
      assert.equal(events.flatMap((one) => (one.kind === "delta" ? [one.text] : [])).join(""), text);
    });

  test(`an answer that differs ends with the first failure, and no further target is asked to repeat it (${dialect})`, async () => {
    const { called, text, failure } = await broken(dialect, stream(["one ", "lost"], "theirs1")[0]);
    const second = await called(2);
    second.head(200, streamHead);
    second.data(Buffer.from(stream(["another ", "answer"], "theirs2").join("")));
    while (failure() === null) await sleep(10);
    assert.equal(failure().message, "The upstream broke.");
    assert.doesNotMatch(text(), /another|answer|message_stop|response.completed|DONE/);
    assert.equal(second.isAborted, true);
  });

  test(`an answer with more than plain text, and one of a model that says so, is not resumed (${dialect})`, async () => {
    const [text] = stream(["one ", "lost"], "theirs1");
    for (const [begin, model] of [
      [other, ""],
      [text + other, ""],
      [text, "resume: false, "],
    ] as const) {
      const { failure, events } = await broken(dialect, begin, model);
      assert.equal(failure()?.message, "The upstream broke.");
      assert.equal(events.filter(({ kind }) => kind === "upstreamCallStarted").length, 1);
    }
  });
}
