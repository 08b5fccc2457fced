import assert from "node:assert/strict";
import { test } from "node:test";
import type { AnswerContext, Framing } from "#dialects/codec.ts";
import { codecs } from "#dialects/codecs.ts";
import { conversationDialects } from "#dialects/dialect.ts";
import { type Answer, eventsOf, type Finish } from "#dialects/neutral/neutral.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { SseReader } from "#wire/sse.ts";

const identity = { id: "a", model: "mine" };
const contextOf = (framing: Framing): AnswerContext => ({
  ...identity,
  createdAt: 1,
  framing,
  request: { system: [], messages: [], tools: [], settings: {} },
  body: {},
});

/** Reasons that a dialect can state. */
const finishes: Finish[] = ["stop", "length", "content-filter"];

test("an answer that is relayed unchanged tells why its model stopped", () => {
  for (const dialect of conversationDialects)
    for (const finish of finishes) {
      const { verbatim, streamEncoder, encodeAnswer } = codecs[dialect];
      const answer: Answer = { blocks: [{ kind: "text", text: "hi" }], finish, usage: plainUsageOf(1, 2) };
      const whole = verbatim.answer(Buffer.from(encodeAnswer(answer, contextOf("whole"))), identity);
      assert.equal(whole.kind === "answer" && whole.finish, finish, `${dialect} ${finish}`);

      const encoder = streamEncoder(contextOf("sse"));
      const sent = eventsOf(answer).map((event) => (event.kind === "error" ? "" : encoder.push(event)));
      const relay = verbatim.stream(Buffer.from("{}"), "sse", identity);
      const reader = new SseReader(100_000);
      for (const event of [...reader.push(Buffer.from(sent.join(""))), ...reader.end()]) relay.push(event, []);
      assert.equal(relay.produced.finish, finish, `stream: ${dialect} ${finish}`);
    }
});
