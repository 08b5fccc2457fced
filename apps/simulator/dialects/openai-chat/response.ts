/** A whole chat completion, and the parts shared with the stream. */
import { joined } from "../../answer/chunks.ts";
import { type Choice, tokensOf, type Usage } from "../../answer/compose.ts";
import type { Settings } from "../../settings.ts";
import { signatureOf } from "../anthropic-messages/signature.ts";
import { type Whole, wholeOf } from "../dialect.ts";
import { callSignature } from "./rules.ts";

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
  form: Settings["reasoningForm"],
): Whole {
  const body = {
    id,
    object: "chat.completion",
    created,
    model,
    choices: choices.map((choice, index) => choiceOf(choice, index, form)),
    usage: withUsage ? chatUsageOf(usage) : undefined,
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

/** The reasoning of a message; `said` is the text beside it. */
function reasoningOf(text: string, form: Settings["reasoningForm"], shownText: string | undefined): object {
  switch (form) {
    case "content":
    case "call":
      return { reasoning_content: text };
    case "field":
      return { reasoning: text };
    case "details":
      return { reasoning: text, reasoning_details: [detailOf(text, signatureOf(text))] };
    case "parts":
      return {
        content: [
          { type: "thinking", thinking: [{ type: "text", text }] },
          ...(shownText === undefined ? [] : [{ type: "text", text: shownText }]),
        ],
      };
    default:
      return form satisfies never;
  }
}

export const detailOf = (text: string, signature?: string) => ({
  type: "reasoning.text",
  text,
  signature,
  format: "simulated-v1",
  index: 0,
});

function choiceOf(choice: Choice, index: number, form: Settings["reasoningForm"]) {
  const calls = choice.calls.map(({ id, tool, input }, place) =>
    tool.takes === "json"
      ? {
          id,
          type: "function",
          function: { name: tool.name, arguments: joined(input) },
          ...(form === "call" && place === 0 && { extra_content: { google: { thought_signature: callSignature } } }),
        }
      : { id, type: "custom", custom: { name: tool.name, input: joined(input) } },
  );
  return {
    index,
    message: {
      role: "assistant",
      content: choice.text === undefined ? null : joined(choice.text),
      ...(choice.reasoning.length > 0 &&
        reasoningOf(joined(choice.reasoning), form, choice.text && joined(choice.text))),
      refusal: null,
      annotations: [],
      ...(calls.length > 0 && { tool_calls: calls }),
    },
    logprobs: null,
    finish_reason: chatFinishOf(choice),
  };
}
