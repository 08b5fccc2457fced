/**
 * Why a model stopped, in the words of all dialects. There is one table, because servers of one
 * dialect pass on the words of another, and write them in upper or lower case.
 *
 * OpenAI: https://platform.openai.com/docs/api-reference/chat/object Anthropic:
 * https://platform.claude.com/docs/en/build-with-claude/handling-stop-reasons Google:
 * https://ai.google.dev/api/generate-content#FinishReason,
 * https://cloud.google.com/vertex-ai/generative-ai/docs/reference/rest/v1/GenerateContentResponse#FinishReason
 * Mistral (`model_length`, `error`): https://docs.mistral.ai/api DeepSeek
 * (`insufficient_system_resource`, `aborted`):
 * https://api-docs.deepseek.com/api/create-chat-completion Z.ai (`sensitive`, `network_error`,
 * `model_context_window_exceeded`): https://docs.z.ai/api-reference/llm/chat-completion vLLM
 * (`abort`, `error`, `repetition`):
 * https://github.com/vllm-project/vllm/blob/main/vllm/v1/engine/__init__.py Text Generation
 * Inference (`eos_token`, `stop_sequence`): https://huggingface.github.io/text-generation-inference
 * Bedrock (`guardrail_intervened`, `content_filtered`):
 * https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html Cohere
 * (`COMPLETE`, `ERROR_TOXIC`): https://docs.cohere.com/reference/chat OpenRouter (`error`):
 * https://openrouter.ai/docs/api/reference/errors-and-debugging
 */

import { textOf } from "#wire/json/parse.ts";
import type { UpstreamError } from "../errors.ts";
import { scrubbed } from "../upstream-errors/scrub.ts";
import type { Finish } from "./neutral.ts";

const words: Record<Finish, readonly string[]> = {
  stop: ["stop", "end_turn", "eos", "eos_token", "complete", "completed"],
  "stop-sequence": ["stop_sequence"],
  // `repetition`: the server stopped a model that repeated itself.
  length: [
    "length",
    "max_tokens",
    "max_output_tokens",
    "max_length",
    "model_length",
    "repetition",
    "repetition_truncation",
  ],
  "context-full": ["model_context_window_exceeded"],
  calls: ["tool_calls", "tool_call", "tool_use", "function_call"],
  "content-filter": [
    "content_filter",
    "content_filtered",
    "guardrail_intervened",
    "sensitive",
    "error_toxic",
    "refusal",
    "safety",
    "recitation",
    "language",
    "blocklist",
    "prohibited_content",
    "spii",
    "image_safety",
    "image_prohibited_content",
    "image_recitation",
    "model_armor",
    "jailbreak",
  ],
  paused: ["pause_turn", "continuation", "compaction"],
};

/** Characters of an upstream's sentence about the end of an answer. */
export const explanationLengthMax = 1_000;

const finishes = new Map(
  (Object.entries(words) as [Finish, string[]][]).flatMap(([finish, names]) =>
    names.map((name) => [name, finish] as const),
  ),
);

/** Reasons that mean that the answer failed. */
const failures = new Set([
  "error",
  "abort",
  "aborted",
  "cancelled",
  "canceled",
  "failed",
  "failure",
  "function_call_filter",
  "insufficient_system_resource",
  "network_error",
  "timeout",
]);

/**
 * Reasons that mean that the model made a call that can't be read. An agent that took the text
 * before it for the answer would stop in the middle of its task.
 */
const malformedCalls = new Set([
  "malformed_function_call",
  "malformed_response",
  "missing_thought_signature",
  "too_many_tool_calls",
  "unexpected_tool_call",
]);

/**
 * Google's chat endpoint appends its own reason to a general one: `content_filter: RECITATION`,
 * `function_call_filter: MALFORMED_FUNCTION_CALL`.
 */
const wordOf = (reason: string) =>
  plainWord.test(reason) ? reason : (reason.split(":", 1)[0] as string).trim().toLowerCase();
const plainWord = /^[a-z_]+$/;

/**
 * A server's finish reason; undefined if there is none. Some servers send the text `null` while the
 * answer continues.
 */
export const reasonIn = (value: unknown) => (value === "null" ? undefined : textOf(value));

/**
 * The meaning of a finish reason; undefined if it is unknown or means failure. A `stop` with tool
 * calls counts as `calls`.
 */
export function finishOf(reason: string, called: boolean): Finish | undefined {
  const finish = finishes.get(wordOf(reason));
  return finish === "stop" && called ? "calls" : finish;
}

/** The meaning of the first reason that is known, of an answer with one or several endings. */
export function finishIn(reasons: readonly unknown[]): Finish | undefined {
  for (const reason of reasons) {
    const finish = finishOf(reasonIn(reason) ?? "", false);
    if (finish !== undefined) return finish;
  }
  return undefined;
}

/** True if the reason means that the model made a call that can't be read. */
export const isMalformedCall = (reason: unknown): reason is string =>
  typeof reason === "string" && malformedCalls.has(wordOf(reason));

/** True if the reason means that the answer failed; false for unknown reasons. */
export const isFailure = (reason: unknown): reason is string =>
  typeof reason === "string" && failures.has(wordOf(reason));

/**
 * How an answer ends with this reason, or the error that it fails with. A reason that says nothing
 * of the content, such as Google's `OTHER` and `NO_IMAGE` or one that is unknown, ends an answer
 * with content; without content it is no success. `explanation` is the upstream's own sentence.
 */
export function endingFor(
  reason: string,
  { called, hasContent }: { called: boolean; hasContent: boolean },
  explanation?: unknown,
): Finish | UpstreamError {
  const finish = finishOf(reason, called);
  if (finish !== undefined) return finish;
  const isBroken = isFailure(reason) || isMalformedCall(reason);
  if (isBroken || !hasContent) return stoppedBy(reason, explanation);
  return called ? "calls" : "stop";
}

/**
 * How an answer ends as its calls tell. One whose arguments are incomplete was cut off, although
 * routers say that it is a call (https://github.com/NousResearch/hermes-agent/pull/7693), and a
 * caller that is told of a call waits for none
 * (https://github.com/jasonxu114514/opencode2api/pull/27).
 */
export function endingWithCalls(finish: Finish, { called, isCut }: { called: boolean; isCut: boolean }): Finish {
  if (isCut && (finish === "calls" || finish === "stop")) return "length";
  return finish === "calls" && !called ? "stop" : finish;
}

/** The error of an answer that ended with an unsuccessful reason. */
export const stoppedBy = (reason: string, explanation?: unknown): UpstreamError => ({
  message: [
    `The upstream of this model stopped its answer: ${scrubbed(reason.slice(0, 100))}.`,
    ...(textOf(explanation) === undefined ? [] : [scrubbed((explanation as string).slice(0, explanationLengthMax))]),
  ].join(" "),
  status: 502,
  // An unknown reason may be about the request, so it does not count as a failure of the target.
  ...(!isFailure(reason) && { means: "unclear" as const }),
});

export const unreadableEvent: UpstreamError = {
  message: "The upstream of this model sent an event that is not in its format, so its answer may be incomplete.",
  status: 502,
};

export const emptyAnswer: UpstreamError = {
  message: "The upstream of this model sent an answer without content and without a reason.",
  status: 502,
};
