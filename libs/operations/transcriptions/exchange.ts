/**
 * Transcripts and translations from upstreams with OpenAI's endpoints for them, in every format,
 * whole or as events.
 */

import { audioUsageOf, transcriptEventOf, transcriptStreamOf } from "#dialects/openai/audio.ts";
import { formOf } from "#wire/form.ts";
import { openBrace } from "#wire/json/bytes.ts";
import { type JsonObject, parsedObject } from "#wire/json/parse.ts";
import { type CallExchange, ownCall, refusedFor } from "../exchange.ts";
import { errorIn, formRequestOf } from "../openai-call.ts";
import { transcriptionValuesOf } from "./form.ts";
import type { TranscriptFormat } from "./schema.ts";

interface Context {
  format: TranscriptFormat;
  /** The caller wants events. */
  streams: boolean;
}

/** The content types of the formats that are texts. As JSON, clients would parse them. */
const textTypes: Partial<Record<TranscriptFormat, string>> = {
  text: "text/plain; charset=utf-8",
  srt: "text/plain; charset=utf-8",
  vtt: "text/vtt; charset=utf-8",
};

/** The event that ends a stream. */
const doneEventOf = ({ text, logprobs, usage }: JsonObject): Buffer =>
  transcriptEventOf("done", { text, logprobs, usage });

const exchangeOf = (path: string): CallExchange<Context> => ({
  wantedOf: () => "openai-chat",
  async prepare({ body, contentType, framing, spoken, target }) {
    if (spoken !== "openai-chat") return refusedFor("recordings on these paths");
    const form = await formOf(body, contentType);
    const { response_format: format = "json" } = transcriptionValuesOf(form);
    return ownCall<Context>(await formRequestOf(form, path, target.model), {
      format: format as TranscriptFormat,
      streams: framing === "sse",
    });
  },
  rawOf({ format }) {
    const contentType = textTypes[format];
    return contentType === undefined ? undefined : { kind: "text", contentType };
  },
  stream: transcriptStreamOf,
  read({ format, streams }, bytes) {
    if (textTypes[format] !== undefined) {
      const answer = bytes[0] === openBrace ? parsedObject(bytes) : undefined;
      // Some servers ignore the format, and answer in JSON:
      // https://github.com/vllm-project/vllm/issues/49095
      const isReadable = streams || (format === "text" && typeof answer?.text === "string");
      if (answer === undefined || (!isReadable && answer.error === undefined))
        return {
          kind: "answer",
          body: streams ? doneEventOf({ text: bytes.toString("utf8") }) : bytes,
          usage: undefined,
        };
    }
    const answer = parsedObject(bytes);
    // An empty text is the transcript of silence.
    if (typeof answer?.text !== "string") return errorIn(answer);
    const usage = audioUsageOf(answer.usage) ?? audioUsageOf({ seconds: Number(answer.duration) });
    if (!streams) return { kind: "answer", body: format === "text" ? Buffer.from(answer.text) : bytes, usage };
    return { kind: "answer", body: doneEventOf(answer), usage };
  },
});

export const transcriptionExchange = exchangeOf("/audio/transcriptions");
export const translationExchange = exchangeOf("/audio/translations");
