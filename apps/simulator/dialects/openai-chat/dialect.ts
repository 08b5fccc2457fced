/** OpenAI chat completions: POST /v1/chat/completions, streamed and whole. */
import { compose } from "../../answer/compose.ts";
import { createdOf, refuse } from "../dialect.ts";
import { cachedUsageOf, openaiDialect } from "../openai.ts";
import { chatQuestionOf } from "./request.ts";
import { chatWholeOf } from "./response.ts";
import { chatScriptOf } from "./stream.ts";

export const openaiChat = openaiDialect(
  "openai-chat",
  ["/v1/chat/completions"],
  ({ body, digest, settings, cache }) => {
    const request = chatQuestionOf(body, digest, settings);
    const composed = compose(request.question, settings, (fault, of) =>
      refuse(fault, of === "format" ? "response_format" : "n"),
    );
    const answer = { ...composed, usage: cachedUsageOf(cache, body, composed.usage) };
    const envelope = { id: `chatcmpl-${digest.slice(0, 24)}`, created: createdOf(digest), model: request.model };
    if (!request.stream) return chatWholeOf(envelope, answer, settings.usage !== "never", settings.reasoningForm);
    return chatScriptOf(
      envelope,
      answer,
      settings.usage === "asked" ? (request.includeUsage ? "always" : "never") : settings.usage,
      settings.reasoningForm,
    );
  },
);
