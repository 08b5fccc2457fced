/**
 * Which traces are exported, as OTEL_TRACES_SAMPLER says:
 * https://opentelemetry.io/docs/specs/otel/trace/sdk/#sampling
 */

export const samplerNames = [
  "always_on",
  "always_off",
  "traceidratio",
  "parentbased_always_on",
  "parentbased_always_off",
  "parentbased_traceidratio",
] as const;
export type SamplerName = (typeof samplerNames)[number];

/** Decides for a trace that begins here (`parent` undefined) or continues the caller's. */
export type Sampler = (traceId: string, parent: { readonly isSampled: boolean } | undefined) => boolean;

/** `ratio` is from 0 to 1, and counts for the samplers that are named after it. */
export function samplerOf(name: SamplerName, ratio: number): Sampler {
  const root = name.replace("parentbased_", "");
  const share = root === "always_on" ? 1 : root === "always_off" ? 0 : ratio;
  const decide = (traceId: string) => shareOf(traceId) < share;
  if (!name.startsWith("parentbased_")) return decide;
  return (traceId, parent) => parent?.isSampled ?? decide(traceId);
}

/**
 * From 0 to below 1, evenly spread: of the digits that are random in every trace id, the first 13,
 * which a number holds exactly.
 */
const shareOf = (traceId: string): number => Number.parseInt(traceId.slice(18, 31), 16) / 2 ** 52;
