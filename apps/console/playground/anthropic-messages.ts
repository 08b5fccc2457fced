/** https://platform.claude.com/docs/en/api/messages */
import {
  type DialectModule,
  dataUrlParts,
  type Effort,
  inputOf,
  nativeOf,
  type Settings,
  type Turn,
} from "./conversation.ts";

interface Block {
  type: string;
  text?: string;
  thinking?: string;
  signature?: string;
  id?: string;
  name?: string;
  input?: unknown;
}

interface Counts {
  input_tokens?: number;
  output_tokens?: number;
  cache_read_input_tokens?: number | null;
  cache_creation_input_tokens?: number | null;
  output_tokens_details?: { thinking_tokens?: number } | null;
}

interface Event {
  type?: string;
  index?: number;
  message?: { usage?: Counts };
  content_block?: Block;
  delta?: {
    type?: string;
    text?: string;
    thinking?: string;
    signature?: string;
    partial_json?: string;
    stop_reason?: string | null;
  };
  usage?: Counts;
  error?: { message?: string };
}

/** The dialect requires a limit. */
const maxTokensFilled = 4_096;
const budgets = { minimal: 1_024, low: 1_024, medium: 4_096, high: 16_384 } as const;
/** Models whose thinking has a budget of tokens; later ones take an effort. */
const hasBudget = /claude-(?:3|(?:opus|sonnet|haiku)-4(?:-[0-5])?(?:-\d{8})?$)/;

function messageOf(turn: Turn): unknown {
  switch (turn.role) {
    case "user":
      if (turn.images.length === 0) return { role: "user", content: turn.text };
      return {
        role: "user",
        content: [
          ...turn.images.map((url) => {
            const { type, data } = dataUrlParts(url);
            return { type: "image", source: { type: "base64", media_type: type, data } };
          }),
          ...(turn.text === "" ? [] : [{ type: "text", text: turn.text }]),
        ],
      };
    case "assistant":
      return {
        role: "assistant",
        content: nativeOf(turn, "anthropic-messages") ?? [
          ...(turn.text === "" ? [] : [{ type: "text", text: turn.text }]),
          ...turn.calls.map((call) => ({ type: "tool_use", id: call.id, name: call.name, input: inputOf(call) })),
        ],
      };
    case "tool":
      return {
        role: "user",
        content: turn.results.map(({ call, text }) => ({ type: "tool_result", tool_use_id: call.id, content: text })),
      };
  }
}

function thinkingOf(model: string, effort: Effort | undefined, maxTokens: number) {
  if (effort === undefined) return { max_tokens: maxTokens };
  if (effort === "none") return { max_tokens: maxTokens, thinking: { type: "disabled" } };
  if (!hasBudget.test(model)) return { max_tokens: maxTokens, thinking: { type: "adaptive", display: "summarized" } };
  // The limit includes the thinking.
  const budget = budgets[effort];
  return { max_tokens: maxTokens + budget, thinking: { type: "enabled", budget_tokens: budget } };
}

const choiceOf = (choice: Settings["toolChoice"]) => {
  if (typeof choice === "object") return { type: "tool", name: choice.tool };
  return choice && { type: choice === "required" ? "any" : choice };
};

function bodyOf(turns: readonly Turn[], settings: Settings) {
  const { model, effort } = settings;
  const output = {
    ...(effort !== undefined &&
      effort !== "none" &&
      !hasBudget.test(model) && { effort: effort === "minimal" ? "low" : effort }),
    ...(settings.schema !== undefined && { format: { type: "json_schema", schema: settings.schema } }),
  };
  return {
    model,
    ...thinkingOf(model, effort, settings.maxTokens ?? maxTokensFilled),
    system: settings.system || undefined,
    messages: turns.map((turn) => messageOf(turn)),
    ...(settings.tools?.length && {
      tools: settings.tools.map(({ name, description, parameters }) => ({
        name,
        description,
        input_schema: parameters,
      })),
      tool_choice: choiceOf(settings.toolChoice),
    }),
    ...(Object.keys(output).length > 0 && { output_config: output }),
    temperature: settings.temperature,
    stream: true,
  };
}

export const anthropicMessages: DialectModule = {
  requestOf: (turns, settings) => ({ path: "/v1/messages", body: bodyOf(turns, settings), model: settings.model }),
  reader: (answer) => {
    const { turn } = answer;
    const blocks: Block[] = [];
    const calls = new Map<number, (typeof turn.calls)[number]>();
    let counts: Counts = {};
    const count = (more: Counts = {}) => {
      counts = { ...counts, ...more };
      const cached = counts.cache_read_input_tokens ?? 0;
      answer.usage = {
        input: (counts.input_tokens ?? 0) + cached + (counts.cache_creation_input_tokens ?? 0),
        cached,
        output: counts.output_tokens ?? 0,
        reasoning: counts.output_tokens_details?.thinking_tokens ?? 0,
      };
    };
    return (value) => {
      const { type, index = 0, message, content_block: block, delta, usage, error } = value as Event;
      const at = blocks[index];
      switch (type) {
        case "message_start":
          count(message?.usage);
          break;
        case "content_block_start":
          if (!block) break;
          blocks[index] = { ...block };
          turn.native = { dialect: "anthropic-messages", content: blocks };
          turn.text += block.text ?? "";
          turn.reasoning += block.thinking ?? "";
          if (block.type !== "tool_use") break;
          turn.calls.push({ id: block.id ?? "", name: block.name ?? "", input: "" });
          calls.set(index, turn.calls.at(-1)!);
          break;
        case "content_block_delta": {
          const { text = "", thinking = "", signature = "", partial_json: json = "" } = delta ?? {};
          turn.text += text;
          turn.reasoning += thinking;
          if (at && text) at.text = (at.text ?? "") + text;
          if (at && thinking) at.thinking = (at.thinking ?? "") + thinking;
          if (at && signature) at.signature = (at.signature ?? "") + signature;
          const call = calls.get(index);
          if (call) call.input += json;
          break;
        }
        case "content_block_stop": {
          const call = calls.get(index);
          if (!at || !call) break;
          call.input ||= "{}";
          at.input = inputOf(call);
          break;
        }
        case "message_delta":
          answer.finish = delta?.stop_reason ?? answer.finish;
          count(usage);
          break;
        default:
          if (error) answer.error = error.message ?? "error";
      }
    };
  },
};
