/** A whole message, and the parts shared with the stream. */
import { joined } from "../../answer/chunks.ts";
import { type Choice, tokensOf, type Usage } from "../../answer/compose.ts";
import { type Whole, wholeOf } from "../dialect.ts";
import { redactedOf, signatureOf } from "./signature.ts";

export interface MessageAnswer {
  id: string;
  model: string;
  choice: Choice;
  usage: Usage;
  /** Prompt tokens written to the cache; part of those not read from it. */
  cacheWriteTokens: number;
  /** Part of those written: for one hour. */
  hourCacheWriteTokens: number;
  thinkingAs: "summarized" | "omitted" | "redacted";
  withUsage: boolean;
}

export function messageWholeOf(answer: MessageAnswer): Whole {
  const { choice } = answer;
  const body = {
    ...messageOf(answer),
    content: contentOf(answer),
    ...endOf(choice),
    usage: answer.withUsage ? usageOf(answer) : undefined,
  };
  return wholeOf(body, tokensOf(choice));
}

/** A message without content. */
export const messageOf = ({ id, model }: MessageAnswer) => ({
  id,
  type: "message",
  role: "assistant",
  model,
  content: [],
  container: null,
  stop_reason: null,
  stop_sequence: null,
  stop_details: null,
});

const stopReasons = { stop: "end_turn", length: "max_tokens", calls: "tool_use", filtered: "refusal" } as const;
const refusal = { type: "refusal", category: "general_harms", explanation: "The simulator was told to refuse." };

export const endOf = ({ finish, stopped }: Choice) => ({
  stop_reason: stopped === undefined ? stopReasons[finish] : "stop_sequence",
  stop_sequence: stopped ?? null,
  stop_details: finish === "filtered" ? refusal : null,
});

const inputUsageOf = ({ usage: { promptTokens, cachedTokens }, cacheWriteTokens }: MessageAnswer) => ({
  input_tokens: promptTokens - cachedTokens - cacheWriteTokens,
  cache_creation_input_tokens: cacheWriteTokens,
  cache_read_input_tokens: cachedTokens,
});

/** The usage so far: all tokens, unless given. */
export const usageOf = (
  answer: MessageAnswer,
  { completionTokens, reasoningTokens }: Pick<Usage, "completionTokens" | "reasoningTokens"> = answer.usage,
) => ({
  ...inputUsageOf(answer),
  cache_creation: {
    ephemeral_5m_input_tokens: answer.cacheWriteTokens - answer.hourCacheWriteTokens,
    ephemeral_1h_input_tokens: answer.hourCacheWriteTokens,
  },
  output_tokens: completionTokens,
  output_tokens_details: { thinking_tokens: reasoningTokens },
  server_tool_use: null,
  service_tier: "standard",
  inference_geo: "not_available",
  speed: "standard",
});

export const finalUsageOf = (answer: MessageAnswer) => ({
  ...inputUsageOf(answer),
  output_tokens: answer.usage.completionTokens,
  output_tokens_details: { thinking_tokens: answer.usage.reasoningTokens },
  server_tool_use: null,
});

export const toolUseIdOf = (callId: string) => callId.replace("call_", "toolu_");

function contentOf({ choice: { reasoning, text, calls }, thinkingAs }: MessageAnswer): object[] {
  const content: object[] = [];
  if (reasoning.length > 0) {
    const thinking = thinkingAs === "summarized" ? joined(reasoning) : "";
    content.push(
      thinkingAs === "redacted"
        ? redactedBlockOf(joined(reasoning))
        : { type: "thinking", thinking, signature: signatureOf(thinking) },
    );
  }
  if (text !== undefined && text.length > 0) content.push({ type: "text", text: joined(text) });
  for (const { id, tool, input } of calls)
    content.push({ type: "tool_use", id: toolUseIdOf(id), name: tool.name, input: inputOf(joined(input)) });
  return content;
}

export const redactedBlockOf = (thinking: string) => ({ type: "redacted_thinking", data: redactedOf(thinking) });

/** A truncated input is lost completely. */
function inputOf(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return {};
  }
}
