/**
 * The cases of operations besides conversations: a request, and what its caller must read. Each is
 * asked with an upstream of every dialect of conversations.
 */
import assert from "node:assert/strict";

export interface OperationCase {
  name: string;
  path: string;
  /** A form has a recording. */
  request: Record<string, unknown> | FormData;
  expect(response: Response, body: Buffer): void;
}

const prompt = "hello there";
const greeting = "You said: hello there\nThis is the simulator: the same words always get the same answer.";
const jsonIn = (body: Buffer): Record<string, never> => JSON.parse(body.toString());
const typeOf = (response: Response) => response.headers.get("content-type")?.split(";", 1)[0];
const dataIn = (body: Buffer) =>
  body
    .toString()
    .split("\n")
    .filter((line) => line.startsWith("data: {"))
    .map((line) => JSON.parse(line.slice(6)));

const formOf = (fields: Record<string, string>): FormData => {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", new File([new Uint8Array(100)], "a.wav", { type: "audio/wav" }));
  return form;
};
const heard = "I heard a.wav (audio/wav, 100 bytes, no language).";

const speech = { input: prompt, voice: "alloy", response_format: "wav" };
const isWave = (bytes: Buffer) => assert.equal(bytes.toString("latin1", 0, 4), "RIFF");

const transcript = (format: string, type: string, pattern: RegExp): OperationCase => ({
  name: `transcript, ${format}`,
  path: "/v1/audio/transcriptions",
  request: formOf({ response_format: format }),
  expect(response, body) {
    assert.equal(typeOf(response), type);
    assert.match(body.toString(), pattern);
  },
});

const json = "application/json";

export const operationCases: readonly OperationCase[] = [
  {
    name: "completion, whole",
    path: "/v1/completions",
    request: { prompt },
    expect: (_response, body) => assert.equal(Object(jsonIn(body).choices)[0].text, greeting),
  },
  {
    name: "completion, streamed",
    path: "/v1/completions",
    request: { prompt, stream: true },
    expect(response, body) {
      assert.equal(typeOf(response), "text/event-stream");
      const text = dataIn(body).map(({ choices }) => choices[0]?.text ?? "");
      assert.equal(text.join(""), greeting);
      assert.match(body.toString(), /data: \[DONE\]\n\n$/);
    },
  },
  ...(["suffix", "echo", "logprobs"] as const).map(
    (name): OperationCase => ({
      name: `completion, ${name}`,
      path: "/v1/completions",
      request: { prompt, [name]: { suffix: "end", echo: true, logprobs: 1 }[name] },
      expect: (_response, body) => assert.match(Object(jsonIn(body).choices)[0].text, /hello there/),
    }),
  ),
  {
    name: "moderation",
    path: "/v1/moderations",
    request: { input: "kill it" },
    expect: (_response, body) => assert.equal(Object(jsonIn(body).results)[0].flagged, true),
  },
  ...["/v1/rerank", "/v2/rerank"].map(
    (path): OperationCase => ({
      name: `ranking, ${path}`,
      path,
      request: { query: prompt, documents: ["a", prompt] },
      expect: (_response, body) => assert.equal(Object(jsonIn(body).results)[0].index, 1),
    }),
  ),
  {
    name: "speech, bytes",
    path: "/v1/audio/speech",
    request: speech,
    expect(response, body) {
      assert.equal(typeOf(response), "audio/wav");
      isWave(body);
    },
  },
  {
    name: "speech, events",
    path: "/v1/audio/speech",
    request: { ...speech, stream_format: "sse" },
    expect(response, body) {
      assert.equal(typeOf(response), "text/event-stream");
      const events = dataIn(body);
      isWave(Buffer.from(events[0].audio, "base64"));
      assert.equal(events.at(-1).type, "speech.audio.done");
    },
  },
  transcript("json", json, /"text":"I heard a\.wav/),
  transcript("text", "text/plain", /^I heard a\.wav/),
  transcript("srt", "text/plain", /-->/),
  transcript("vtt", "text/vtt", /^WEBVTT/),
  transcript("verbose_json", json, /"duration":1/),
  transcript("diarized_json", json, /"speaker":"A"/),
  {
    name: "transcript, events",
    path: "/v1/audio/transcriptions",
    request: formOf({ stream: "true" }),
    expect: (_response, body) => assert.equal(dataIn(body).at(-1).text, heard),
  },
  {
    name: "translation",
    path: "/v1/audio/translations",
    request: formOf({}),
    expect: (_response, body) => assert.equal(jsonIn(body).text, `In English: ${heard}`),
  },
];
