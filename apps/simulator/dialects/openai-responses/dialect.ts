/**
 * OpenAI responses: POST /v1/responses, streamed and whole, POST /v1/responses/compact, and POST
 * /v1/responses/input_tokens.
 */
import { compose, tokensOf } from "../../answer/compose.ts";
import { createdOf, refuse, wholeOf } from "../dialect.ts";
import { cachedUsageOf, openaiDialect } from "../openai.ts";
import { compactionOf, doneItemOf, itemsOf } from "./items.ts";
import { responsesQuestionOf } from "./request.ts";
import { compactedOf, responseOf } from "./response.ts";
import { responsesScriptOf } from "./stream.ts";

const responses = "/v1/responses";
const compact = "/v1/responses/compact";
const inputTokens = "/v1/responses/input_tokens";

export const openaiResponses = openaiDialect(
  "openai-responses",
  [responses, compact, inputTokens],
  ({ path, body, digest, settings, cache }) => {
    const counting = path === inputTokens;
    const { request, question, reasoning, compaction } = responsesQuestionOf(body, digest, { counting });
    if (counting) return wholeOf({ object: "response.input_tokens", input_tokens: question.promptTokens });
    const composed = compose(question, settings, (fault) => refuse(fault, "text.format.schema"));
    const answer = { ...composed, usage: cachedUsageOf(cache, body, composed.usage) };
    const [choice] = answer.choices;
    if (choice === undefined) throw new RangeError("an answer has no choice");
    const items =
      compaction === "alone"
        ? [compactionOf(digest)]
        : [...(compaction === "first" ? [compactionOf(digest)] : []), ...itemsOf(choice, digest, reasoning)];
    const envelope = { id: `resp_${digest.slice(0, 48)}`, created: createdOf(digest), request };
    if (path === compact) return wholeOf(compactedOf(envelope, doneItemOf(compactionOf(digest)), answer.usage), 1);
    const reason =
      choice.finish === "length" ? "max_output_tokens" : choice.finish === "filtered" ? "content_filter" : undefined;
    const outcome = {
      status: reason ? "incomplete" : "completed",
      reason,
      usage: settings.usage === "never" ? undefined : answer.usage,
    } as const;
    if (request.stream) return responsesScriptOf(envelope, items, outcome);
    return wholeOf(responseOf(envelope, { ...outcome, output: items.map(doneItemOf) }), tokensOf(choice));
  },
);
