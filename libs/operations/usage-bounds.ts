/**
 * The most that an answer can have used by its model and its request: what an upstream reports
 * beyond that is a mistake or a fraud.
 */
import { reportedImagesMax, reportedTokensMax } from "#dialects/bounds.ts";
import type { UsageBounds } from "#dialects/usage.ts";
import {
  heardSecondsMax,
  hostedRoundsMax,
  hostedUnitsMax,
  searchesMax,
  secondsRatioMax,
  unknownWindowTokens,
} from "./bounds.ts";
import type { Demand } from "./demand.ts";

/** The limits of a model, as its catalogue entry states them. */
export interface ModelLimits {
  readonly contextWindow?: number | undefined;
  readonly outputTokensMax?: number | undefined;
}

export type UsageDemand = Pick<
  Demand,
  "choices" | "mediaTokens" | "attachedTokens" | "prompts" | "hostsTools" | "audioSeconds" | "images"
>;

const plainDemand: UsageDemand = { choices: 1, mediaTokens: undefined, attachedTokens: 0 };
const names = ["inputTokens", "outputTokens", "images", "units", "audioSeconds"] as const;

/** The bounds as they travel in a job; undefined for those of a plain request. */
export function packedBoundsOf(limits: ModelLimits, demand: UsageDemand): number[] | undefined {
  const [bounds, plain] = [usageBoundsOf(limits, demand), usageBoundsOf(limits, plainDemand)];
  return names.every((name) => bounds[name] === plain[name]) ? undefined : names.map((name) => bounds[name]);
}

/** The reverse, for the model that answered. */
export function unpackedBoundsOf(limits: ModelLimits, packed: readonly number[] = []): UsageBounds {
  const bounds = usageBoundsOf(limits, plainDemand);
  for (const [index, name] of names.entries()) bounds[name] = packed[index] ?? bounds[name];
  return bounds;
}

/**
 * The window for each prompt and choice, and the longest answer for each choice. A vendor's own
 * tools read the conversation again in each of their rounds. A recording may be longer than its
 * size lets expect.
 */
export function usageBoundsOf(
  { contextWindow, outputTokensMax }: ModelLimits,
  { choices, mediaTokens = 0, attachedTokens, prompts = 1, hostsTools, audioSeconds, images }: UsageDemand,
): UsageBounds {
  const rounds = hostsTools === true ? hostedRoundsMax : 1;
  const inputTokens = Math.max(
    (contextWindow ?? unknownWindowTokens) * Math.max(prompts, choices) * rounds,
    attachedTokens * secondsRatioMax,
  );
  const each = Math.max(outputTokensMax ?? contextWindow ?? unknownWindowTokens, mediaTokens);
  const units = hostsTools === true ? hostedUnitsMax : searchesMax;
  return {
    inputTokens: Math.min(reportedTokensMax, inputTokens),
    outputTokens: Math.min(reportedTokensMax, each * choices),
    images: Math.min(reportedImagesMax, images?.count ?? reportedImagesMax),
    units: units * choices,
    audioSeconds: audioSeconds === undefined ? heardSecondsMax : audioSeconds * secondsRatioMax,
  };
}
