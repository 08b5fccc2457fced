import { openaiDialect } from "../openai.ts";
import { speechOf } from "./speech.ts";
import { transcriptOf } from "./transcript.ts";

const speech = "/v1/audio/speech";
const transcriptions = "/v1/audio/transcriptions";
const translations = "/v1/audio/translations";

export const openaiAudio = openaiDialect(
  "openai-audio",
  [speech, transcriptions, translations],
  ({ path, body, settings }) =>
    path === speech ? speechOf(body, settings) : transcriptOf(body, settings, path === translations),
);
