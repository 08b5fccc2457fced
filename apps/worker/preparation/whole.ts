/** The task of reading a whole answer, as plain data for a thread. */
import type { AnswerContext, AnswerIdentity } from "#dialects/codec.ts";
import type { ConversationDialect } from "#dialects/dialect.ts";
import { roughTokensOf } from "#dialects/neutral/usage-estimate.ts";
import type { AnswerReading } from "#operations/answer/exchange.ts";
import type { WholeTask } from "#operations/exchanges.ts";
import { settingsTextOf, shortened } from "./decoded-request.ts";

const answerTask = (context: AnswerReading): WholeTask => ({ operation: "answer", context });

export const verbatimTask = (dialect: ConversationDialect, identity: AnswerIdentity): WholeTask =>
  answerTask({ kind: "verbatim", dialect, identity });

/** `from` is the caller's dialect, `to` the upstream's. */
export const translatedTask = (
  from: ConversationDialect,
  to: ConversationDialect,
  { body, request, ...context }: AnswerContext,
): WholeTask =>
  answerTask({
    kind: "translated",
    from,
    to,
    context: {
      ...context,
      inputTokens: context.inputTokens ?? roughTokensOf(request),
      request: shortened(request, to),
    },
    body: settingsTextOf(body),
  });
