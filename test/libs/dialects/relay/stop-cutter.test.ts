import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext, Cut } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { type ConversationDialect, conversationDialects } from "#dialects/dialect.ts";
import type { NeutralRequest } from "#dialects/neutral/neutral.ts";
import { stopsOf } from "#dialects/neutral/within-bounds.ts";
import { answersOf, canCut } from "#dialects/relay/stop-cutter.ts";
import { TranslatedStream } from "#dialects/relay/translated.ts";
import { SseReader } from "#wire/sse.ts";
import { targetOf } from "../../../support/target.ts";
import { typedEvent } from "../../../support/upstream.ts";

const request: NeutralRequest = { system: [], messages: [], tools: [], settings: {} };
const contextOf = (dialect: ConversationDialect, cut: Cut | undefined): AnswerContext => ({
  id: "1",
  model: "m",
  createdAt: 0,
  framing: "sse",
  request,
  cut,
  body: dialect === "openai-chat" ? { stream_options: { include_usage: true } } : {},
});

/** A stream of Responses that says these texts. */
const responsesStream = (texts: readonly string[]): string =>
  [
    typedEvent("response.created", { response: { id: "r", status: "in_progress" } }),
    typedEvent("response.output_item.added", {
      output_index: 0,
      item: { type: "message", id: "i", role: "assistant", content: [] },
    }),
    typedEvent("response.content_part.added", {
      output_index: 0,
      content_index: 0,
      item_id: "i",
      part: { type: "output_text", text: "" },
    }),
    ...texts.map((delta) =>
      typedEvent("response.output_text.delta", { output_index: 0, content_index: 0, item_id: "i", delta }),
    ),
    typedEvent("response.output_text.done", { output_index: 0, content_index: 0, item_id: "i", text: texts.join("") }),
    typedEvent("response.completed", {
      response: {
        id: "r",
        status: "completed",
        output: [
          { type: "message", id: "i", role: "assistant", content: [{ type: "output_text", text: texts.join("") }] },
        ],
        usage: { input_tokens: 7, output_tokens: 20, total_tokens: 27 },
      },
    }),
  ].join("");

interface Played {
  /** After each event of the upstream, the caller's bytes so far. */
  steps: string[];
  ended: boolean;
  stream: TranslatedStream;
}

function played(texts: readonly string[], cut: Cut | undefined, from: ConversationDialect): Played {
  const stream = new TranslatedStream(
    answersOf(codecs["openai-responses"], cut).streamDecoder(),
    codecs[from].streamEncoder(contextOf(from, cut)),
  );
  const out: Buffer[] = [];
  const steps = new SseReader(1e6).push(Buffer.from(responsesStream(texts))).map((sent) => {
    if (!stream.ended) stream.push(sent, out);
    return Buffer.concat(out).toString();
  });
  return { steps, ended: stream.ended, stream };
}

/** The text and the end that a caller of this dialect reads. */
function readBy(
  dialect: ConversationDialect,
  text: string,
): { text: string; stop: string | undefined; finish: string } {
  const decoder = codecs[dialect].streamDecoder();
  const events = [
    ...new SseReader(1e6).push(Buffer.from(text)).flatMap((sent) => decoder.push(sent)),
    ...decoder.end(),
  ];
  const end = events.find((one) => one.kind === "finish");
  return {
    text: events.flatMap((one) => (one.kind === "delta" ? [one.text] : [])).join(""),
    stop: end?.stopSequence,
    finish: end?.finish ?? "none",
  };
}

/** All ways to split a text into two or three chunks. */
function* splits(text: string): Generator<string[]> {
  for (let first = 1; first < text.length; first++) {
    yield [text.slice(0, first), text.slice(first)];
    for (let second = first + 1; second < text.length; second++)
      yield [text.slice(0, first), text.slice(first, second), text.slice(second)];
  }
}

const cutAt = (...sequences: string[]): Cut => ({ sequences, inputTokens: 11 });

