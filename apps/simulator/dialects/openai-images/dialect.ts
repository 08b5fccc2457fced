/**
 * OpenAI images: POST /v1/images/generations and /v1/images/edits, streamed and whole, and
 * /v1/images/variations.
 */
import { type Dialect, stringOf } from "../dialect.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { imagesScriptOf, imagesWholeOf } from "./answer.ts";
import { imagesQuestionOf } from "./request.ts";

const generations = "/v1/images/generations";
const edits = "/v1/images/edits";
const variations = "/v1/images/variations";

export const openaiImages: Dialect = {
  name: "openai-images",
  serves: (method, path) => method === "POST" && [generations, edits, variations].includes(path),
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer({ path, body, digest, settings }) {
    const question = imagesQuestionOf(path === variations ? { ...Object(body), prompt: "a variation" } : body, {
      editing: path !== generations,
    });
    return (question.stream ? imagesScriptOf : imagesWholeOf)({ question, digest, settings });
  },
};
