import assert from "node:assert/strict";
import { test } from "node:test";
import type { StreamRelay } from "#dialects/codec.ts";
import { audioUsageOf, speechStreamOf, transcriptStreamOf } from "#dialects/openai/audio.ts";
import { plainUsageOf } from "#dialects/usage.ts";
import { SseReader } from "#wire/sse.ts";
import { StreamReader } from "../../../../apps/worker/answer/stream-reader.ts";

const eventOf = (event: { type: string; [name: string]: unknown }, isNamed = true) =>
  `${isNamed ? `event: ${event.type}\n` : ""}data: ${JSON.stringify(event)}\n\n`;
const delta = eventOf({ type: "transcript.text.delta", delta: "hel", segment_id: "seg_0" });
const segment = eventOf({ type: "transcript.text.segment", id: "seg_0", start: 0, end: 1, speaker: "A", text: "hel" });
const usage = { type: "tokens", input_tokens: 14, output_tokens: 2, total_tokens: 16 };
const done = eventOf({ type: "transcript.text.done", text: "hello", usage });

/** The text that the caller gets of these bytes, and how the answer ends. */
function read(relay: StreamRelay, text: string) {
  const reader = new StreamReader(relay, 1_000_000);
  const steps = [reader.push(Buffer.from(text))];
  if (steps[0]?.kind === "more") steps.push(reader.end());
  return {
    text: Buffer.concat(steps.flatMap(({ bytes }) => bytes)).toString(),
    kind: steps.at(-1)?.kind,
    usage: reader.usage,
  };
}

test("a streamed transcript passes unchanged, and only its last event completes it", () => {
  const whole = delta + segment + done;
  assert.deepEqual(read(transcriptStreamOf(), whole), { text: whole, kind: "end", usage: plainUsageOf(14, 2) });
  assert.equal(read(transcriptStreamOf(), `${whole}data: [DONE]\n\n`).kind, "end");
  assert.equal(read(transcriptStreamOf(), delta + segment).kind, "failed");
  assert.equal(read(transcriptStreamOf(), `${delta}data: [DONE]\n\n`).kind, "failed");
  assert.equal(read(transcriptStreamOf(), `${delta}data: {"type":"transcript.text.de\n\n`).kind, "failed");
});

test("a transcript in the chunks of vLLM becomes OpenAI's events", () => {
  const chunk = (content: string | null, more: object = {}, others: object = {}) =>
    `data: ${JSON.stringify({ object: "transcription.chunk", choices: [{ delta: { content }, ...more }], ...others })}\n\n`;
  const counted = { prompt_tokens: 14, completion_tokens: 2, total_tokens: 16 };
  const end = "data: [DONE]\n\n";
  const eventsOf = (...texts: string[]) =>
    [
      ...texts.map((text) => eventOf({ type: "transcript.text.delta", delta: text })),
      eventOf({ type: "transcript.text.done", text: texts.join("") }),
    ].join("");
  const stop = { finish_reason: "stop" };
  const usageChunk = `data: ${JSON.stringify({ choices: [], usage: counted })}\n\n`;
  const ends: [name: string, sent: string, text: string | undefined, usage?: object][] = [
    ["a text", chunk("hel") + chunk("lo", stop) + end, eventsOf("hel", "lo")],
    ["its usage behind it", chunk("hi", stop) + usageChunk + end, eventsOf("hi"), plainUsageOf(14, 2)],
    ["its usage so far", chunk("hi", stop, { usage: counted }) + end, eventsOf("hi"), plainUsageOf(14, 2)],
    ["two parts", chunk("a", stop) + chunk(" b") + chunk("", stop) + end, eventsOf("a", " b")],
    ["no reason", chunk("hi") + end, eventsOf("hi")],
    ["no terminator", chunk("hi", stop), eventsOf("hi")],
    ["silence", chunk("") + chunk(null, stop) + end, eventsOf()],
    ["a break", chunk("hi"), undefined],
    ["a break in the second part", chunk("a", stop) + chunk(" b"), undefined],
    ["an error", `${chunk("hi")}data: {"error":{"message":"failed"},"choices":[]}\n\n${end}`, undefined],
  ];
  for (const [name, sent, text, expected] of ends) {
    const result = read(transcriptStreamOf(), sent);
    assert.equal(result.kind, text === undefined ? "failed" : "end", name);
    if (text !== undefined) assert.deepEqual([result.text, result.usage], [text, expected], name);
  }
});

