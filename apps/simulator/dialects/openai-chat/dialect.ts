/** OpenAI chat completions: POST /v1/chat/completions, streamed and whole. */
import { compose } from "../../answer/compose.ts";
import { createdOf, type Dialect, refuse, stringOf } from "../dialect.ts";
import { openaiErrorBody } from "../openai-error.ts";
import { chatQuestionOf } from "./request.ts";
import { chatWholeOf } from "./response.ts";
import { chatScriptOf } from "./stream.ts";

export const openaiChat: Dialect = {
  name: "openai-chat",
  serves: (method, path) => method === "POST" && path === "/v1/chat/completions",
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: openaiErrorBody,
  answer({ body, digest, settings }) {
    const asked = chatQuestionOf(body, digest, settings);
    const answer = compose(asked.question, settings, (fault, of) =>
      refuse(fault, of === "format" ? "response_format" : "n"),
    );
    const envelope = { id: `chatcmpl-${digest.slice(0, 24)}`, created: createdOf(digest), model: asked.model };
    if (!asked.stream) return chatWholeOf(envelope, answer, settings.usage !== "never", settings.reasoningForm);
    return chatScriptOf(
      envelope,
      answer,
      settings.usage === "asked" ? (asked.includeUsage ? "always" : "never") : settings.usage,
      settings.reasoningForm,
    );
  },
};
