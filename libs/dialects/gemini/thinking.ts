/** How hard Google's models think: https://ai.google.dev/gemini-api/docs/thinking. Those of version 2.5 are given a number of tokens, later ones a level. */

import { refuse } from "../field-support.ts";
import { objectOf } from "../json.ts";
import { type Effort, efforts, type Settings } from "../neutral.ts";
import { askedEffortOf } from "../reasoning.ts";

const path = "generationConfig.thinkingConfig";

/** The settings that a `thinkingConfig` stands for. */
export function decodeThinking(value: unknown): Pick<Settings, "effort" | "thinkingTokensMax" | "thinkingShown"> {
  const { thinkingBudget: budget, thinkingLevel: level, includeThoughts } = objectOf(value);
  return {
    ...(typeof includeThoughts === "boolean" && {
      thinkingShown: { value: includeThoughts, path: `${path}.includeThoughts` },
    }),
    ...(budget === 0 && { effort: { value: "none" as const, path: `${path}.thinkingBudget` } }),
    ...(typeof budget === "number" &&
      budget > 0 && { thinkingTokensMax: { value: budget, path: `${path}.thinkingBudget` } }),
    ...(typeof level === "string" &&
      level !== "" &&
      level !== "THINKING_LEVEL_UNSPECIFIED" && { effort: effortOf(level) }),
  };
}

const effortOf = (level: string): NonNullable<Settings["effort"]> => ({
  value:
    efforts.find((effort) => effort === level.toLowerCase()) ??
    refuse(`${path}.thinkingLevel`, "must be MINIMAL, LOW, MEDIUM or HIGH"),
  path: `${path}.thinkingLevel`,
});

export function encodeThinking(settings: Settings, model: string): object | undefined {
  const effort = askedEffortOf(settings);
  const isShown = effort !== "none" && (settings.thinkingShown?.value ?? settings.effort !== undefined);
  if (effort === undefined && !isShown) return undefined;
  const amount =
    effort === undefined
      ? {}
      : /gemini-2\.5/.test(model)
        ? { thinkingBudget: budgetOf(settings, effort, model) }
        : { thinkingLevel: levelOf(effort, model) };
  return { ...amount, ...(isShown && { includeThoughts: true }) };
}

const levels: Record<Effort, string> = {
  none: "MINIMAL",
  minimal: "MINIMAL",
  low: "LOW",
  medium: "MEDIUM",
  high: "HIGH",
  xhigh: "HIGH",
  max: "HIGH",
};

/** The larger models know no minimal thinking, and the first of them nothing between low and high. */
function levelOf(effort: Effort, model: string): string {
  const level = levels[effort];
  if (level === "MINIMAL" && /gemini-.*\bpro\b/.test(model)) return "LOW";
  return level === "MEDIUM" && /gemini-3-pro/.test(model) ? "HIGH" : level;
}

const budgets: Record<Effort, number> = {
  none: 0,
  minimal: 512,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
};

/** Within what the model takes, and less than the whole answer may have. */
function budgetOf({ thinkingTokensMax, outputTokensMax }: Settings, effort: Effort, model: string): number {
  const [least, most, mayBeNone] = /2\.5-flash-lite/.test(model)
    ? [512, 24_576, true]
    : /2\.5-flash/.test(model)
      ? [1, 24_576, true]
      : [128, 32_768, false];
  const wanted = thinkingTokensMax?.value ?? budgets[effort];
  if (wanted === 0 && mayBeNone) return 0;
  const answerMax = outputTokensMax === undefined ? most : outputTokensMax.value - 1;
  return Math.max(least, Math.min(wanted, most, answerMax));
}
