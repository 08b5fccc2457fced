/**
 * Bytes on their way through the gateway: as they arrive, unchanged, and never in the way of
 * conversations.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { request } from "node:http";
import { after, test } from "node:test";
import { startGateway } from "../support/gateway.ts";
import {
  bodyAnswer,
  chunkedAnswer,
  jsonAnswer,
  startScriptedUpstream,
  type UpstreamAnswer,
} from "../support/upstream.ts";
import { modelLine } from "./support.ts";

const upstream = await startScriptedUpstream();
const gateway = await startGateway({
  workers: ["chat=4", "audio=2"],
  catalogue: `groups: { default: { models: ["*"] } }
upstreams:
  simulator: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "\${SIMULATOR_URL}/v1" }
  scripted: { dialect: openai-chat, circuitBreakerFailuresMax: 0, baseUrl: "${upstream.url}" }
models:
${modelLine({ id: "talker", model: "sim-text;rate=0" })}${modelLine({ id: "scripted", model: "theirs", upstream: "scripted", queue: "audio" })}${modelLine({ id: "endless-speaker", model: "sim-speech;tokens=100000;stall=5", queue: "audio" })}${modelLine({ id: "quick-speaker", model: "sim-speech", queue: "audio" })}  - { id: failing-over, retries: 1, queue: audio, prices: { inputPerMillion: 1, outputPerMillion: 2 }, route: [{ upstream: scripted, model: theirs }, { upstream: simulator, model: sim-speech }] }
${modelLine({ id: "long-speaker", model: "sim-speech;tokens=3000", queue: "audio" })}${modelLine({ id: "transcriber", model: "sim-transcript", queue: "audio" })}`,
});
after(async () => {
  await gateway[Symbol.asyncDispose]();
  await upstream[Symbol.asyncDispose]();
});

const speak = (model: string, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/audio/speech`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify({ model, input: "hello", voice: "alloy" }),
  });
/** Asks for a stream in this format. */
function transcribe(format: string, stream = "true") {
  const form = new FormData();
  form.append("model", "scripted");
  form.append("file", new File(["RIFF"], "a.wav", { type: "audio/wav" }));
  form.append("stream", stream);
  form.append("response_format", format);
  return fetch(`${gateway.url}/v1/audio/transcriptions`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}` },
    body: form,
  });
}
const readerOf = (response: Response) => (response.body as ReadableStream<Uint8Array>).getReader();

/** Every byte, also those that are no text. */
const allBytes = Buffer.from(Array.from({ length: 256 }, (_, byte) => byte));

const reversed = Buffer.from(allBytes.toReversed());

test("each chunk of speech reaches the caller before the upstream sends the next", async () => {
  const goOn = Promise.withResolvers<void>();
  upstream.answerWith(
    chunkedAnswer(async function* () {
      yield allBytes;
      await goOn.promise;
      yield reversed;
    }, "audio/ogg; codecs=opus"),
  );
  const response = await speak("scripted");
  assert.deepEqual([response.status, response.headers.get("content-type")], [200, "audio/ogg; codecs=opus"]);
  const reader = readerOf(response);
  assert.deepEqual(Buffer.from((await reader.read()).value ?? []), allBytes);
  goOn.resolve();
  assert.deepEqual(Buffer.from((await reader.read()).value ?? []), reversed);
  assert.equal((await reader.read()).done, true);
  assert.deepEqual(upstream.last().json, { model: "theirs", input: "hello", voice: "alloy" });
});

test("speech that fails before its first byte comes from the next target, also if the failure has a success status", async () => {
  const failures: UpstreamAnswer[] = [
    (response) => response.writeHead(503).end(),
    bodyAnswer("", "audio/mpeg"),
    jsonAnswer({ error: { message: "The voice is loading.", code: "server_error" } }),
    (response) => response.destroy(),
  ];
  for (const failure of failures) {
    upstream.answerWith(failure);
    const response = await speak("failing-over");
    assert.deepEqual([response.status, response.headers.get("content-type")], [200, "audio/mpeg"]);
    assert.equal(Buffer.from(await response.arrayBuffer()).toString("latin1", 0, 3), "ID3");
  }
});

test("a stream from an upstream that answers in text is the event that ends a transcript", async () => {
  for (const [format, contentType, text] of [
    ["text", "text/plain; charset=utf-8", "hello there\n"],
    ["srt", "application/x-subrip", "1\n00:00:00,000 --> 00:00:01,000\nhello there\n\n"],
    ["vtt", "text/vtt", "WEBVTT\n\n00:00.000 --> 00:01.000\nhello there\n\n"],
    ["text", "text/plain", ""],
  ] as const) {
    upstream.answerWith(bodyAnswer(text, contentType));
    const response = await transcribe(format);
    assert.deepEqual(
      [response.status, response.headers.get("content-type")?.split(";")[0]],
      [200, "text/event-stream"],
    );
    const data = JSON.stringify({ type: "transcript.text.done", text });
    assert.equal(await response.text(), `event: transcript.text.done\ndata: ${data}\n\n`);
  }
  upstream.answerWith(bodyAnswer('{"error":{"message":"The file is broken."}}', "text/plain"));
  assert.equal((await transcribe("text")).status, 502);
});

test("a text comes as a text from an upstream that answers in JSON", async () => {
  for (const [format, answer, text] of [
    ["text", { text: "hello {there}\n" }, "hello {there}\n"],
    ["text", { text: "", usage: { type: "duration", seconds: 3 } }, ""],
    ["text", { status: "ok" }, '{"status":"ok"}'],
    ["srt", { text: "hello" }, '{"text":"hello"}'],
    ["json", { text: "hello" }, '{"text":"hello"}'],
  ] as const) {
    upstream.answerWith(jsonAnswer(answer));
    const response = await transcribe(format, "false");
    assert.deepEqual([response.status, await response.text()], [200, text], format);
    const type = response.headers.get("content-type")?.split(";")[0];
    assert.equal(type, format === "json" ? "application/json" : "text/plain");
  }
});

test("a flag as Python's clients write it asks for a stream, here and at the upstream", async () => {
  upstream.answerWith(bodyAnswer("hello", "text/plain"));
  const response = await transcribe("text", "True");
  assert.equal(response.headers.get("content-type")?.split(";")[0], "text/event-stream");
  assert.match(await response.text(), /transcript\.text\.done/);
  assert.match(upstream.last().body.toString(), /name="stream"\r\n\r\ntrue\r\n/);
});

test("a retry with the same Idempotency-Key gets the same bytes, and the upstream speaks once", async () => {
  const bytes = async () => {
    const response = await speak("quick-speaker", { "idempotency-key": "speech-1" });
    assert.equal(response.headers.get("content-type"), "audio/mpeg");
    return Buffer.from(await response.arrayBuffer());
  };
  const first = await bytes();
  const before = (await gateway.seen("sim-speech")).length;
  assert.deepEqual(await bytes(), first);
  assert.deepEqual([first.length, (await gateway.seen("sim-speech")).length], [10 + 4 * 4_800, before]);
});

test("speech that never ends, speech that nobody reads, a queue of both and a slow upload delay no conversation", async () => {
  const endless = await speak("endless-speaker");
  const reader = readerOf(endless);
  await reader.read();
  const unread = await speak("long-speaker");
  const waiting = speak("endless-speaker");
  const boundary = "------------------------d74496d66958873e";
  const upload = request(`${gateway.url}/v1/audio/transcriptions`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.key}`, "content-type": `multipart/form-data; boundary=${boundary}` },
  });
  upload.write(
    `--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\ntranscriber\r\n--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\ncontent-type: audio/mpeg\r\n\r\n`,
  );
  upload.write(Buffer.alloc(1 << 20, 1));

  const talk = async () => {
    const { choices } = await gateway
      .client()
      .chat.completions.create({ model: "talker", messages: [{ role: "user", content: "hello" }] });
    assert.match(choices[0]?.message.content ?? "", /^You said: hello/);
  };
  await Promise.all(Array.from({ length: 20 }, talk));

  // All of them are still under way. Their slots free up, so the rest follows.
  assert.equal((await gateway.seen("sim-speech;tokens=100000;stall=5")).length, 1);
  await reader.cancel();
  const second = await waiting;
  const secondReader = readerOf(second);
  await secondReader.read();
  await secondReader.cancel();
  assert.equal((await unread.arrayBuffer()).byteLength, 10 + 3_000 * 4_800);
  const answered = once(upload, "response");
  upload.end(`\r\n--${boundary}--\r\n`);
  const [response] = await answered;
  const body: Buffer[] = [];
  for await (const part of response) body.push(part);
  assert.match(Buffer.concat(body).toString(), /a\.mp3 \(audio\/mpeg, 1048576 bytes/);
});
