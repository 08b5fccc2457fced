/** Reasoning effort as a word and as a number of tokens. */
import type { Effort, Settings } from "./neutral.ts";

/** The amount of thinking that is only switched on, as OpenRouter has it. */
export const usualEffort = "medium" satisfies Effort;

/** The share of the output for each effort, for models that take a number of tokens. */
const shares: Record<Exclude<Effort, "none">, number> = {
  minimal: 0.02,
  low: 0.1,
  medium: 0.3,
  high: 0.6,
  xhigh: 0.9,
  max: 0.95,
};
const thinkingTokensMin = 1_024;

/**
 * The thinking budget in tokens, in an answer of at most `outputTokensMax` tokens: at least 1024,
 * and less than the whole answer. 0 for no thinking.
 */
export const thinkingTokensOf = (effort: Effort, outputTokensMax: number) =>
  effort === "none"
    ? 0
    : Math.min(
        Math.max(thinkingTokensMin, Math.floor(outputTokensMax * shares[effort])),
        Math.max(thinkingTokensMin, outputTokensMax - 1),
      );

/** Replacements for an effort that a model does not accept, best first. */
const substitutes: Record<Effort, readonly Effort[]> = {
  none: ["minimal", "low"],
  minimal: ["low"],
  low: ["minimal"],
  medium: ["high", "low"],
  high: ["medium", "max"],
  xhigh: ["high", "max"],
  max: ["xhigh", "high"],
};

/** The effort, or the nearest one that a model accepts. */
export const effortAmong = (effort: Effort, accepted: readonly Effort[]) =>
  [effort, ...substitutes[effort]].find((one) => accepted.includes(one)) ?? accepted[0] ?? effort;

/** The effort for a number of tokens; 0 is none. */
function effortOf(thinkingTokensMax: number): Effort {
  if (thinkingTokensMax <= 0) return "none";
  if (thinkingTokensMax <= 1_024) return "low";
  if (thinkingTokensMax <= 8_192) return "medium";
  return thinkingTokensMax <= 24_576 ? "high" : "xhigh";
}

/**
 * The effort that a request asks for, as a word or as a number of tokens; undefined if it asks for
 * none.
 */
export const requestedEffortOf = ({ effort, thinkingTokensMax }: Settings) =>
  effort?.value ?? (thinkingTokensMax === undefined ? undefined : effortOf(thinkingTokensMax.value));