test("a transcript in Mistral's events becomes OpenAI's", () => {
  const language = eventOf({ type: "transcription.language", audio_language: "en" });
  const text = (text: string, isNamed = true) => eventOf({ type: "transcription.text.delta", text }, isNamed);
  const part = eventOf({ type: "transcription.segment", text: "hello", start: 0, end: 1 });
  const heard = { prompt_audio_seconds: 4, prompt_tokens: 3, completion_tokens: 2, total_tokens: 105 };
  const last = eventOf({ type: "transcription.done", model: "m", text: "hello", language: "en", usage: heard });
  const delta = (text: string) => eventOf({ type: "transcript.text.delta", delta: text });
  const done = eventOf({ type: "transcript.text.done", text: "hello", usage: heard });
  const counted = { ...plainUsageOf(100), units: { audioSeconds: 4 }, isEstimated: true };
  for (const isNamed of [true, false]) {
    const sent = language + text("hel", isNamed) + text("lo", isNamed) + part + last;
    const seen = delta("hel") + delta("lo") + done;
    assert.deepEqual(read(transcriptStreamOf(), sent), { text: seen, kind: "end", usage: counted });
    assert.equal(read(transcriptStreamOf(), `${sent}data: [DONE]\n\n`).kind, "end");
  }
  for (const broken of [language + text("hel"), text("hel") + eventOf({ type: "error", error: { message: "no" } })])
    assert.equal(read(transcriptStreamOf(), broken).kind, "failed");
});

test("silence is a transcript without text", () => {
  const silent = eventOf({ type: "transcript.text.done", text: "" }, false);
  assert.deepEqual(read(transcriptStreamOf(), silent), { text: silent, kind: "end", usage: undefined });
});

test("an error event fails speech and transcripts with its message", () => {
  for (const relay of [speechStreamOf(plainUsageOf(5)), transcriptStreamOf()]) {
    const out: Buffer[] = [];
    const [event] = new SseReader(1_000).push(Buffer.from('data: {"error":{"message":"too long","code":"x"}}\n\n'));
    assert.ok(event !== undefined);
    relay.push(event, out);
    assert.deepEqual([relay.error?.message, out], ["too long", []]);
  }
});

test("streamed speech is billed by the upstream's count, or else by the given one", () => {
  const audio = eventOf({ type: "speech.audio.delta", audio: Buffer.alloc(100_000).toString("base64") });
  const counted = { input_tokens: 3, output_tokens: 10, total_tokens: 13 };
  const ends: [object, ReturnType<typeof plainUsageOf>][] = [
    [{ usage: counted }, plainUsageOf(3, 10)],
    [{}, plainUsageOf(5)],
    [{ usage: null }, plainUsageOf(5)],
  ];
  for (const [more, expected] of ends) {
    const text = audio + eventOf({ type: "speech.audio.done", ...more });
    assert.deepEqual(read(speechStreamOf(plainUsageOf(5)), text), { text, kind: "end", usage: expected });
  }
});

test("a duration counts 25 tokens for each second", () => {
  assert.deepEqual(audioUsageOf({ type: "duration", seconds: 8.1 }), {
    ...plainUsageOf(203),
    units: { audioSeconds: 9 },
    isEstimated: true,
  });
  for (const nothing of [undefined, null, {}, { seconds: 0 }, { seconds: Number.NaN }, { input_tokens: "many" }])
    assert.equal(audioUsageOf(nothing), undefined);
});
