/**
 * Events that count as a part of an answer's content, and so extend the time that its upstream has
 * for the next one.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import { speechStreamOf } from "#dialects/openai/audio.ts";
import { imageStreamOf } from "#dialects/openai-images/verbatim.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { BytesReader } from "../../../apps/worker/answer/bytes-reader.ts";
import { StreamReader } from "../../../apps/worker/answer/stream-reader.ts";
import { WholeReader } from "../../../apps/worker/answer/whole-reader.ts";
import { partOf } from "../../support/part-of.ts";
import { typedEvent } from "../../support/upstream.ts";

const chat = (delta: object) => `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: null }] })}\n\n`;
const block = (delta: object) => typedEvent("content_block_delta", { index: 0, delta });
const gemini = (...parts: object[]) =>
  `data: ${JSON.stringify({ candidates: [{ index: 0, content: { role: "model", parts } }] })}\n\n`;

interface Sent {
  begin: string;
  /** Extend the time. Those in `own` do so only where the answer is not translated. */
  parts: Record<string, string>;
  own?: Record<string, string>;
  noise: Record<string, string>;
}

const everyStream = {
  "a comment": ": PROCESSING\n\n",
  "an empty line": "\n",
  "a single byte of an event": "d",
};

const dialects: Record<ConversationDialect, Sent> = {
  "openai-chat": {
    begin: chat({ role: "assistant", content: "a" }),
    parts: {
      text: chat({ content: "b" }),
      reasoning: chat({ reasoning_content: "b" }),
      arguments: chat({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: '{"a"' } }] }),
    },
    own: {
      refusal: chat({ refusal: "b" }),
      speech: chat({ audio: { data: "AAAA" } }),
      image: chat({ images: [{ image_url: { url: "data:image/png;base64,AAAA" } }] }),
      citations: chat({ annotations: [{ type: "url_citation" }] }),
      "arguments of a legacy call": chat({ function_call: { arguments: '{"a"' } }),
    },
    noise: {
      "an empty text": chat({ content: "" }),
      "no text": chat({ content: null }),
      "an empty delta": chat({}),
      "an empty list": chat({ tool_calls: [] }),
      "empty reasoning": chat({ reasoning_content: "" }),
      "no choices": 'data: {"choices":[]}\n\n',
      usage: 'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2}}\n\n',
    },
  },
  "openai-responses": {
    begin:
      typedEvent("response.created", { response: { id: "r" } }) +
      typedEvent("response.output_item.added", { output_index: 0, item: { id: "m", type: "message", content: [] } }) +
      typedEvent("response.content_part.added", {
        output_index: 0,
        content_index: 0,
        item_id: "m",
        part: { type: "output_text", text: "" },
      }) +
      typedEvent("response.output_text.delta", { output_index: 0, content_index: 0, item_id: "m", delta: "a" }),
    parts: {
      text: typedEvent("response.output_text.delta", { output_index: 0, content_index: 0, item_id: "m", delta: "b" }),
    },
    own: {
      reasoning: typedEvent("response.reasoning_summary_text.delta", { output_index: 0, item_id: "m", delta: "b" }),
      arguments: typedEvent("response.function_call_arguments.delta", { output_index: 1, item_id: "f", delta: "{" }),
      "an image": typedEvent("response.image_generation_call.partial_image", {
        output_index: 1,
        item_id: "i",
        partial_image_b64: "AAAA",
      }),
      "a step of a search": typedEvent("response.web_search_call.searching", { output_index: 1, item_id: "w" }),
      "a new item": typedEvent("response.output_item.added", { output_index: 1, item: { type: "reasoning" } }),
    },
    noise: {
      "an empty text": typedEvent("response.output_text.delta", {
        output_index: 0,
        content_index: 0,
        item_id: "m",
        delta: "",
      }),
      "a keep-alive": typedEvent("keepalive", { sequence_number: 9 }),
      "in progress": typedEvent("response.in_progress", { response: { id: "r" } }),
    },
  },
  "anthropic-messages": {
    begin:
      typedEvent("message_start", { message: { usage: { input_tokens: 1, output_tokens: 1 } } }) +
      typedEvent("content_block_start", { index: 0, content_block: { type: "text", text: "" } }) +
      block({ type: "text_delta", text: "a" }),
    parts: { text: block({ type: "text_delta", text: "b" }) },
    own: {
      thinking: block({ type: "thinking_delta", thinking: "b" }),
      signature: block({ type: "signature_delta", signature: "abcdefgh" }),
      arguments: block({ type: "input_json_delta", partial_json: '{"a"' }),
      citation: block({ type: "citations_delta", citation: { type: "char_location" } }),
      "a result of the upstream's own tool": typedEvent("content_block_start", {
        index: 1,
        content_block: { type: "web_search_tool_result", tool_use_id: "t", content: [] },
      }),
    },
    noise: {
      ping: typedEvent("ping", {}),
      "an empty text": block({ type: "text_delta", text: "" }),
      "empty thinking": block({ type: "thinking_delta", thinking: "" }),
      "empty arguments": block({ type: "input_json_delta", partial_json: "" }),
    },
  },
  gemini: {
    begin: gemini({ text: "a" }),
    parts: {
      text: gemini({ text: "b" }),
      thought: gemini({ text: "b", thought: true }),
      call: gemini({ functionCall: { name: "f", args: {} } }),
    },
    own: {
      signature: gemini({ text: "", thoughtSignature: "abcdefgh" }),
      image: gemini({ inlineData: { mimeType: "image/png", data: "AAAA" } }),
      code: gemini({ executableCode: { code: "1" } }),
      "a result of code": gemini({ codeExecutionResult: { output: "" } }),
    },
    noise: {
      "an empty text": gemini({ text: "" }),
      "no parts": 'data: {"candidates":[{"index":0}]}\n\n',
      usage: 'data: {"usageMetadata":{"promptTokenCount":1}}\n\n',
    },
  },
};

