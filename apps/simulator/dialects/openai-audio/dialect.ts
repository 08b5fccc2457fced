/**
 * OpenAI audio: POST /v1/audio/speech, /v1/audio/transcriptions and /v1/audio/translations,
 * streamed and whole.
 */
import { type Dialect, stringOf } from "../dialect.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { speechOf } from "./speech.ts";
import { transcriptOf } from "./transcript.ts";

const speech = "/v1/audio/speech";
const transcriptions = "/v1/audio/transcriptions";
const translations = "/v1/audio/translations";

export const openaiAudio: Dialect = {
  name: "openai-audio",
  serves: (method, path) => method === "POST" && [speech, transcriptions, translations].includes(path),
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer: ({ path, body, settings }) =>
    path === speech ? speechOf(body, settings) : transcriptOf(body, settings, path === translations),
};
