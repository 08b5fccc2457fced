/**
 * What a generation used. Cached tokens, read and written, and audio tokens are parts of the input; reasoning and audio tokens are parts of the output. The parts
 * of one whole never overlap. Dialects count differently; each codec converts.
 */
import { reportedImagesMax, reportedTokensMax } from "./bounds.ts";
import { listOf, objectOf } from "./json.ts";

export interface Usage {
  inputTokens: number;
  cachedInputTokens: number;
  cacheWriteTokens: number;
  outputTokens: number;
  reasoningTokens: number;
  /** Audio that did not come from the cache. Absent for none. */
  audioInputTokens?: number;
  audioOutputTokens?: number;
  /** Absent for an answer that is billed by its tokens alone. */
  images?: GeneratedImages;
  /** As the upstream named it in its answer, such as `flex`. Absent where it named none. */
  serviceTier?: string;
  /** The upstream reported an impossible number, which was cut to the bound. */
  isCapped?: true;
  /** Some or all counts are estimates. */
  isEstimated?: true;
}

/** Size and quality as the upstream named them, or else as the caller did; absent if neither did. */
export interface GeneratedImages {
  count: number;
  size?: string;
  quality?: string;
}

/** Approximate bytes of a request body per token, for estimates before or without an upstream's own count. */
export const bytesPerToken = 4;

/** A usage with input and output counts only. */
export const plainUsageOf = (inputTokens: number, outputTokens = 0): Usage =>
  plausible({ inputTokens, cachedInputTokens: 0, cacheWriteTokens: 0, outputTokens, reasoningTokens: 0 });

/** A counter as an upstream reports it; 0 if it is not a number. */
export const tokensOf = (value: unknown): number =>
  typeof value === "number" && Number.isInteger(value) && value > 0 ? value : 0;

/** Bounds a report: a counter beyond the bound is cut and marked as capped, no part exceeds its whole, and parts do not overlap. */
export function plausible(usage: Usage): Usage {
  const { inputTokens, outputTokens, audioInputTokens = 0, audioOutputTokens = 0, images, serviceTier } = usage;
  const input = Math.min(inputTokens, reportedTokensMax);
  const output = Math.min(outputTokens, reportedTokensMax);
  const cached = Math.min(usage.cachedInputTokens, input);
  const written = Math.min(usage.cacheWriteTokens, input - cached);
  const reasoning = Math.min(usage.reasoningTokens, output);
  const audioInput = Math.min(audioInputTokens, input - cached - written);
  const audioOutput = Math.min(audioOutputTokens, output - reasoning);
  return {
    inputTokens: input,
    cachedInputTokens: cached,
    cacheWriteTokens: written,
    outputTokens: output,
    reasoningTokens: reasoning,
    ...(audioInput > 0 && { audioInputTokens: audioInput }),
    ...(audioOutput > 0 && { audioOutputTokens: audioOutput }),
    ...(images && { images }),
    ...(serviceTier !== undefined && { serviceTier }),
    ...((usage.isCapped || inputTokens > reportedTokensMax || outputTokens > reportedTokensMax) && { isCapped: true }),
  };
}

const serviceTierForm = /^[a-z_]{1,20}$/;

/** The service tier that an answer names; nothing for anything else than a plain name. */
export const serviceTierOf = (value: unknown): Pick<Usage, "serviceTier"> =>
  typeof value === "string" && serviceTierForm.test(value) ? { serviceTier: value } : {};

const lookForm = /^[a-z0-9]{1,20}$/;

/** `count` images, with the first size and the first quality of these bodies that is one: `auto` is none. */
export function generatedImagesOf(count: number, ...bodies: readonly Record<string, unknown>[]): GeneratedImages {
  const named = (name: "size" | "quality"): string | undefined =>
    bodies
      .map((body) => body[name])
      .find((value): value is string => typeof value === "string" && value !== "auto" && lookForm.test(value));
  const [size, quality] = [named("size"), named("quality")];
  return {
    count: Math.min(count, reportedImagesMax),
    ...(size !== undefined && { size }),
    ...(quality !== undefined && { quality }),
  };
}

/** The tokens of one modality in Google's list of `{modality, tokenCount}`: https://ai.google.dev/api/generate-content#ModalityTokenCount */
export const modalityTokensOf = (details: unknown, modality: "AUDIO"): number =>
  listOf(details)
    .map(objectOf)
    .filter((detail) => detail.modality === modality)
    .reduce((sum, { tokenCount }) => sum + tokensOf(tokenCount), 0);
