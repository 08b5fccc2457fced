/** Speech, transcripts and translations through the official client, in every format. */
import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { after, test } from "node:test";
import OpenAI, { toFile } from "openai";
import { brokenTextOf } from "../support/stream.ts";
import { startClientsGateway } from "./support.ts";

const gateway = await startClientsGateway();
after(() => gateway[Symbol.asyncDispose]());
const client = gateway.client();
const input = "Good morning, this is a test of a voice.";

const bytesOf = async (response: Response) => Buffer.from(await response.arrayBuffer());

/** The simulator's own answer to this request. */
const spokenBy = async (body: object) =>
  bytesOf(
    await fetch(`${gateway.simulatorUrl}/v1/audio/speech`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  );

test("speech in every format has the upstream's bytes and content type", async () => {
  const types = {
    mp3: "audio/mpeg",
    opus: "audio/opus",
    aac: "audio/aac",
    flac: "audio/flac",
    wav: "audio/wav",
    pcm: "audio/pcm",
  };
  for (const [format, type] of Object.entries(types) as [keyof typeof types, string][]) {
    const request = { input, voice: "alloy", response_format: format } as const;
    const response = await client.audio.speech.create({ model: "speaker", ...request });
    assert.equal(response.headers.get("content-type"), type);
    assert.deepEqual(await bytesOf(response), await spokenBy({ model: "sim-speech", ...request }));
  }
  const response = await client.audio.speech.create({ model: "speaker", input, voice: { id: "voice_1" }, speed: 2 });
  assert.equal((await bytesOf(response)).subarray(0, 3).toString(), "ID3");
});

test("speech as events passes with its usage", async () => {
  const response = await client.audio.speech.create({
    model: "speaker",
    input,
    voice: "alloy",
    response_format: "pcm",
    stream_format: "sse",
  });
  assert.match(response.headers.get("content-type") ?? "", /^text\/event-stream/);
  const events = (await response.text())
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => JSON.parse(event.slice(event.indexOf("data: ") + 6)));
  const audio = Buffer.concat(events.slice(0, -1).map(({ audio: part }) => Buffer.from(part, "base64")));
  assert.deepEqual(audio, await spokenBy({ model: "sim-speech", input, voice: "alloy", response_format: "pcm" }));
  const last = events.at(-1);
  assert.deepEqual([last.type, last.usage.input_tokens], ["speech.audio.done", 10]);
});

test("speech that can't be made is an error of the client's classes, and speech that breaks off a broken connection", async () => {
  const request = { input, voice: "alloy" as const };
  const isBad = (param: string) => (error: InstanceType<typeof OpenAI.APIError>) => {
    assert.deepEqual([error.status, error.param], [400, param], error.message);
    return true;
  };
  await assert.rejects(
    client.audio.speech.create({ model: "failing-speaker", ...request }),
    OpenAI.InternalServerError,
  );
  await assert.rejects(client.audio.speech.create({ model: "gemini-text", ...request }), isBad("model"));
  await assert.rejects(client.audio.speech.create({ model: "speaker", ...request, input: "" }), isBad("input"));
  await assert.rejects(client.audio.speech.create({ model: "speaker", ...request, speed: 5 }), isBad("speed"));
  await assert.rejects(
    client.audio.speech.create({ model: "speaker", ...request, response_format: "midi" as never }),
    isBad("response_format"),
  );
  for (const stream_format of ["audio", "sse"] as const) {
    const speak = () => client.audio.speech.create({ model: "breaking-speaker", ...request, stream_format });
    // A broken connection may take along what was sent before it.
    if (stream_format === "audio") await assert.rejects(async () => (await speak()).arrayBuffer());
    else assert.match(await brokenTextOf(await speak()), /"error":\{"message":.*"code":"upstream_error"\}\}\n\n$/);
  }
});

const recording = Buffer.from(Array.from({ length: 40_000 }, (_, place) => (place * 7) % 256));
const file = () => toFile(recording, "Gespräch 1.wav", { type: "audio/wav" });
const heard = "I heard Gespräch 1.wav (audio/wav, 40000 bytes, no language).";

test("transcripts in every format have the file's name, type and bytes, and the format's content type", async () => {
  const model = "transcriber";
  const json = await client.audio.transcriptions.create({ model, file: await file() });
  assert.deepEqual([json.text, json.usage?.type], [heard, "tokens"]);
  for (const [response_format, pattern, type] of [
    ["text", /^I heard .*\.\n$/, "text/plain"],
    ["srt", /^1\n00:00:00,000 --> 00:00:03,000\nI heard/, "text/plain"],
    ["vtt", /^WEBVTT\n\n/, "text/vtt"],
  ] as const) {
    const { data, response } = await client.audio.transcriptions
      .create({ model, file: await file(), response_format })
      .withResponse();
    assert.match(data as string, pattern);
    assert.equal(response.headers.get("content-type"), `${type}; charset=utf-8`);
  }
  const verbose = await client.audio.transcriptions.create({
    model,
    file: await file(),
    language: "en",
    prompt: "names",
    temperature: 0.5,
    response_format: "verbose_json",
    timestamp_granularities: ["word", "segment"],
  });
  assert.match(verbose.text, /40000 bytes, en, prompted with "names"/);
  assert.deepEqual([verbose.duration, (verbose.words?.length ?? 0) > 3, verbose.segments?.length], [3, true, 1]);
  const diarized = await client.audio.transcriptions.create({
    model,
    file: await file(),
    response_format: "diarized_json",
    chunking_strategy: { type: "server_vad" },
  });
  assert.equal((diarized as OpenAI.Audio.TranscriptionDiarized).segments[0]?.speaker, "A");
});

