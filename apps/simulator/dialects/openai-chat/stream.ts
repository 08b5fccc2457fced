/** The stream of a chat completion: an event for each token, made from prepared text. */

import { eachOf, joined, noChunks } from "../../answer/chunks.ts";
import { type Choice, tokensOf } from "../../answer/compose.ts";
import { inTurns } from "../../answer/turns.ts";
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
  function* events(): Generator<string, string> {
    let tokens = 0;
    for (const { choice, token } of inTurns(choices.map((each) => deltasOf(each, form))))
      yield `${starts[choice]}${token}${endAfter(++tokens)}`;
    const ends = choices.map(
      (choice, index) => `${starts[index]}},"logprobs":null,"finish_reason":"${chatFinishOf(choice)}"}]${noUsage}}\n\n`,
    );
    return (
      ends.join("") +
      (usageMode === "never" ? "" : `data: ${envelope},"choices":[]${usageAfter(usage.completionTokens)}}\n\n`)
    );
  }
  return openaiScript({
    opening: starts.map((start) => `${start}"role":"assistant","content":"","refusal":null${end}`).join(""),
    length: choices.reduce((sum, choice) => sum + tokensOf(choice), 0),
    events: events(),
    terminator: "data: [DONE]\n\n",
  });
}

/** The deltas of the tokens: first the reasoning, then the text, then the calls in order. */
function* deltasOf({ reasoning, text = noChunks, calls }: Choice, form: Settings["reasoningForm"]): Generator<string> {
  const signature = form === "details" ? signatureOf(joined(reasoning)) : undefined;
  let left = reasoning.length;
  for (const thought of eachOf(reasoning)) yield reasoningDeltaOf(thought, form, --left === 0 ? signature : undefined);
  for (const part of eachOf(text)) yield `"content":${JSON.stringify(part)}`;
  for (const [index, { id, tool, input }] of calls.entries()) {
    const [kind, field] = tool.takes === "json" ? ["function", "arguments"] : ["custom", "input"];
    yield `"tool_calls":[{"index":${index},"id":"${id}","type":"${kind}","${kind}":{"name":${JSON.stringify(tool.name)},"${field}":""}${form === "call" && index === 0 ? signedCall : ""}}]`;
    for (const part of eachOf(input))
      yield `"tool_calls":[{"index":${index},"${kind}":{"${field}":${JSON.stringify(part)}}}]`;
  }
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
      return `"content":${JSON.stringify([{ type: "thinking", thinking: [{ type: "text", text }] }])}`;
    default:
      return form satisfies never;
  }
}
