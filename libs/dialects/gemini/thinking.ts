/**
 * The thinking settings of Google's models, a number of tokens or a level:
 * https://ai.google.dev/gemini-api/docs/thinking
 */

import { objectOf } from "#wire/json/parse.ts";
import { refuse } from "../neutral/field-support.ts";
import type { ModelTraits } from "../neutral/model-traits.ts";
import { type Effort, efforts, type Settings } from "../neutral/neutral.ts";
import { askedEffortOf, effortAmong } from "../neutral/reasoning.ts";

const path = "generationConfig.thinkingConfig";

/** The neutral settings of a `thinkingConfig`. */
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

export function encodeThinking(settings: Settings, traits: ModelTraits): object | undefined {
  const effort = askedEffortOf(settings);
  const isShown = effort !== "none" && (settings.thinkingShown?.value ?? settings.effort !== undefined);
  if ((effort === undefined && !isShown) || traits.thinking === "none") return undefined;
  const amount =
    effort === undefined
      ? {}
      : traits.thinking === "budget"
        ? { thinkingBudget: budgetOf(settings, effort, traits) }
        : { thinkingLevel: effortAmong(effort, traits.efforts.filter(isLevel)).toUpperCase() };
  return { ...amount, ...(isShown && { includeThoughts: true }) };
}

const isLevel = (effort: Effort): boolean => ["minimal", "low", "medium", "high"].includes(effort);

const budgets: Record<Effort, number> = {
  none: 0,
  minimal: 512,
  low: 1_024,
  medium: 8_192,
  high: 24_576,
  xhigh: 32_768,
  max: 32_768,
};

/** A budget within the model's range, and smaller than the answer's token limit. */
function budgetOf(
  { thinkingTokensMax: asked, outputTokensMax }: Settings,
  effort: Effort,
  { thinkingTokensMin: least, thinkingTokensMax: most, thinksAlways }: ModelTraits,
): number {
  const wanted = asked?.value ?? budgets[effort];
  if (wanted === 0 && !thinksAlways) return 0;
  const answerMax = outputTokensMax === undefined ? most : outputTokensMax.value - 1;
  return Math.max(least, Math.min(wanted, most, answerMax));
}
