/** The response object: the request's settings, the outcome and the usage. */
import type { Usage } from "../../answer/compose.ts";
import type { ResponsesRequest } from "./request.ts";

/** The end of a response that did not fail. */
export interface Outcome {
  status: "completed" | "incomplete";
  /** Why it is incomplete. */
  reason: "max_output_tokens" | "content_filter" | undefined;
  usage: Usage | undefined;
}

type State =
  | { status: "in_progress" }
  | (Outcome & { output: object[] })
  | { status: "failed"; error: { code: string; message: string } };

export interface Envelope {
  id: string;
  /** Seconds since 1970. */
  created: number;
  request: ResponsesRequest;
}

export function responseOf({ id, created, request }: Envelope, state: State): object {
  const isOver = state.status === "completed" || state.status === "incomplete";
  return {
    id,
    object: "response",
    created_at: created,
    status: state.status,
    background: false,
    completed_at: state.status === "completed" ? created + 1 : null,
    error: state.status === "failed" ? state.error : null,
    incomplete_details: state.status === "incomplete" ? { reason: state.reason } : null,
    instructions: request.instructions ?? null,
    max_output_tokens: request.max_output_tokens ?? null,
    max_tool_calls: request.max_tool_calls ?? null,
    model: request.model,
    output: isOver ? state.output : [],
    parallel_tool_calls: request.parallel_tool_calls ?? true,
    previous_response_id: null,
    prompt_cache_key: request.prompt_cache_key ?? null,
    reasoning: { effort: request.reasoning?.effort ?? null, summary: request.reasoning?.summary ?? null },
    safety_identifier: request.safety_identifier ?? null,
    service_tier: "default",
    store: request.store ?? true,
    temperature: request.temperature ?? 1,
    text: { format: request.text?.format ?? { type: "text" }, verbosity: request.text?.verbosity ?? "medium" },
    tool_choice: request.tool_choice ?? "auto",
    tools: request.tools ?? [],
    top_logprobs: request.top_logprobs ?? 0,
    top_p: request.top_p ?? 1,
    truncation: request.truncation ?? "disabled",
    usage: isOver && state.usage ? usageOf(state.usage) : null,
    user: request.user ?? null,
    metadata: request.metadata ?? {},
    access_programs: null,
  };
}

/** The user's messages, and the item that replaces the whole conversation. */
export function compactedOf({ id, created, request: { input } }: Envelope, item: object, usage: Usage): object {
  const items =
    typeof input === "string"
      ? [{ role: "user", content: input }]
      : ((input ?? []) as { role?: unknown; content?: unknown }[]);
  const users = items.filter(({ role }) => role === "user");
  const messages = users.map(({ content }, place) => ({
    id: `msg_${id.slice("resp_".length, -4)}${place.toString(16).padStart(4, "0")}`,
    type: "message",
    role: "user",
    status: "completed",
    content: typeof content === "string" ? [{ type: "input_text", text: content }] : content,
  }));
  return { id, object: "response.compaction", created_at: created, output: [...messages, item], usage: usageOf(usage) };
}

export const failureOf = (message: string) => ({ code: "server_error", message });

const usageOf = ({ promptTokens, cachedTokens, completionTokens, reasoningTokens }: Usage) => ({
  input_tokens: promptTokens,
  input_tokens_details: { cached_tokens: cachedTokens, cache_write_tokens: 0 },
  output_tokens: completionTokens,
  output_tokens_details: { reasoning_tokens: reasoningTokens },
  total_tokens: promptTokens + completionTokens,
});
