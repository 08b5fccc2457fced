/** The usage record of a generation: what its caller is billed. */
import { plainUsageOf } from "#dialects/usage.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { operations } from "#operations/operations.ts";
import type { AnswerProgress } from "#relay/job.ts";
import { tokensOf } from "../admission/estimate.ts";
import type { UsageRecord } from "../admission/rate-limits.ts";
import type { Generation } from "./generation.ts";

/**
 * A failed generation is not billed. A caller who leaves, or whose key is revoked, is billed for what was produced, whether or not all of it
 * was sent: nothing before an upstream begins a stream, and the estimate where the amount is unknown.
 */
export function usageRecordOf(generation: Generation, outcome: GenerationOutcome): UsageRecord {
  const { state, usage, modelAnswered, progress } = generation;
  if (operations[generation.operation].isSession === true) return sessionRecordOf(generation);
  if (outcome === "complete" && usage !== null) return { kind: "used", usage, model: modelAnswered };
  if (outcome !== "complete" && outcome !== "left" && outcome !== "invalid_key") return { kind: "nothing" };
  if (progress !== undefined && !mayThinkUnseen(generation, progress)) return producedBy(generation, progress);
  const hasBegun =
    outcome === "complete" || progress !== undefined || (state === "running" && !isStreamedAnswer(generation));
  if (!hasBegun) return { kind: "nothing" };
  const { inputTokens, outputTokens } = tokensOf(generation);
  return {
    kind: "used",
    usage: { ...plainUsageOf(inputTokens, outputTokens), isEstimated: true },
    model: generation.model.id,
  };
}

/** A session is billed what its upstream reported, however it ends. */
function sessionRecordOf({ usage, modelAnswered, progress }: Generation): UsageRecord {
  if (usage !== null) return { kind: "used", usage, model: modelAnswered };
  return progress?.reported === undefined
    ? { kind: "nothing" }
    : { kind: "used", usage: progress.reported, model: progress.model };
}

function producedBy(
  generation: Generation,
  { model, outputTokens, reasoningTokens, reported }: AnswerProgress,
): UsageRecord {
  const input = reported ?? plainUsageOf(tokensOf(generation).inputTokens);
  return { kind: "used", usage: { ...input, outputTokens, reasoningTokens, isEstimated: true }, model };
}

/** Some upstreams do not show the thinking before an answer, and count it only at the end. */
const mayThinkUnseen = ({ model }: Generation, { outputTokens }: AnswerProgress): boolean =>
  outputTokens === 0 && model.capabilities.includes("reasoning");

const isStreamedAnswer = ({ operation, framing }: Generation): boolean =>
  operations[operation].reportsProgress === true && framing !== "whole";
