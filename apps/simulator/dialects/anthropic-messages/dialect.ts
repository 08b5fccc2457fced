/**
 * Anthropic messages: POST /v1/messages, streamed and whole, and POST /v1/messages/count_tokens.
 */

import { type Choice, compose, type Usage } from "../../answer/compose.ts";
import type { CacheUse } from "../../prompt-cache.ts";
import { anthropicLimitHeaders } from "../../rate-limits.ts";
import { type Dialect, headerIn, refuse, stringOf, wholeOf } from "../dialect.ts";
import { anthropicErrorBody } from "./error.ts";
import { countOf, type MessageQuestion, messageQuestionOf } from "./request.ts";
import { type MessageAnswer, messageWholeOf } from "./response.ts";
import { messageScriptOf } from "./stream.ts";

const messagesPath = "/v1/messages";
const countPath = "/v1/messages/count_tokens";

/** The smallest prompt that is written to a cache, and the step of written tokens. */
const cacheTokensMin = 1_024;
const cacheTokensStep = 128;

export const anthropicMessages: Dialect = {
  name: "anthropic-messages",
  serves: (method, path) => method === "POST" && (path === messagesPath || path === countPath),
  modelOf: ({ body }) => stringOf(body, "model"),
  errorBody: anthropicErrorBody,
  credentialOf: ({ headers }) => headerIn(headers["x-api-key"]),
  requestIdHeader: "request-id",
  limitHeaders: anthropicLimitHeaders,
  answer({ path, body, headers, digest, settings, cache }) {
    if (path === countPath) return wholeOf({ input_tokens: countOf(body, headers) });
    const request = messageQuestionOf(body, headers, digest);
    const composed = compose(request.question, settings, (fault) => refuse(`output_config.format.schema: ${fault}`));
    const { promptTokens } = composed.usage;
    const use = cache?.marked(request.cacheBlocks, settings.cacheTokensMin) ?? staticUseOf(request, composed.usage);
    const cachedTokens = Math.min(use.read, promptTokens);
    const cacheWriteTokens = Math.min(use.written, promptTokens - cachedTokens);
    const answer: MessageAnswer = {
      id: `msg_${digest.slice(0, 24)}`,
      model: request.model,
      choice: composed.choices[0] as Choice,
      usage: { ...composed.usage, cachedTokens },
      cacheWriteTokens,
      hourCacheWriteTokens: Math.min(use.writtenForHour, cacheWriteTokens),
      thinkingAs: settings.redacted ? "redacted" : request.display,
      withUsage: settings.usage !== "never",
    };
    return request.stream ? messageScriptOf(answer) : messageWholeOf(answer);
  },
};

/** Without a cache, every prompt with marks is written anew. */
function staticUseOf({ cacheBlocks }: MessageQuestion, { promptTokens, cachedTokens }: Usage): CacheUse {
  const isWritten = cacheBlocks.some(({ ttl }) => ttl !== undefined) && promptTokens >= cacheTokensMin;
  const written = isWritten ? Math.floor((promptTokens - cachedTokens) / cacheTokensStep) * cacheTokensStep : 0;
  return { read: cachedTokens, written, writtenForHour: 0 };
}
