/** Simulated audio as the official client sees it. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { APIError, toFile } from "openai";
import { startSimulator } from "../support.ts";

const voice = "alloy" as const;

test("speech is the same bytes each time, as long as the text takes to say, whole and as events", async (t) => {
  const { openai } = await startSimulator(t);
  const speechRequest = { model: "sim-speech", input: "x".repeat(15), voice, response_format: "wav" as const };
  const speak = async (more: object = {}) =>
    Buffer.from(await (await openai.audio.speech.create({ ...speechRequest, ...more })).arrayBuffer());
  const spoken = await speak();
  assert.deepEqual(
    [spoken.length, spoken.toString("latin1", 0, 4), spoken.readUInt32LE(24)],
    [44 + 10 * 4_800, "RIFF", 24_000],
  );
  assert.deepEqual(await speak(), spoken);
  assert.equal((await speak({ speed: 2 })).length, 44 + 5 * 4_800);
  const audio = (await speak({ stream_format: "sse" }))
    .toString()
    .split("\n")
    .flatMap((line) => (line.startsWith("data: ") ? [JSON.parse(line.slice(6)).audio ?? ""] : []))
    .map((base64) => Buffer.from(base64, "base64"));
  assert.deepEqual(Buffer.concat(audio), spoken);
});

test("speech breaks off where the settings say", async (t) => {
  const { openai } = await startSimulator(t);
  const response = await openai.audio.speech.create({ model: "sim-speech;reset=2", input: "hello", voice });
  await assert.rejects(response.arrayBuffer());
  await assert.rejects(
    openai.audio.speech.create({ model: "sim-speech;status=503", input: "hello", voice }),
    (error) => error instanceof APIError && error.status === 503,
  );
});

test("a transcript names the recording, and a recording that OpenAI would not read is refused", async (t) => {
  const { openai } = await startSimulator(t);
  const model = "sim-transcript";
  const heard = await openai.audio.transcriptions.create({ model, file: await toFile(Buffer.alloc(9), "a.ogg") });
  assert.match(heard.text, /^I heard a\.ogg \(.*, 9 bytes, no language\)\.$/);
  for (const [bytes, name] of [
    [Buffer.alloc(0), "a.ogg"],
    [Buffer.alloc(9), "a.doc"],
  ] as const)
    await assert.rejects(
      openai.audio.transcriptions.create({ model, file: await toFile(bytes, name) }),
      (error) => error instanceof APIError && error.param === "file",
    );
});
