/**
 * Simulated transcripts: they describe the recording as it arrived, so that the caller sees its
 * name, type and size.
 */
import { chunksOf, eachOf, promptTokensOf } from "../../answer/chunks.ts";
import { type FormFile, isFile } from "../../request-body.ts";
import type { Settings } from "../../settings.ts";
import { refuse, type Script, type Whole, wholeOf } from "../dialect.ts";
import { eventOf } from "../event.ts";
import { openaiScript } from "../openai.ts";
import { compiled, filledText, list, nullable, nullableText, object, oneOf, shaped } from "../shape.ts";

const transcriptForm = compiled(
  object({
    model: filledText,
    language: nullableText,
    prompt: nullableText,
    response_format: nullable(oneOf(["json", "text", "srt", "verbose_json", "vtt", "diarized_json"])),
    stream: nullable(oneOf(["true", "false"])),
    timestamp_granularities: nullable(list(oneOf(["word", "segment"]))),
  }),
);

const fileBytesMax = 26_214_400;
const bytesPerSecond = 16_000;
const tokensPerSecond = 10;

interface Heard {
  text: string;
  seconds: number;
  words: string[];
}

export function transcriptOf(body: unknown, settings: Settings, translates: boolean): Script | Whole {
  const request = shaped(transcriptForm, body);
  const file = fileIn(body);
  const spoken = request.language ?? "no language";
  const prompted = request.prompt ? `, prompted with "${request.prompt}"` : "";
  const text = `${translates ? "In English: I" : "I"} heard ${file.name} (${file.type}, ${file.data.length} bytes, ${spoken}${prompted}).`;
  const heard = { text, seconds: Math.ceil(file.data.length / bytesPerSecond), words: text.split(" ") };
  const format = request.response_format ?? "json";
  if (request.stream === "true" && !translates) return scriptOf(heard, settings, format === "diarized_json");
  const tokens = promptTokensOf(text);
  const textOf: Partial<Record<typeof format, string>> = {
    text: `${text}\n`,
    srt: `1\n00:00:00,000 --> ${timeOf(heard.seconds, ",")}\n${text}\n\n`,
    vtt: `WEBVTT\n\n00:00:00.000 --> ${timeOf(heard.seconds, ".")}\n${text}\n\n`,
  };
  const asText = textOf[format];
  if (asText !== undefined)
    return {
      kind: "whole",
      contentType: format === "vtt" ? "text/vtt; charset=utf-8" : "text/plain; charset=utf-8",
      body: asText,
      tokens,
    };
  const isTimed = format !== "json";
  return wholeOf(
    {
      text,
      ...(isTimed && { task: translates ? "translate" : "transcribe", duration: heard.seconds }),
      ...(format === "verbose_json" && { language: "english", segments: [segmentOf(heard)] }),
      ...(format === "verbose_json" &&
        request.timestamp_granularities?.includes("word") && { words: heard.words.map(wordAt(heard)) }),
      ...(format === "diarized_json" && { segments: [speakerSegmentOf(heard)] }),
      ...(settings.usage !== "never" && {
        usage: isTimed ? { type: "duration", seconds: heard.seconds } : usageOf(heard),
      }),
    },
    tokens,
  );
}

function fileIn(body: unknown): FormFile {
  const { file } = Object(body);
  if (!isFile(file))
    return refuse("Missing required parameter: 'file'.", "file", { code: "missing_required_parameter" });
  if (file.data.length === 0) refuse("The audio file is empty.", "file");
  if (file.data.length > fileBytesMax)
    refuse(`Maximum content size limit (${fileBytesMax}) exceeded.`, "file", { status: 413 });
  if (!/\.(flac|m4a|mp3|mp4|mpeg|mpga|oga|ogg|wav|webm)$/i.test(file.name))
    refuse("Invalid file format. Supported formats: flac, m4a, mp3, mp4, mpeg, mpga, oga, ogg, wav, webm.", "file");
  return file;
}

const timeOf = (seconds: number, point: string) =>
  `${new Date(seconds * 1_000).toISOString().slice(11, 19)}${point}000`;

const usageOf = ({ text, seconds }: Heard) => {
  const input = seconds * tokensPerSecond;
  const output = promptTokensOf(text);
  return {
    type: "tokens",
    input_tokens: input,
    input_token_details: { text_tokens: 0, audio_tokens: input },
    output_tokens: output,
    total_tokens: input + output,
  };
};

const segmentOf = ({ text, seconds }: Heard) => ({
  id: 0,
  seek: 0,
  start: 0,
  end: seconds,
  text,
  tokens: [1],
  temperature: 0,
  avg_logprob: -0.1,
  compression_ratio: 1,
  no_speech_prob: 0.01,
});

const speakerSegmentOf = ({ text, seconds }: Heard) => ({
  type: "transcript.text.segment",
  id: "seg_0",
  start: 0,
  end: seconds,
  speaker: "A",
  text,
});

const wordAt =
  ({ words, seconds }: Heard) =>
  (word: string, place: number) => ({
    word,
    start: (seconds * place) / words.length,
    end: (seconds * (place + 1)) / words.length,
  });

function scriptOf(heard: Heard, settings: Settings, isDiarized: boolean): Script {
  const chunks = chunksOf(heard.text);
  function* events(): Generator<string, string> {
    for (const delta of eachOf(chunks))
      yield eventOf({ type: "transcript.text.delta", delta, ...(isDiarized && { segment_id: "seg_0" }) });
    return isDiarized ? eventOf(speakerSegmentOf(heard)) : "";
  }
  return openaiScript({
    length: chunks.length,
    events: events(),
    terminator: eventOf({
      type: "transcript.text.done",
      text: heard.text,
      ...(settings.usage !== "never" && { usage: usageOf(heard) }),
    }),
  });
}
