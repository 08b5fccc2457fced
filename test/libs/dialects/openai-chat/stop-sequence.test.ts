import assert from "node:assert/strict";
import { test } from "node:test";
import { anthropicMessages } from "#dialects/anthropic-messages/codec.ts";
import type { AnswerEvent } from "#dialects/neutral/neutral.ts";
import { foldedOf } from "#dialects/neutral/neutral.ts";
import { openaiChat } from "#dialects/openai-chat/codec.ts";
import { SseReader } from "#wire/sse.ts";

const requestBody = {
  model: "m",
  max_tokens: 100,
  stop_sequences: ["END", "###"],
  messages: [{ role: "user", content: "Hi" }],
};
const request = anthropicMessages.decodeRequest({ body: requestBody, framing: "whole" });
const context = { id: "a1", model: "m", createdAt: 1, framing: "whole" as const, request, body: requestBody };

/**
 * The last choice's members as servers send them: vLLM's `stop_reason`, SGLang's `matched_stop`, a
 * number for a token.
 */
const endings: [string, Record<string, unknown>, string, string | null][] = [
  ["vLLM, a stop string", { finish_reason: "stop", stop_reason: "END" }, "stop_sequence", "END"],
  ["vLLM, the end of the text", { finish_reason: "stop", stop_reason: null }, "end_turn", null],
  ["vLLM, a stop token", { finish_reason: "stop", stop_reason: 128009 }, "end_turn", null],
  ["SGLang, a stop string", { finish_reason: "stop", matched_stop: "###" }, "stop_sequence", "###"],
  ["SGLang, the end of the text", { finish_reason: "stop", matched_stop: 151645 }, "end_turn", null],
  ["SGLang, the model's own stop string", { finish_reason: "stop", matched_stop: "<|end|>" }, "end_turn", null],
  ["the length", { finish_reason: "length", stop_reason: null, matched_stop: null }, "max_tokens", null],
  ["a server that does not tell", { finish_reason: "stop" }, "end_turn", null],
];

function streamed(ending: object): AnswerEvent[] {
  const decoder = openaiChat.streamDecoder();
  const chunks = [
    { choices: [{ index: 0, delta: { content: "Hello " } }] },
    { choices: [{ index: 0, delta: {}, ...ending }] },
  ];
  const text = `${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("")}data: [DONE]\n\n`;
  return [...new SseReader(1 << 20).push(Buffer.from(text))].flatMap((event) => decoder.push(event));
}

test("a stop sequence that a chat upstream reports reaches Anthropic's callers, whole and streamed, if they asked for it", () => {
  for (const [name, ending, reason, sequence] of endings) {
    const whole = openaiChat.decodeAnswer({
      choices: [{ index: 0, message: { role: "assistant", content: "Hello " }, ...ending }],
    });
    for (const events of [whole, streamed(ending)]) {
      const answer = foldedOf(events);
      assert.ok(answer !== undefined && !("error" in answer));
      const { stop_reason, stop_sequence } = JSON.parse(anthropicMessages.encodeAnswer(answer, context));
      assert.deepEqual([stop_reason, stop_sequence], [reason, sequence], name);
      const encoder = anthropicMessages.streamEncoder({ ...context, framing: "sse" });
      const text = events.map((event) => (event.kind === "error" ? "" : encoder.push(event))).join("");
      assert.ok(text.includes(`"stop_reason":"${reason}","stop_sequence":${JSON.stringify(sequence)}`), name);
    }
  }
});
