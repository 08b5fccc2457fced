/**
 * The thinking settings of requests to Anthropic's models:
 * https://platform.claude.com/docs/en/build-with-claude/thinking
 */
import type { Target } from "../codec.ts";
import { versionOf } from "../neutral/model-traits.ts";
import type { Effort, Settings } from "../neutral/neutral.ts";
import { effortAmong, requestedEffortOf, thinkingTokensOf } from "../neutral/reasoning.ts";

/**
 * The output token limit if neither the caller nor the catalogue sets one, and what is left for the
 * answer beside a thinking budget.
 */
export const outputTokensFilled = 4_096;
/**
 * The same limit of Claude from version 4 on, all of which can write so much:
 * https://platform.claude.com/docs/en/about-claude/models/overview
 */
const claudeOutputTokensFilled = 32_000;
const filledFor = (model: string) =>
  /claude/.test(model) && versionOf(model) >= 400 ? claudeOutputTokensFilled : outputTokensFilled;

export interface Thinking {
  maxTokens: number;
  thinking?: Record<string, unknown>;
  effort?: string;
  /** Thinking is on, so the model accepts no sampling fields and no forced tool call. */
  isOn: boolean;
}

interface Circumstances {
  target: Target;
  /** The request forces a tool call. */
  forced: boolean;
  /** The open assistant turn began without thinking, or its thinking was lost. */
  begunWithout: boolean;
}

/**
 * Thinking is left out where the model would reject it: with a forced call, in a turn that began
 * without thinking, and if the answer is shorter than the smallest budget. The amount of thinking
 * is only a preference of the caller; forced calls and length limits are requirements.
 */
export function thinkingOf(settings: Settings, { target, forced, begunWithout }: Circumstances): Thinking {
  const { traits, outputTokensMax: limit } = target;
  const { thinkingTokensMin: least, thinkingTokensMax: most } = traits;
  const requestedTokens = settings.outputTokensMax?.value;
  const maxTokens = Math.min(
    requestedTokens ?? limit ?? filledFor(target.model.toLowerCase()),
    limit ?? Number.MAX_SAFE_INTEGER,
  );
  const effort = requestedEffortOf(settings);
  const shown = settings.thinkingShown?.value;
  const display = shown === undefined ? {} : { display: shown ? "summarized" : "omitted" };
  const off = { maxTokens, isOn: false };
  switch (traits.thinking) {
    case "none":
      return off;
    case "budget": {
      if (effort === undefined || effort === "none" || forced || begunWithout) return off;
      const wanted = Math.min(Math.max(least, budgetOf(settings, effort, maxTokens)), most);
      const roomy =
        requestedTokens === undefined
          ? Math.min(Math.max(maxTokens, wanted + outputTokensFilled), limit ?? Number.MAX_SAFE_INTEGER)
          : maxTokens;
      const budget = Math.min(wanted, roomy - 1);
      if (budget < least) return off;
      return { maxTokens: roomy, thinking: { type: "enabled", budget_tokens: budget, ...display }, isOn: true };
    }
    case "effort":
      if (effort === "none")
        return traits.thinksAlways
          ? { maxTokens, effort: "low", isOn: true }
          : { ...off, thinking: { type: "disabled" } };
      if (forced && !traits.thinksAlways)
        return traits.thinksByDefault || effort !== undefined ? { ...off, thinking: { type: "disabled" } } : off;
      if (effort === undefined && shown !== true) return { maxTokens, isOn: traits.thinksByDefault };
      return {
        maxTokens,
        thinking: { type: "adaptive", ...display },
        ...(effort !== undefined && { effort: effortAmong(effort, traits.efforts.filter(isAnthropic)) }),
        isOn: true,
      };
    default:
      return traits.thinking satisfies never;
  }
}

const budgetOf = ({ effort: word, thinkingTokensMax }: Settings, effort: Effort, maxTokens: number) =>
  word === undefined && thinkingTokensMax !== undefined ? thinkingTokensMax.value : thinkingTokensOf(effort, maxTokens);

/** https://platform.claude.com/docs/en/build-with-claude/effort */
const isAnthropic = (effort: Effort) => effort !== "none" && effort !== "minimal";

interface WireMessage {
  role?: unknown;
  content?: unknown;
}

/**
 * True if the messages end in an open assistant turn (with calls that were just answered) that does
 * not begin with thinking. Models with a thinking budget reject thinking in such a turn. `messages`
 * are the ones sent to the upstream.
 */
export function isBegunWithoutThinking(messages: readonly WireMessage[]): boolean {
  const blocksIn = ({ content }: WireMessage): { type?: unknown }[] =>
    Array.isArray(content) ? content : [{ type: "text" }];
  const question = messages.findLastIndex(
    (message) => message.role === "user" && blocksIn(message).some((block) => block?.type !== "tool_result"),
  );
  const turn = messages.slice(question + 1).filter(({ role }) => role === "assistant");
  const [first] = turn;
  if (first === undefined || !turn.some((message) => blocksIn(message).some((block) => block?.type === "tool_use")))
    return false;
  return !/^(redacted_)?thinking$/.test(String(blocksIn(first)[0]?.type));
}
