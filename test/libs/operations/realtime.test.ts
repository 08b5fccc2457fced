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
