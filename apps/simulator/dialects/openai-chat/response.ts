/** A whole chat completion, and the parts shared with the stream. */
import { joined } from "../../answer/chunks.ts";
import { type Choice, tokensOf, type Usage } from "../../answer/compose.ts";
import { type Whole, wholeOf } from "../dialect.ts";

export interface ChatEnvelope {
  id: string;
  created: number;
  model: string;
}

export interface ChatAnswer {
  choices: Choice[];
  usage: Usage;
}

export function chatWholeOf(
  { id, created, model }: ChatEnvelope,
  { choices, usage }: ChatAnswer,
  withUsage: boolean,
): Whole {
  const body = {
    id,
    object: "chat.completion",
    created,
    model,
    choices: choices.map(choiceOf),
    ...(withUsage && { usage: chatUsageOf(usage) }),
    service_tier: "default",
    system_fingerprint: null,
  };
  return wholeOf(
    body,
    choices.reduce((sum, choice) => sum + tokensOf(choice), 0),
  );
}

const finishReasons = { stop: "stop", length: "length", calls: "tool_calls", filtered: "content_filter" } as const;

export const chatFinishOf = ({ finish }: Choice) => finishReasons[finish];

export const chatUsageOf = ({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage) => ({
  prompt_tokens: promptTokens,
  completion_tokens: completionTokens,
  total_tokens: promptTokens + completionTokens,
  prompt_tokens_details: { cached_tokens: cachedTokens, audio_tokens: 0 },
  completion_tokens_details: {
    reasoning_tokens: reasoningTokens,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  },
});

function choiceOf(choice: Choice, index: number) {
  const calls = choice.calls.map(({ id, tool, input }) =>
    tool.takes === "json"
      ? { id, type: "function", function: { name: tool.name, arguments: joined(input) } }
      : { id, type: "custom", custom: { name: tool.name, input: joined(input) } },
  );
  return {
    index,
    message: {
      role: "assistant",
      content: choice.text === undefined ? null : joined(choice.text),
      ...(choice.reasoning.length > 0 && { reasoning_content: joined(choice.reasoning) }),
      refusal: null,
      annotations: [],
      ...(calls.length > 0 && { tool_calls: calls }),
    },
    logprobs: null,
    finish_reason: chatFinishOf(choice),
  };
}