test("a transcript is streamed, also with speakers", async () => {
  for (const response_format of ["json", "diarized_json"] as const) {
    const types = new Set<string>();
    let text = "";
    for await (const event of await client.audio.transcriptions.create({
      model: "transcriber",
      file: await file(),
      response_format,
      stream: true,
    })) {
      types.add(event.type);
      if (event.type === "transcript.text.delta") text += event.delta;
      if (event.type === "transcript.text.done") assert.deepEqual([event.text, event.usage?.total_tokens], [heard, 46]);
    }
    assert.equal(text, heard);
    assert.equal(types.has("transcript.text.segment"), response_format === "diarized_json");
    assert.ok(types.has("transcript.text.done"));
  }
});

test("a translation, and a recording that is uploaded in chunks of unknown length", async () => {
  const translated = await client.audio.translations.create({ model: "transcriber", file: await file() });
  assert.equal(translated.text, `In English: ${heard}`);
  const boundary = "openai-boundary";
  const parts = [
    `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.ogg"\r\ncontent-type: audio/ogg\r\n\r\n`,
    recording,
    `\r\n--${boundary}\r\ncontent-disposition: form-data; name="model"\r\n\r\ntranscriber\r\n--${boundary}--\r\n`,
  ];
  const response = await fetch(`${gateway.url}/v1/audio/transcriptions`, {
    method: "POST",
    headers: {
      authorization: `Bearer ${gateway.key}`,
      "content-type": `multipart/form-data; boundary=${boundary}`,
    },
    body: Readable.toWeb(Readable.from(parts.map((part) => Buffer.from(part)))) as ReadableStream,
    duplex: "half",
  } as RequestInit);
  assert.deepEqual(
    [response.status, ((await response.json()) as { text: string }).text],
    [200, "I heard a.ogg (audio/ogg, 40000 bytes, no language)."],
  );
});

test("a recording of 25 MB passes; a form without a file or with a bad field is an error that names it", async () => {
  const model = "transcriber";
  const large = await toFile(Buffer.alloc(25 << 20, 1), "long.mp3", { type: "audio/mpeg" });
  const { text } = await client.audio.transcriptions.create({ model, file: large });
  assert.equal(text, "I heard long.mp3 (audio/mpeg, 26214400 bytes, no language).");
  const isBad = (param: string) => (error: InstanceType<typeof OpenAI.APIError>) => {
    assert.deepEqual([error.status, error.param], [400, param], error.message);
    return true;
  };
  const form = async (more: object) =>
    client.audio.transcriptions.create({ model, file: await file(), ...more } as never);
  await assert.rejects(form({ file: undefined }), isBad("file"));
  await assert.rejects(form({ file: "a.wav" }), isBad("file"));
  await assert.rejects(form({ model: "gemini-text" }), isBad("model"));
  await assert.rejects(form({ response_format: "xml" }), isBad("response_format"));
  await assert.rejects(form({ temperature: 2 }), isBad("temperature"));
  await assert.rejects(
    form({ known_speaker_names: ["a"], known_speaker_references: ["http://10.0.0.1/a.wav"] }),
    isBad("known_speaker_references[0]"),
  );
  await assert.rejects(form({ timestamp_granularities: ["page"] }), isBad("timestamp_granularities[0]"));
  await assert.rejects(form({ file: await toFile(recording, "a.txt", { type: "text/plain" }) }), isBad("file"));
});

test("a form with a second file is refused, whatever the fields are", async () => {
  const wav = new File(["RIFF"], "a.wav", { type: "audio/wav" });
  for (const path of ["transcriptions", "translations"])
    for (const files of [
      [wav, wav],
      ["a.wav", wav],
      [wav, "a.wav", wav],
    ]) {
      const form = new FormData();
      form.append("model", "transcriber");
      for (const one of files) form.append("file", one);
      const response = await fetch(`${gateway.url}/v1/audio/${path}`, {
        method: "POST",
        headers: { authorization: `Bearer ${gateway.key}` },
        body: form,
      });
      const { error } = (await response.json()) as { error: { param: string; message: string } };
      assert.deepEqual([response.status, error.param], [400, "file"]);
      assert.match(error.message, /more than 1 item/);
    }
});

test("references to speakers must be data URLs, however the field is spelled", async () => {
  const post = (name: string, value: string | File) => {
    const form = new FormData();
    form.append("model", "transcriber");
    form.append("file", new File(["RIFF"], "a.wav", { type: "audio/wav" }));
    form.append(name, value);
    return fetch(`${gateway.url}/v1/audio/transcriptions`, {
      method: "POST",
      headers: { authorization: `Bearer ${gateway.key}` },
      body: form,
    });
  };
  for (const end of ["", "[]", "[0]", "[][]", "[ ]", "[a][url]"])
    for (const name of [`known_speaker_references${end}`, `Known_Speaker_References${end}`]) {
      for (const value of ["http://10.0.0.1/a.wav", new File(["x"], "x")]) {
        const response = await post(name, value);
        const { error } = (await response.json()) as { error: { param: string } };
        assert.deepEqual([response.status, error.param], [400, "known_speaker_references[0]"], name);
      }
      assert.equal((await post(name, "data:audio/wav;base64,UklGRg==")).status, 200, name);
    }
});
