/**
 * The usage of a generation. Cached tokens, read and written, and audio tokens are parts of the
 * input; reasoning and audio tokens are parts of the output. The parts of one whole never overlap.
 * Dialects count differently; each codec converts.
 */

import { defined, type JsonObject, listOf, objectOf } from "#wire/json/parse.ts";
import { reportedImagesMax, reportedTokensMax, reportedUnitsMax } from "./bounds.ts";

/**
 * Units that some vendors bill apart from the counts of `Usage`. Tokens are parts of the count that
 * stands here, and no token is of two kinds; other units are part of none.
 */
export const unitKinds = {
  /**
   * Written to the cache for an hour:
   * https://platform.claude.com/docs/en/build-with-claude/prompt-caching#pricing
   */
  cacheWrite1hTokens: "cacheWriteTokens",
  /** Audio from the cache: https://platform.openai.com/docs/pricing#audio-tokens */
  cachedAudioTokens: "cachedInputTokens",
  /** Images that did not come from the cache. */
  imageInputTokens: "inputTokens",
  imageOutputTokens: "outputTokens",
  /** Searches that the vendor ran on the web. */
  webSearches: undefined,
  /** Prompts answered with places of a map service. */
  mapSearches: undefined,
  /** Searches in files that the vendor stores. */
  fileSearches: undefined,
  /** Sandboxes in which the vendor ran code. */
  codeSessions: undefined,
  /** A query with up to 100 documents that were ranked: https://cohere.com/pricing */
  searchUnits: undefined,
  /** Recorded audio that the model heard, in whole seconds. */
  audioSeconds: undefined,
} as const satisfies Record<string, keyof Usage | undefined>;

export type UnitKind = keyof typeof unitKinds;
export const unitNames = Object.keys(unitKinds) as UnitKind[];
/** Only kinds with a count above zero. */
export type Units = Readonly<Partial<Record<UnitKind, number>>>;

export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  /** Audio that did not come from the cache. Absent for none. */
  audioInputTokens?: number;
  audioOutputTokens?: number;
  /** Absent for none. */
  units?: Units;
  /** Absent for an answer that is billed by its tokens alone. */
  images?: GeneratedImages;
  /**
   * As the upstream named it in its answer, such as `flex` or `standard+fast`. Absent where it
   * named none.
   */
  serviceTier?: string;
  /** The upstream reported an impossible number, which was cut to the bound. */
  isCapped?: true;
  /** Some or all counts are estimates. */
  isEstimated?: true;
}

/**
 * Size and quality as the upstream named them, or else as the caller did; absent if neither did.
 */
export interface GeneratedImages {
  count: number;
  size?: string;
  quality?: string;
}

/**
 * Approximate bytes of a request body per token, for estimates before or without an upstream's own
 * count.
 */
export const bytesPerToken = 4;

/** A usage with input and output counts only. */
export const plainUsageOf = (inputTokens: number, outputTokens = 0) =>
  plausible({ inputTokens, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens, reasoningTokens: 0 });

/** A counter as an upstream reports it; 0 if it is not a number. */
export const tokensOf = (value: unknown) =>
  typeof value === "number" && Number.isInteger(value) && value > 0 ? value : 0;

/** The count of a prompt's tokens in an upstream's answer; undefined if it is none. */
export const countIn = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0 ? value : undefined;

/** The most that one answer can have used. */
export interface UsageBounds {
  inputTokens: number;
  outputTokens: number;
  images: number;
  /** The bound of each kind that is no part of a count. */
  units: number;
  audioSeconds: number;
}

const anyAnswer: UsageBounds = {
  inputTokens: reportedTokensMax,
  outputTokens: reportedTokensMax,
  images: reportedImagesMax,
  units: reportedUnitsMax,
  audioSeconds: reportedUnitsMax,
};

/**
 * Bounds a report: a counter beyond its bound is cut and marked as capped, no part exceeds its
 * whole, and parts do not overlap.
 */
export function plausible(usage: Usage, bounds: UsageBounds = anyAnswer): Usage {
  const { inputTokens, outputTokens, audioInputTokens = 0, audioOutputTokens = 0, images, serviceTier, units } = usage;
  const input = Math.min(inputTokens, bounds.inputTokens);
  const output = Math.min(outputTokens, bounds.outputTokens);
  const cached = Math.min(usage.cachedInputTokens, input);
  const written = Math.min(usage.cacheWriteTokens, input - cached);
  const reasoning = Math.min(usage.reasoningTokens, output);
  const audioInput = Math.min(audioInputTokens, input - cached - written);
  const audioOutput = Math.min(audioOutputTokens, output - reasoning);
  const bounded: Usage = {
    inputTokens: input,
    cachedInputTokens: cached,
    cacheWriteTokens: written,
    outputTokens: output,
    reasoningTokens: reasoning,
  };
  // Each answer has a usage and few have more than this, so the rest is added one by one.
  if (audioInput > 0) bounded.audioInputTokens = audioInput;
  if (audioOutput > 0) bounded.audioOutputTokens = audioOutput;
  if (units !== undefined) {
    const left = {
      inputTokens: input - cached - written - audioInput,
      cachedInputTokens: cached,
      cacheWriteTokens: written,
      outputTokens: output - reasoning - audioOutput,
    };
    Object.assign(bounded, boundedUnits(units, left, bounds));
  }
  if (images) bounded.images = { ...images, count: Math.min(images.count, bounds.images) };
  if (serviceTier !== undefined) bounded.serviceTier = serviceTier;
  if (usage.isCapped || isBeyond(usage, bounds)) bounded.isCapped = true;
  if (usage.isEstimated) bounded.isEstimated = true;
  return bounded;
}

