/** OpenAI images: POST /v1/images/generations and POST /v1/images/edits, streamed and whole. */
import { type Dialect, stringOf } from "../dialect.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { imagesScriptOf, imagesWholeOf } from "./answer.ts";
import { imagesQuestionOf } from "./request.ts";

const generations = "/v1/images/generations";
const edits = "/v1/images/edits";

export const openaiImages: Dialect = {
  name: "openai-images",
  serves: (method, path) => method === "POST" && (path === generations || path === edits),
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer({ path, body, digest, settings }) {
    const question = imagesQuestionOf(body, { editing: path === edits });
    return (question.stream ? imagesScriptOf : imagesWholeOf)({ question, digest, settings });
  },
};
