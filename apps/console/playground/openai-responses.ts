/** https://platform.openai.com/docs/api-reference/responses */
import { type DialectModule, nativeOf, type Settings, type Turn } from "./conversation.ts";

interface Item {
  id?: string;
  type: string;
  call_id?: string;
  name?: string;
  arguments?: string;
}

interface Event {
  type?: string;
  delta?: string;
  item_id?: string;
  item?: Item;
  message?: string;
  response?: {
    status?: string;
    output?: Item[];
    error?: { message?: string } | null;
    incomplete_details?: { reason?: string } | null;
    usage?: {
      input_tokens: number;
      output_tokens: number;
      input_tokens_details?: { cached_tokens?: number } | null;
      output_tokens_details?: { reasoning_tokens?: number } | null;
    } | null;
  };
  error?: { message?: string };
}

function itemsOf(turn: Turn): unknown[] {
  switch (turn.role) {
    case "user":
      if (turn.images.length === 0) return [{ role: "user", content: turn.text }];
      return [
        {
          role: "user",
          content: [
            ...(turn.text === "" ? [] : [{ type: "input_text", text: turn.text }]),
            ...turn.images.map((url) => ({ type: "input_image", image_url: url, detail: "auto" })),
          ],
        },
      ];
    case "assistant":
      return (
        nativeOf(turn, "openai-responses") ?? [
          ...(turn.text === "" ? [] : [{ role: "assistant", content: turn.text }]),
          ...turn.calls.map(({ id, name, input }) => ({ type: "function_call", call_id: id, name, arguments: input })),
        ]
      );
    case "tool":
      return turn.results.map(({ call, text }) => ({ type: "function_call_output", call_id: call.id, output: text }));
  }
}

const bodyOf = (turns: readonly Turn[], settings: Settings) => ({
  model: settings.model,
  instructions: settings.system || undefined,
  input: turns.flatMap((turn) => itemsOf(turn)),
  ...(settings.tools?.length && {
    tools: settings.tools.map((tool) => ({ type: "function", ...tool, strict: false })),
    tool_choice:
      typeof settings.toolChoice === "object"
        ? { type: "function", name: settings.toolChoice.tool }
        : settings.toolChoice,
  }),
  ...(settings.schema !== undefined && {
    text: { format: { type: "json_schema", name: "answer", schema: settings.schema, strict: true } },
  }),
  ...(settings.effort !== undefined && {
    reasoning: { effort: settings.effort, ...(settings.effort !== "none" && { summary: "auto" }) },
    // Nothing is stored, so the next request brings the reasoning along.
    ...(settings.effort !== "none" && { include: ["reasoning.encrypted_content"] }),
  }),
  temperature: settings.temperature,
  max_output_tokens: settings.maxTokens,
  store: false,
  stream: true,
});

export const openaiResponses: DialectModule = {
  requestOf: (turns, settings) => ({ path: "/v1/responses", body: bodyOf(turns, settings), model: settings.model }),
  reader: (answer) => {
    const { turn } = answer;
    const callOf = (itemId: string | undefined) => calls.get(itemId ?? "");
    const calls = new Map<string, (typeof turn.calls)[number]>();
    const content: unknown[] = [];
    let summaries = 0;
    return (value) => {
      const event = value as Event;
      const { type, item, delta = "", response } = event;
      switch (type) {
        case "response.output_text.delta":
        case "response.refusal.delta":
          turn.text += delta;
          break;
        case "response.reasoning_summary_part.added":
          if (summaries++ > 0) turn.reasoning += "\n\n";
          break;
        case "response.reasoning_summary_text.delta":
        case "response.reasoning_text.delta":
          turn.reasoning += delta;
          break;
        case "response.output_item.added":
          if (item?.type !== "function_call") break;
          turn.calls.push({ id: item.call_id ?? "", name: item.name ?? "", input: item.arguments ?? "" });
          calls.set(item.id ?? "", turn.calls.at(-1)!);
          break;
        case "response.function_call_arguments.delta": {
          const call = callOf(event.item_id);
          if (call) call.input += delta;
          break;
        }
        case "response.output_item.done": {
          if (item) content.push(item);
          turn.native = { dialect: "openai-responses", content };
          const call = callOf(item?.id);
          if (call && item?.arguments !== undefined) call.input = item.arguments;
          break;
        }
        case "response.completed":
        case "response.incomplete":
        case "response.failed":
          answer.finish = response?.incomplete_details?.reason ?? response?.status;
          if (response?.error) answer.error = response.error.message ?? "error";
          if (response?.usage)
            answer.usage = {
              input: response.usage.input_tokens,
              cached: response.usage.input_tokens_details?.cached_tokens ?? 0,
              output: response.usage.output_tokens,
              reasoning: response.usage.output_tokens_details?.reasoning_tokens ?? 0,
            };
          break;
        case "error":
          answer.error = event.message ?? event.error?.message ?? "error";
          break;
        default:
          if (event.error) answer.error = event.error.message ?? "error";
      }
    };
  },
};
