/** How a request to one of Anthropic's models says how much to think: https://platform.claude.com/docs/en/build-with-claude/thinking */
import type { Target } from "../codec.ts";
import type { Effort, Settings } from "../neutral.ts";
import { askedEffortOf, effortAmong, thinkingTokensOf } from "../reasoning.ts";

/** Tokens of an answer where neither the caller nor the catalogue says how many. */
export const outputTokensFilled = 4_096;

export interface Thinking {
  maxTokens: number;
  thinking?: Record<string, unknown>;
  effort?: string;
  /** The model thinks before it answers: it takes no sampling fields and can't be forced to call. */
  isOn: boolean;
}

interface Circumstances {
  target: Target;
  /** A call of a tool is to be forced. */
  forced: boolean;
  /** The turn that goes on was begun without thinking, or what it thought is lost. */
  begunWithout: boolean;
}

/**
 * A forced call and a turn begun without thinking go without it where they must, and so does an answer that has no room for the smallest budget: how
 * much to think is a wish, the rest is not.
 */
export function thinkingOf(settings: Settings, { target, forced, begunWithout }: Circumstances): Thinking {
  const { traits, outputTokensMax: limit } = target;
  const { thinkingTokensMin: least, thinkingTokensMax: most } = traits;
  const asked = settings.outputTokensMax?.value;
  const maxTokens = Math.min(asked ?? limit ?? outputTokensFilled, limit ?? Number.MAX_SAFE_INTEGER);
  const effort = askedEffortOf(settings);
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
        asked === undefined
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

const budgetOf = ({ effort: word, thinkingTokensMax }: Settings, effort: Effort, maxTokens: number): number =>
  word === undefined && thinkingTokensMax !== undefined ? thinkingTokensMax.value : thinkingTokensOf(effort, maxTokens);

/** https://platform.claude.com/docs/en/build-with-claude/effort */
const isAnthropic = (effort: Effort): boolean => effort !== "none" && effort !== "minimal";

interface WireMessage {
  role?: unknown;
  content?: unknown;
}

/**
 * Does the assistant's turn that these messages leave open, with calls that were just answered, begin with something else than thinking? Models with a
 * budget refuse to think on from there. Takes messages as they are sent.
 */
export function isBegunWithoutThinking(messages: readonly WireMessage[]): boolean {
  const blocksIn = ({ content }: WireMessage): { type?: unknown }[] =>
    Array.isArray(content) ? content : [{ type: "text" }];
  const asked = messages.findLastIndex(
    (message) => message.role === "user" && blocksIn(message).some((block) => block?.type !== "tool_result"),
  );
  const turn = messages.slice(asked + 1).filter(({ role }) => role === "assistant");
  const [first] = turn;
  if (first === undefined || !turn.some((message) => blocksIn(message).some((block) => block?.type === "tool_use")))
    return false;
  return !/^(redacted_)?thinking$/.test(String(blocksIn(first)[0]?.type));
}