test("an answer ends at a stop sequence, however its chunks fall, for callers of every dialect", () => {
  const cases: [text: string, sequences: string[], expectedText: string, stop: string | undefined][] = [
    ["Thought: x\nObservation: 4", ["\nObservation:"], "Thought: x", "\nObservation:"],
    ["one\n\ntwo", [" ", "\n\n"], "one", "\n\n"],
    ["ababac!", ["abac"], "ab", "abac"],
    ["aab", ["aaa", "ab"], "a", "ab"],
    ["STOP it", ["STOP"], "", "STOP"],
    ["no end here", ["END", "\n\n"], "no end here", undefined],
    ["ends in a beginning EN", ["END"], "ends in a beginning EN", undefined],
    ["größe ✂️ rest", ["✂️"], "größe ", "✂️"],
  ];
  for (const [text, sequences, expectedText, stop] of cases)
    for (const chunks of splits(text))
      for (const dialect of conversationDialects) {
        const { steps, ended, stream } = played(chunks, cutAt(...sequences), dialect);
        const read = readBy(dialect, steps.at(-1) ?? "");
        assert.equal(read.text, expectedText, `${dialect}: ${JSON.stringify(chunks)}`);
        assert.ok(ended);
        if (dialect === "anthropic-messages") assert.equal(read.stop, stop);
        assert.ok(["stop", "stop-sequence"].includes(read.finish), `${dialect}: ${read.finish}`);
        assert.equal(stream.usage?.inputTokens, stop === undefined ? 7 : 11);
        assert.equal(stream.usage?.isEstimated, stop === undefined ? undefined : true);
        assert.ok((stream.usage?.outputTokens ?? 0) > 0);
      }
});

test("only the shortest end that may begin a stop sequence waits", () => {
  const { steps } = played(["abcE", "N", "X", "yz\n", "w"], cutAt("END", "\n\n"), "openai-chat");
  const texts = steps.map((step) => readBy("openai-chat", step).text);
  assert.deepEqual(texts.slice(3, 8), ["abc", "abc", "abcENX", "abcENXyz", "abcENXyz\nw"]);
});

test("nothing is read after the stop sequence, and whole answers are cut with their usage", () => {
  const { steps } = played(["a", "END", "b"], cutAt("END"), "anthropic-messages");
  assert.equal(readBy("anthropic-messages", steps[4] ?? "").stop, "END");
  assert.equal(steps[4], steps.at(-1));
  const body = {
    id: "r",
    status: "completed",
    output: [
      { type: "reasoning", summary: [{ type: "summary_text", text: "END is near" }] },
      { type: "message", role: "assistant", content: [{ type: "output_text", text: "half END rest" }] },
      { type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    ],
    usage: { input_tokens: 7, output_tokens: 20, total_tokens: 27 },
  };
  const events = answersOf(codecs["openai-responses"], cutAt("END")).decodeAnswer(body);
  assert.deepEqual(
    events.flatMap((one) => (one.kind === "delta" ? [one.text] : [])),
    ["END is near", "half "],
  );
  const end = events.at(-1);
  assert.ok(end?.kind === "finish");
  assert.deepEqual([end.finish, end.stopSequence, end.usage?.outputTokens], ["stop-sequence", "END", 20]);
});

test("the upstream gets the stop sequences that it takes, and the gateway keeps the others", () => {
  const stopped = (dialect: ConversationDialect, model: string, ...value: string[]) => {
    const { sent, cut } = stopsOf({ stop: { value, path: "stop" } }, dialect, targetOf(dialect, model));
    return [sent.join("|"), cut.join("|")];
  };
  assert.deepEqual(stopped("openai-chat", "m", "a", "", "b", "a", "c", "d", "e", "f"), ["a|b|c|d", "e|f"]);
  assert.deepEqual(stopped("openai-chat", "glm-4.6", "a", "b"), ["a", "b"]);
  assert.deepEqual(stopped("gemini", "m", "1", "2", "3", "4", "5", "6"), ["1|2|3|4|5", "6"]);
  assert.deepEqual(stopped("anthropic-messages", "claude-opus-5", "\n\n", "END", " "), ["END", "\n\n| "]);
  for (const model of ["o3", "o4-mini", "openai/o3-2025-04-16", "gpt-5", "gpt-5.6-sol", "grok-4.7"])
    assert.deepEqual(stopped("openai-chat", model, "a"), ["", "a"], model);
  for (const model of ["gpt-4o", "gpt-4.1-mini", "grok-3", "deepseek-v4-pro"])
    assert.deepEqual(stopped("openai-chat", model, "a"), ["a", ""], model);
  assert.deepEqual(stopped("openai-responses", "gpt-4.1", "a", ""), ["", "a"]);
  assert.ok(canCut(["a", "b"]));
  assert.ok(!canCut(Array.from({ length: 300 }, (_, place) => `s${place}`)));
  assert.ok(!canCut(["x".repeat(20_000)]));
});

test("a search takes time in proportion to the text, however the sequence repeats itself", () => {
  const sequence = `${"a".repeat(8_000)}b`;
  const decoder = answersOf(codecs["openai-responses"], cutAt(sequence)).streamDecoder();
  const startedAt = process.cpuUsage().user;
  for (const sent of new SseReader(1e8).push(Buffer.from(responsesStream(Array(200).fill("a".repeat(1_000))))))
    decoder.push(sent);
  assert.ok(process.cpuUsage().user - startedAt < 2_000_000);
});