const identity = { id: "1", model: "m", createdAt: 0 };
const context = partOf<AnswerContext>({
  ...identity,
  framing: "sse",
  body: {},
  request: { system: [], messages: [], tools: [], settings: {} },
});

const ownStream = (dialect: ConversationDialect) => codecs[dialect].verbatim.stream(Buffer.from("{}"), "sse", identity);
const translatedStream = (dialect: ConversationDialect) =>
  new TranslatedStream(
    codecs[dialect].streamDecoder(),
    codecs[dialect === "openai-chat" ? "anthropic-messages" : "openai-chat"].streamEncoder(context),
  );

/** Whether these bytes, in the middle of an answer, are a part of its content. */
function isPart(stream: Parameters<typeof readerOf>[0], begin: string, sent: string): boolean {
  const reader = readerOf(stream);
  reader.push(Buffer.from(begin));
  const before = reader.parts;
  reader.push(Buffer.from(sent));
  return reader.parts !== before;
}
const readerOf = (stream: ConstructorParameters<typeof StreamReader>[0]) => new StreamReader(stream, 1 << 20);

for (const dialect of conversationDialects)
  test(`content extends the time to the next part, and nothing else does (${dialect})`, () => {
    const { begin, parts, own = {}, noise } = dialects[dialect];
    for (const [name, sent] of Object.entries({ ...parts, ...own }))
      assert.equal(isPart(ownStream(dialect), begin, sent), true, name);
    for (const [name, sent] of Object.entries(parts))
      assert.equal(isPart(translatedStream(dialect), begin, sent), true, `${name}, translated`);
    for (const [name, sent] of Object.entries({ ...noise, ...everyStream }))
      for (const stream of [ownStream(dialect), translatedStream(dialect)])
        assert.equal(isPart(stream, begin, sent), false, name);
  });

test("events of images and speech are parts", () => {
  const picture = typedEvent("image_generation.partial_image", { b64_json: "AAAA", partial_image_index: 0 });
  const speech = typedEvent("speech.audio.delta", { audio: "AAAA" });
  assert.equal(isPart(imageStreamOf(1, { size: undefined, quality: undefined }), picture, picture), true);
  assert.equal(isPart(speechStreamOf(plainUsageOf(1)), speech, speech), true);
  assert.equal(isPart(speechStreamOf(plainUsageOf(1)), speech, everyStream["a comment"]), false);
});

test("an event that is too large to arrive at once counts while it grows", () => {
  const begin = chat({ content: "a" });
  assert.equal(
    isPart(ownStream("openai-chat"), begin, `data: {"choices":[{"delta":{"x":"${"A".repeat(1 << 17)}`),
    true,
  );
});

test("a body counts while it grows; a few bytes at a time, and white space, do not", () => {
  for (const reader of [new WholeReader(() => ({ kind: "malformed" }), 1 << 20), new BytesReader(plainUsageOf(1))]) {
    reader.push(Buffer.from("{"));
    for (let byte = 0; byte < 100; byte++) reader.push(Buffer.from('"'));
    for (let byte = 0; byte < 1_000; byte++) reader.push(Buffer.from(" "));
    assert.equal(reader.parts, 0);
    for (let byte = 0; byte < 200; byte++) reader.push(Buffer.from("a"));
    assert.equal(reader.parts, 1);
    reader.push(Buffer.alloc(1_000, "a"));
    assert.ok(reader.parts > 1);
  }
});