const isBeyond = ({ inputTokens, outputTokens, images, units }: Usage, bounds: UsageBounds) =>
  inputTokens > bounds.inputTokens ||
  outputTokens > bounds.outputTokens ||
  (images !== undefined && images.count > bounds.images) ||
  (units !== undefined &&
    unitNames.some((kind) => unitKinds[kind] === undefined && (units[kind] ?? 0) > unitBoundOf(kind, bounds)));

const unitBoundOf = (kind: UnitKind, { units, audioSeconds }: UsageBounds) =>
  kind === "audioSeconds" ? audioSeconds : units;

/** The units, each bounded by the rest of its whole. */
function boundedUnits(units: Units, left: Record<string, number>, bounds: UsageBounds): Pick<Usage, "units"> {
  const bounded = unitNames.flatMap((kind) => {
    const whole = unitKinds[kind];
    const count = Math.min(units[kind] ?? 0, whole === undefined ? unitBoundOf(kind, bounds) : (left[whole] ?? 0));
    return count > 0 ? [[kind, count] as const] : [];
  });
  return bounded.length === 0 ? {} : { units: Object.fromEntries(bounded) };
}

/** The units with a count; nothing for none. */
export const countedUnits = (units: Units): Pick<Usage, "units"> =>
  Object.values(units).some((count) => count > 0) ? { units } : {};

/**
 * A report that counts something. Some servers report zeros before or after the real counts, or
 * counts that are no numbers: these say nothing.
 */
export const countedUsage = (usage: Usage | undefined): Usage | undefined =>
  usage !== undefined && usage.inputTokens + usage.outputTokens === 0 && usage.units === undefined ? undefined : usage;

/**
 * The report that counts after another one of the same stream. Reports count from the beginning of
 * the answer, so one without output, such as Gemini's last one without `candidatesTokenCount`,
 * leaves out what an earlier one has; so does one without input, as of Claude's streams, which
 * report the input at their start and the output at their end.
 */
export function laterUsage(report: Usage | undefined, before: Usage | undefined): Usage | undefined {
  if (report === undefined || before === undefined) return report ?? before;
  if (report.outputTokens > 0 && report.inputTokens > 0) return report;
  const [input, output] = [report.inputTokens > 0 ? report : before, report.outputTokens > 0 ? report : before];
  const units = defined({
    ...report.units,
    cacheWrite1hTokens: input.units?.cacheWrite1hTokens,
    cachedAudioTokens: input.units?.cachedAudioTokens,
    imageInputTokens: input.units?.imageInputTokens,
    imageOutputTokens: output.units?.imageOutputTokens,
  });
  return {
    ...report,
    inputTokens: input.inputTokens,
    cachedInputTokens: input.cachedInputTokens,
    cacheWriteTokens: input.cacheWriteTokens,
    outputTokens: output.outputTokens,
    reasoningTokens: output.reasoningTokens,
    ...defined({ audioInputTokens: input.audioInputTokens, audioOutputTokens: output.audioOutputTokens }),
    ...countedUnits(units),
  };
}

const serviceTierForm = /^[a-z_]{1,20}$/;

/**
 * Between the names of a service tier that an answer gives in several fields, such as
 * `priority+fast`.
 */
export const tierSeparator = "+";
const serviceTierLengthMax = 20;

/**
 * The service tier that an answer names, perhaps in several fields; nothing for anything else than
 * plain names.
 */
export function serviceTierOf(...values: readonly unknown[]): Pick<Usage, "serviceTier"> {
  const names = values.filter((value) => typeof value === "string" && serviceTierForm.test(value));
  while (names.join(tierSeparator).length > serviceTierLengthMax) names.pop();
  return names.length === 0 ? {} : { serviceTier: names.join(tierSeparator) };
}

const lookForm = /^[a-z0-9]{1,20}$/;

/**
 * `count` images, with the first size and the first quality of these bodies that is one: `auto` is
 * none.
 */
export function generatedImagesOf(count: number, ...bodies: readonly JsonObject[]): GeneratedImages {
  const named = (name: "size" | "quality") =>
    bodies
      .map((body) => body[name])
      .find((value): value is string => typeof value === "string" && value !== "auto" && lookForm.test(value));
  const [size, quality] = [named("size"), named("quality")];
  return {
    count: Math.min(count, reportedImagesMax),
    ...defined({ size, quality }),
  };
}

/**
 * The tokens of one modality in Google's list of `{modality, tokenCount}`:
 * https://ai.google.dev/api/generate-content#ModalityTokenCount
 */
export const modalityTokensOf = (details: unknown, modality: "AUDIO" | "IMAGE") =>
  listOf(details)
    .map(objectOf)
    .filter((detail) => detail.modality === modality)
    .reduce((sum, { tokenCount }) => sum + tokensOf(tokenCount), 0);
