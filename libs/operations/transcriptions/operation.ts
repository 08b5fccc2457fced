/**
 * Transcripts of recordings, and their translations to English:
 * https://platform.openai.com/docs/api-reference/audio/createTranscription
 */
import type { TSchema } from "typebox";
import { tokensPerSecond } from "#dialects/openai/audio.ts";
import { tokensOf } from "#dialects/usage.ts";
import { objectOf } from "#wire/json/parse.ts";
import type { Operation } from "../operation.ts";
import { transcriptionValuesOf } from "./form.ts";
import { transcriptionFormSchema, translationFormSchema } from "./schema.ts";

/** For the estimate of a recording's duration: MP3 of usual quality. */
const bytesPerSecond = 16_000;
/** Output tokens of a second, for a quick speaker. */
const textTokensPerSecond = 4;
/** The fields of a form besides its file. */
const fieldTokensMax = 250;

const transcriptOperation = (path: string, schema: TSchema): Operation => ({
  endpoints: [{ path, dialect: "openai-chat", schema }],
  formValuesOf: transcriptionValuesOf,
  bills: "input and output",
  inputTokensMax: fieldTokensMax,
  isRepeatable: true,
  demandOf: ({ file }) => {
    const seconds = Math.ceil(tokensOf(objectOf(file).size) / bytesPerSecond);
    return {
      outputTokensMax: undefined,
      mediaTokens: seconds * textTokensPerSecond,
      choices: 1,
      attachedTokens: seconds * tokensPerSecond,
      audioSeconds: seconds,
    };
  },
});

export const transcription = transcriptOperation("/v1/audio/transcriptions", transcriptionFormSchema);
export const translation = transcriptOperation("/v1/audio/translations", translationFormSchema);
