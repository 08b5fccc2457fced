/** The stream of a chat completion: an event for each token, made from prepared text. */

import { joined } from "../../answer/chunks.ts";
import { type Choice, tokensOf } from "../../answer/compose.ts";
import { turnsOf } from "../../answer/turns.ts";
import type { Settings } from "../../settings.ts";
import { signatureOf } from "../anthropic-messages/signature.ts";
import type { Script } from "../dialect.ts";
import { openaiScript } from "../openai.ts";
import { type ChatAnswer, type ChatEnvelope, chatFinishOf, chatUsageOf, detailOf } from "./response.ts";
import { callSignature } from "./rules.ts";

/** The choices take turns, token by token. */
export function chatScriptOf(
  { id, created, model }: ChatEnvelope,
  { choices, usage }: ChatAnswer,
  usageMode: "always" | "never" | "every",
  form: Settings["reasoningForm"],
): Script {
  const envelope = JSON.stringify({
    id,
    object: "chat.completion.chunk",
    created,
    model,
    service_tier: "default",
    system_fingerprint: null,
  }).slice(0, -1);
  const noUsage = usageMode === "never" ? "" : `,"usage":null`;
  const usageAfter = (tokens: number) =>
    `,"usage":${JSON.stringify(chatUsageOf({ ...usage, completionTokens: tokens, reasoningTokens: Math.min(tokens, usage.reasoningTokens) }))}`;
  const starts = choices.map((_, index) => `data: ${envelope},"choices":[{"index":${index},"delta":{`);
  const end = `},"logprobs":null,"finish_reason":null}]${noUsage}}\n\n`;
  const endAfter = (tokens: number) =>
    usageMode === "every" ? `},"logprobs":null,"finish_reason":null}]${usageAfter(tokens)}}\n\n` : end;
  const turns = turnsOf(choices.map(tokensOf));
  return openaiScript({
    opening: starts.map((start) => `${start}"role":"assistant","content":"","refusal":null${end}`).join(""),
    length: turns.length,
    eventAt(index) {
      const choice = turns.choiceAt(index);
      return `${starts[choice]}${deltaAt(choices[choice] as Choice, turns.tokenAt(index), form)}${endAfter(index + 1)}`;
    },
    closing:
      choices
        .map(
          (choice, index) =>
            `${starts[index]}},"logprobs":null,"finish_reason":"${chatFinishOf(choice)}"}]${noUsage}}\n\n`,
        )
        .join("") +
      (usageMode === "never" ? "" : `data: ${envelope},"choices":[]${usageAfter(usage.completionTokens)}}\n\n`),
    terminator: "data: [DONE]\n\n",
  });
}

/** The delta of a token: first the reasoning, then the text, then the calls in order. */
function deltaAt({ reasoning, text, calls }: Choice, token: number, form: Settings["reasoningForm"]): string {
  if (token < reasoning.length) {
    const isLast = token === reasoning.length - 1;
    const signed = form === "details" || form === "parts" ? signatureOf(joined(reasoning)) : undefined;
    return reasoningDeltaOf(reasoning.at(token), form, isLast ? signed : undefined);
  }
  let left = token - reasoning.length;
  if (text !== undefined && left < text.length) return `"content":${JSON.stringify(text.at(left))}`;
  left -= text?.length ?? 0;
  for (const [index, { id, tool, input }] of calls.entries()) {
    const [kind, field] = tool.takes === "json" ? ["function", "arguments"] : ["custom", "input"];
    if (left === 0)
      return `"tool_calls":[{"index":${index},"id":"${id}","type":"${kind}","${kind}":{"name":${JSON.stringify(tool.name)},"${field}":""}${form === "call" && index === 0 ? signedCall : ""}}]`;
    if (left <= input.length)
      return `"tool_calls":[{"index":${index},"${kind}":{"${field}":${JSON.stringify(input.at(left - 1))}}}]`;
    left -= 1 + input.length;
  }
  throw new RangeError(`there is no token ${token}`);
}

const signedCall = `,"extra_content":${JSON.stringify({ google: { thought_signature: callSignature } })}`;

function reasoningDeltaOf(text: string, form: Settings["reasoningForm"], signature: string | undefined): string {
  switch (form) {
    case "content":
    case "call":
      return `"reasoning_content":${JSON.stringify(text)}`;
    case "field":
      return `"reasoning":${JSON.stringify(text)}`;
    case "details":
      return `"reasoning":${JSON.stringify(text)},"reasoning_details":[${JSON.stringify(detailOf(text, signature))}]`;
    case "parts":
      return `"content":${JSON.stringify([{ type: "thinking", thinking: [{ type: "text", text }], signature }])}`;
    default:
      return form satisfies never;
  }
}
