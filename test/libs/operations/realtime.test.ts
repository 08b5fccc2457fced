import assert from "node:assert/strict";
import { test } from "node:test";
import { GeminiSession } from "#operations/realtime/gemini-session.ts";
import { OpenaiSession } from "#operations/realtime/openai-session.ts";
import type { UpstreamSession } from "#operations/realtime/upstream-session.ts";

const read = (session: UpstreamSession, message: unknown): string => {
  const text = typeof message === "string" ? message : JSON.stringify(message);
  const result = session.read(Buffer.from(text));
  return result.kind === "message" ? result.bytes.toString() : `refused: ${result.error.message}`;
};
const usageOf = ({ usage }: UpstreamSession) =>
  usage && { input: usage.inputTokens, cached: usage.cachedInputTokens, output: usage.outputTokens };

test("OpenAI's events name the catalogue's model, and keep every other byte", () => {
  const session = new OpenaiSession("ours");
  const created = '{"type":"session.created", "session": {"a":1.50,"model" : "theirs" }}';
  assert.equal(read(session, created), created.replace('"theirs"', '"ours"'));
  const updated = '{"session":{"model":"theirs"},"type":"session.updated"}';
  assert.equal(read(session, updated), updated.replace("theirs", "ours"));
  const spoken = '{"type":"response.output_text.delta","delta":"the \\"model\\" is theirs","model":"theirs"}';
  assert.equal(read(session, spoken), spoken);
});

test("OpenAI's responses and transcripts add up to the usage of the session", () => {
  const session = new OpenaiSession("ours");
  read(session, { type: "session.created", session: {} });
  assert.equal(usageOf(session), undefined);
  const usage = { input_tokens: 30, output_tokens: 12, input_token_details: { cached_tokens: 10 } };
  read(session, { type: "response.done", response: { usage } });
  read(session, { type: "response.done", response: { usage } });
  read(session, { type: "response.done", response: { status: "cancelled", usage: null } });
  const type = "conversation.item.input_audio_transcription.completed";
  read(session, { type, usage: { type: "tokens", input_tokens: 5, output_tokens: 2 } });
  assert.deepEqual(usageOf(session), { input: 65, cached: 20, output: 26 });
  read(session, { type, usage: { type: "duration", seconds: 2 } });
  assert.deepEqual(usageOf(session), { input: 115, cached: 20, output: 26 });
  assert.equal(session.usage?.isEstimated, true);
});

test("an error in place of the first event refuses the session; later ones are passed on", () => {
  const error = { type: "error", error: { type: "invalid_request_error", message: "no such model" } };
  assert.equal(read(new OpenaiSession("ours"), error), "refused: no such model");
  const session = new OpenaiSession("ours");
  read(session, { type: "session.created", session: {} });
  assert.equal(read(session, error), JSON.stringify(error));
});

test("messages that cannot be read are passed on", () => {
  for (const session of [new OpenaiSession("ours"), new GeminiSession()])
    for (const message of ['{"type":"usage"', '"model" "usage" "usageMetadata"', "[]"])
      assert.equal(read(session, message), message);
});

test("Live reports the usage of a turn more than once, and each turn counts once", () => {
  const session = new GeminiSession();
  const report = (input: number, output: number, more: object = {}) =>
    read(session, { usageMetadata: { promptTokenCount: input, responseTokenCount: output, ...more } });
  report(10, 1);
  assert.deepEqual(usageOf(session), { input: 10, cached: 0, output: 1 });
  report(10, 4, { thoughtsTokenCount: 2, toolUsePromptTokenCount: 3, cachedContentTokenCount: 5 });
  read(session, { serverContent: { turnComplete: true } });
  assert.deepEqual(usageOf(session), { input: 13, cached: 5, output: 6 });
  read(session, {
    serverContent: { turnComplete: true },
    usageMetadata: { promptTokenCount: 20, responseTokenCount: 7 },
  });
  assert.deepEqual(usageOf(session), { input: 33, cached: 5, output: 13 });
});

test("Live's close frame tells whose fault a refused session is", () => {
  const session = new GeminiSession();
  assert.equal(session.closedWith(1007, "Unknown name").status, 400);
  assert.equal(session.closedWith(1011, "Internal error").status, 502);
});

test("audio of a session adds up, without what came from the cache", () => {
  const openai = new OpenaiSession("ours");
  read(openai, { type: "session.created", session: {} });
  const usage = {
    input_tokens: 100,
    output_tokens: 40,
    input_token_details: { audio_tokens: 80, cached_tokens: 50, cached_tokens_details: { audio_tokens: 45 } },
    output_token_details: { audio_tokens: 30, text_tokens: 10 },
  };
  for (let turn = 0; turn < 2; turn++) read(openai, { type: "response.done", response: { usage } });
  assert.deepEqual([openai.usage?.audioInputTokens, openai.usage?.audioOutputTokens], [70, 60]);
  const gemini = new GeminiSession();
  const audio = (tokenCount: number) => [{ modality: "AUDIO", tokenCount }];
  read(gemini, {
    usageMetadata: {
      promptTokenCount: 50,
      responseTokenCount: 20,
      promptTokensDetails: audio(45),
      responseTokensDetails: audio(20),
    },
  });
  assert.deepEqual([gemini.usage?.audioInputTokens, gemini.usage?.audioOutputTokens], [45, 20]);
});

