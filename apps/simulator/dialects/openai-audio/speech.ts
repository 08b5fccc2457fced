/**
 * Simulated speech: a tone whose pitch depends on the text. WAV and PCM are playable; the other
 * formats begin as such files do, and the rest of them is the same samples, so that they only look
 * like audio to a program that passes them on.
 */
import { promptTokensOf, seedOf } from "../../answer/chunks.ts";
import type { Settings } from "../../settings.ts";
import type { Script } from "../dialect.ts";
import { eventOf } from "../event.ts";
import { openaiErrorBody, openaiScript } from "../openai.ts";
import {
  anyOf,
  compiled,
  filledText,
  nullable,
  nullableNumber,
  nullableText,
  object,
  oneOf,
  shaped,
  string,
} from "../shape.ts";

const speechRequest = compiled(
  object({
    model: filledText,
    input: string({ minLength: 1, maxLength: 4_096 }),
    voice: anyOf([filledText, object({ id: filledText })]),
    response_format: nullable(oneOf(["mp3", "opus", "aac", "flac", "wav", "pcm"])),
    speed: nullableNumber(0.25, 4),
    instructions: nullableText,
    stream_format: nullable(oneOf(["audio", "sse"])),
  }),
);

type Format = "mp3" | "opus" | "aac" | "flac" | "wav" | "pcm";

const samplesPerSecond = 24_000;
/** A chunk is a tenth of a second; 16-bit samples, little-endian, mono. */
const chunkSamples = samplesPerSecond / 10;
const chunksPerSecond = 10;
/** A usual pace of speech. */
const charactersPerSecond = 15;

/** A WAV header for a length that is not known yet: http://soundfile.sapp.org/doc/WaveFormat/ */
function wavHeader(): Buffer {
  const header = Buffer.alloc(44);
  header.write("RIFF", 0, "latin1");
  header.writeUInt32LE(0xffff_ffff, 4);
  header.write("WAVEfmt ", 8, "latin1");
  header.writeUInt32LE(16, 16);
  header.writeUInt16LE(1, 20);
  header.writeUInt16LE(1, 22);
  header.writeUInt32LE(samplesPerSecond, 24);
  header.writeUInt32LE(samplesPerSecond * 2, 28);
  header.writeUInt16LE(2, 32);
  header.writeUInt16LE(16, 34);
  header.write("data", 36, "latin1");
  header.writeUInt32LE(0xffff_ffff, 40);
  return header;
}

const formats: Record<Format, { type: string; header: () => Buffer }> = {
  mp3: { type: "audio/mpeg", header: () => Buffer.from([0x49, 0x44, 0x33, 4, 0, 0, 0, 0, 0, 0]) },
  opus: { type: "audio/opus", header: () => Buffer.from("OggS\0\x02", "latin1") },
  aac: { type: "audio/aac", header: () => Buffer.from([0xff, 0xf1, 0x50, 0x80]) },
  flac: { type: "audio/flac", header: () => Buffer.from("fLaC\0", "latin1") },
  wav: { type: "audio/wav", header: wavHeader },
  pcm: { type: "audio/pcm", header: () => Buffer.alloc(0) },
};

export function speechOf(body: unknown, settings: Settings): Script {
  const request = shaped(speechRequest, body);
  const { type, header } = formats[request.response_format ?? "mp3"];
  const length =
    settings.tokens ?? Math.ceil((request.input.length / charactersPerSecond / (request.speed ?? 1)) * chunksPerSecond);
  const pitch = 110 + (seedOf(request.input) % 330);
  function* events(eventFor: (tone: Buffer, isFirst: boolean) => string): Generator<string, string> {
    for (let index = 0; index < length; index++) yield eventFor(toneOf(pitch, index), index === 0);
    return "";
  }
  if (request.stream_format !== "sse")
    return openaiScript({
      contentType: type,
      encoding: "latin1",
      opening: header().toString("latin1"),
      length,
      events: events((tone) => tone.toString("latin1")),
      terminator: "",
      errorEvent: (message) => openaiErrorBody({ status: 500, message }),
    });
  const inputTokens = promptTokensOf(request.input);
  const usage = { input_tokens: inputTokens, output_tokens: length * 2, total_tokens: inputTokens + length * 2 };
  const deltaOf = (bytes: Buffer) => eventOf({ type: "speech.audio.delta", audio: bytes.toString("base64") });
  return openaiScript({
    length,
    events: events((tone, isFirst) => deltaOf(isFirst ? Buffer.concat([header(), tone]) : tone)),
    terminator: eventOf({ type: "speech.audio.done", ...(settings.usage !== "never" && { usage }) }),
  });
}

function toneOf(pitch: number, chunk: number): Buffer {
  const bytes = Buffer.alloc(chunkSamples * 2);
  for (let place = 0; place < chunkSamples; place++) {
    const seconds = (chunk * chunkSamples + place) / samplesPerSecond;
    bytes.writeInt16LE(Math.round(12_000 * Math.sin(2 * Math.PI * pitch * seconds)), place * 2);
  }
  return bytes;
}
