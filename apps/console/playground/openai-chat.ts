/** https://platform.openai.com/docs/api-reference/chat */
import type { DialectModule, Settings, ToolCall, Turn } from "./conversation.ts";

interface Chunk {
  choices?: {
    delta?: {
      content?: string | null;
      refusal?: string | null;
      reasoning_content?: string | null;
      tool_calls?: { index: number; id?: string; function?: { name?: string; arguments?: string } }[];
    };
    finish_reason?: string | null;
  }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens?: number } | null;
    completion_tokens_details?: { reasoning_tokens?: number } | null;
  } | null;
  error?: { message?: string };
}

function messagesOf(turn: Turn): unknown[] {
  switch (turn.role) {
    case "user":
      if (turn.images.length === 0) return [{ role: "user", content: turn.text }];
      return [
        {
          role: "user",
          content: [
            ...(turn.text === "" ? [] : [{ type: "text", text: turn.text }]),
            ...turn.images.map((url) => ({ type: "image_url", image_url: { url } })),
          ],
        },
      ];
    case "assistant":
      return [
        {
          role: "assistant",
          content: turn.text === "" && turn.calls.length > 0 ? null : turn.text,
          ...(turn.calls.length > 0 && {
            tool_calls: turn.calls.map(({ id, name, input }) => ({
              id,
              type: "function",
              function: { name, arguments: input },
            })),
          }),
        },
      ];
    case "tool":
      return turn.results.map(({ call, text }) => ({ role: "tool", tool_call_id: call.id, content: text }));
  }
}

const bodyOf = (turns: readonly Turn[], settings: Settings) => ({
  model: settings.model,
  messages: [
    ...(settings.system ? [{ role: "system", content: settings.system }] : []),
    ...turns.flatMap((turn) => messagesOf(turn)),
  ],
  ...(settings.tools?.length && {
    tools: settings.tools.map((tool) => ({ type: "function", function: tool })),
    tool_choice:
      typeof settings.toolChoice === "object"
        ? { type: "function", function: { name: settings.toolChoice.tool } }
        : settings.toolChoice,
  }),
  ...(settings.schema !== undefined && {
    response_format: { type: "json_schema", json_schema: { name: "answer", schema: settings.schema, strict: true } },
  }),
  reasoning_effort: settings.effort,
  temperature: settings.temperature,
  max_completion_tokens: settings.maxTokens,
  stream: true,
  stream_options: { include_usage: true },
});

export const openaiChat: DialectModule = {
  requestOf: (turns, settings) => ({
    path: "/v1/chat/completions",
    body: bodyOf(turns, settings),
    model: settings.model,
  }),
  reader: (answer) => {
    const { turn } = answer;
    const calls = new Map<number, ToolCall>();
    return (event) => {
      const { choices, usage, error } = event as Chunk;
      if (error) answer.error = error.message ?? "error";
      const [choice] = choices ?? [];
      turn.text += choice?.delta?.content ?? "";
      turn.text += choice?.delta?.refusal ?? "";
      turn.reasoning += choice?.delta?.reasoning_content ?? "";
      for (const { index, id, function: called } of choice?.delta?.tool_calls ?? []) {
        const startedCall = calls.get(index);
        const call = startedCall ?? { id: id ?? "", name: "", input: "" };
        call.name += called?.name ?? "";
        call.input += called?.arguments ?? "";
        if (startedCall) continue;
        calls.set(index, call);
        turn.calls.push(call);
      }
      answer.finish = choice?.finish_reason ?? answer.finish;
      if (usage)
        answer.usage = {
          input: usage.prompt_tokens,
          cached: usage.prompt_tokens_details?.cached_tokens ?? 0,
          output: usage.completion_tokens,
          reasoning: usage.completion_tokens_details?.reasoning_tokens ?? 0,
        };
    };
  },
};