const unreportedOf = ({ unreported }: UpstreamSession) =>
  unreported && {
    input: unreported.inputTokens,
    audioInput: unreported.audioInputTokens ?? 0,
    cached: unreported.cachedInputTokens,
    output: unreported.outputTokens,
    audioOutput: unreported.audioOutputTokens ?? 0,
  };
const send = (session: UpstreamSession, message: unknown) => session.sent(Buffer.from(JSON.stringify(message)), true);
/** In payloads, as they reach the upstream. */
function sendInParts(session: UpstreamSession, message: unknown): void {
  const bytes = Buffer.from(JSON.stringify(message));
  for (let at = 0; at < bytes.length; at += 65_000) session.sent(bytes.subarray(at, at + 65_000), at === 0);
}
/** Base64 of audio of so many seconds. */
const audioOf = (seconds: number, bytesPerSecond: number) => "A".repeat((seconds * bytesPerSecond * 4) / 3);
const text = "four bytes of text are about one token";

/** Sessions as they are when their caller leaves: what is charged besides the reports. */
const left: [
  what: string,
  session: UpstreamSession,
  act: (session: UpstreamSession) => void,
  expected: object | undefined,
][] = [
  [
    "nothing was asked",
    new OpenaiSession("ours"),
    (session) => {
      send(session, { type: "conversation.item.create", item: { content: [{ type: "input_text", text }] } });
      send(session, { type: "input_audio_buffer.append", audio: audioOf(60, 48_000) });
    },
    undefined,
  ],
  [
    "a response in progress costs its input and what it produced",
    new OpenaiSession("ours"),
    (session) => {
      send(session, { type: "conversation.item.create", item: { content: [{ type: "input_text", text }] } });
      send(session, { type: "response.create" });
      read(session, { type: "response.created", response: {} });
      for (let count = 0; count < 10; count++) read(session, { type: "response.output_text.delta", delta: "word" });
    },
    { input: 37, audioInput: 0, cached: 0, output: 10, audioOutput: 0 },
  ],
  [
    "audio costs its seconds, in both directions, and its transcript",
    new OpenaiSession("ours"),
    (session) => {
      send(session, { type: "input_audio_buffer.append", audio: audioOf(3, 48_000) });
      read(session, { type: "input_audio_buffer.committed", item_id: "item_1" });
      read(session, { type: "response.created", response: {} });
      read(session, { type: "response.output_audio.delta", delta: audioOf(2, 48_000) });
      read(session, { type: "response.audio_transcript.delta", delta: "word" });
    },
    { input: 31, audioInput: 31, cached: 0, output: 41, audioOutput: 40 },
  ],
  [
    "audio whose type comes after it costs its seconds",
    new OpenaiSession("ours"),
    (session) => {
      sendInParts(session, { audio: audioOf(6, 48_000), type: "input_audio_buffer.append" });
      sendInParts(session, { event_id: "a", type: "response.cancel" });
      read(session, { type: "input_audio_buffer.committed", item_id: "item_1" });
      read(session, { type: "response.created", response: {} });
    },
    { input: 61, audioInput: 61, cached: 0, output: 0, audioOutput: 0 },
  ],
  [
    "silence around speech costs nothing",
    new OpenaiSession("ours"),
    (session) => {
      send(session, { type: "input_audio_buffer.append", audio: audioOf(60, 48_000) });
      read(session, { type: "input_audio_buffer.speech_started", audio_start_ms: 30_000 });
      read(session, { type: "input_audio_buffer.speech_stopped", audio_end_ms: 32_000 });
      read(session, { type: "input_audio_buffer.committed", item_id: "item_1" });
      read(session, { type: "response.created", response: {} });
    },
    { input: 20, audioInput: 20, cached: 0, output: 0, audioOutput: 0 },
  ],
  [
    "telephone audio has fewer bytes",
    new OpenaiSession("ours"),
    (session) => {
      const format = { type: "audio/pcmu" };
      read(session, {
        type: "session.updated",
        session: { audio: { input: { format }, output: { format } }, model: "m" },
      });
      send(session, { type: "input_audio_buffer.append", audio: audioOf(30, 8_000) });
      read(session, { type: "input_audio_buffer.committed", item_id: "item_1" });
      read(session, { type: "response.created", response: {} });
      read(session, { type: "response.output_audio.delta", delta: audioOf(2, 8_000) });
    },
    { input: 301, audioInput: 301, cached: 0, output: 40, audioOutput: 40 },
  ],
  [
    "a later response costs the conversation before it again, with what was cached of it",
    new OpenaiSession("ours"),
    (session) => {
      const usage = { input_tokens: 500, output_tokens: 40, input_token_details: { cached_tokens: 400 } };
      read(session, { type: "response.created", response: {} });
      read(session, { type: "response.done", response: { usage } });
      read(session, { type: "response.created", response: {} });
      read(session, { type: "response.function_call_arguments.delta", delta: "abcdefgh" });
    },
    { input: 540, audioInput: 0, cached: 400, output: 2, audioOutput: 0 },
  ],
  [
    "a transcript in progress costs its audio",
    new OpenaiSession("ours"),
    (session) => {
      read(session, { type: "session.updated", session: { type: "transcription" }, model: "m" });
      send(session, { type: "input_audio_buffer.append", audio: audioOf(3, 48_000) });
      read(session, { type: "input_audio_buffer.committed", item_id: "item_1" });
      read(session, { type: "conversation.item.input_audio_transcription.delta", delta: "word" });
    },
    { input: 31, audioInput: 31, cached: 0, output: 1, audioOutput: 0 },
  ],
  [
    "Live: nothing was answered",
    new GeminiSession(),
    (session) => {
      send(session, { setup: { model: "models/m" } });
      send(session, { realtimeInput: { audio: { data: audioOf(3, 32_000), mimeType: "audio/pcm;rate=16000" } } });
    },
    undefined,
  ],
  [
    "Live: a turn in progress costs its input and what it produced",
    new GeminiSession(),
    (session) => {
      send(session, { realtimeInput: { audio: { data: audioOf(3, 32_000), mimeType: "audio/pcm;rate=16000" } } });
      send(session, { realtime_input: { video: { data: audioOf(3, 32_000), mime_type: "image/jpeg" } } });
      const inlineData = { mimeType: "audio/pcm;rate=24000", data: audioOf(2, 48_000) };
      read(session, { serverContent: { modelTurn: { parts: [{ inlineData }, { text: "abcdefgh" }] } } });
    },
    { input: 334, audioInput: 76, cached: 0, output: 52, audioOutput: 50 },
  ],
  [
    "Live: long audio whose data comes before its type is audio, and text beside media is text",
    new GeminiSession(),
    (session) => {
      const data = audioOf(6, 32_000);
      sendInParts(session, { realtimeInput: { audio: { data, mimeType: "audio/pcm;rate=16000" } } });
      sendInParts(session, { realtimeInput: { mediaChunks: [{ data, mimeType: "audio/pcm;rate=16000" }] } });
      sendInParts(session, { realtimeInput: { video: { data, mimeType: "image/jpeg" } } });
      sendInParts(session, { realtimeInput: { audio: {}, text: "abcd".repeat(100) } });
      read(session, { serverContent: { modelTurn: { parts: [{ text: "abcdefgh" }] } } });
    },
    { input: 669, audioInput: 301, cached: 0, output: 2, audioOutput: 0 },
  ],
  [
    "Live: what was reported in the turn is not counted again",
    new GeminiSession(),
    (session) => {
      read(session, { serverContent: { modelTurn: { parts: [{ text: "abcdefgh" }] } } });
      read(session, { usageMetadata: { promptTokenCount: 50, responseTokenCount: 20 } });
      read(session, { serverContent: { modelTurn: { parts: [{ text: "abcd" }] } } });
    },
    { input: 0, audioInput: 0, cached: 0, output: 1, audioOutput: 0 },
  ],
];

test("what a session produces before it is reported is estimated, so that leaving early is not free", () => {
  for (const [what, session, act, expected] of left) {
    if (session instanceof OpenaiSession) read(session, { type: "session.created", session: {} });
    act(session);
    assert.deepEqual(unreportedOf(session), expected, what);
  }
});

test("a cancelled response without a report, and a turn without one, cost what they produced, once", () => {
  const openai = new OpenaiSession("ours");
  read(openai, { type: "session.created", session: {} });
  read(openai, { type: "response.created", response: {} });
  read(openai, { type: "response.output_text.delta", delta: "abcdefgh" });
  read(openai, { type: "response.done", response: { status: "cancelled", usage: null } });
  assert.deepEqual([usageOf(openai), openai.unreported], [{ input: 0, cached: 0, output: 2 }, undefined]);
  read(openai, { type: "response.created", response: {} });
  read(openai, { type: "response.output_text.delta", delta: "abcdefgh" });
  read(openai, { type: "response.done", response: { status: "failed" } });
  assert.deepEqual(usageOf(openai), { input: 0, cached: 0, output: 2 });

  const gemini = new GeminiSession();
  const turn = () => {
    read(gemini, { serverContent: { modelTurn: { parts: [{ text: "abcdefgh" }] } } });
    read(gemini, { serverContent: { turnComplete: true } });
  };
  turn();
  assert.deepEqual([usageOf(gemini), unreportedOf(gemini)?.output], [undefined, 2]);
  read(gemini, { usageMetadata: { promptTokenCount: 10, responseTokenCount: 3 } });
  assert.deepEqual([usageOf(gemini), gemini.unreported], [{ input: 10, cached: 0, output: 3 }, undefined]);
  turn();
  turn();
  assert.deepEqual([usageOf(gemini)?.output, unreportedOf(gemini)?.output], [5, 2]);
});
