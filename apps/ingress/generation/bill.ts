/** The bill of a generation: what its caller used, and what that costs by the catalogue that was in force at its admission. */
import { plainUsageOf, type Usage } from "#dialects/usage.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { type Bill, priced } from "#ledger/bill.ts";
import { operations } from "#operations/operations.ts";
import type { AnswerProgress } from "#relay/job.ts";
import { tokensOf } from "../admission/estimate.ts";
import type { Generation } from "./generation.ts";

/**
 * A failed generation is not billed. A caller who leaves, or whose key is revoked, is billed for what was produced, whether or not all of it
 * was sent: nothing before an upstream begins a stream, and the estimate where the amount is unknown.
 */
export function billOf(generation: Generation, outcome: GenerationOutcome): Bill | undefined {
  const { catalogue, caller, model: requested } = generation;
  const billed = billedOf(generation, outcome);
  if (billed === undefined) return undefined;
  const model = catalogue.models.find(({ id }) => id === billed.model) ?? requested;
  return priced(catalogue, caller.group, model, billed.usage);
}

interface Billed {
  usage: Usage;
  model: string;
}

function billedOf(generation: Generation, outcome: GenerationOutcome): Billed | undefined {
  const { state, usage, modelAnswered, progress } = generation;
  if (operations[generation.operation].isSession === true) return sessionUsageOf(generation);
  if (outcome === "complete" && usage !== null) return { usage, model: modelAnswered };
  if (outcome !== "complete" && outcome !== "left" && outcome !== "invalid_key") return undefined;
  if (progress !== undefined && !mayThinkUnseen(generation, progress)) return producedBy(generation, progress);
  const hasBegun =
    outcome === "complete" || progress !== undefined || (state === "running" && !isStreamedAnswer(generation));
  if (!hasBegun) return undefined;
  const { inputTokens, outputTokens } = tokensOf(generation);
  return { usage: { ...plainUsageOf(inputTokens, outputTokens), isEstimated: true }, model: generation.model.id };
}

/** A session is billed what its upstream reported, however it ends. */
function sessionUsageOf({ usage, modelAnswered, progress }: Generation): Billed | undefined {
  if (usage !== null) return { usage, model: modelAnswered };
  return progress?.reported && { usage: progress.reported, model: progress.model };
}

function producedBy(
  generation: Generation,
  { model, outputTokens, reasoningTokens, reported }: AnswerProgress,
): Billed {
  const input = reported ?? plainUsageOf(tokensOf(generation).inputTokens);
  return { usage: { ...input, outputTokens, reasoningTokens, isEstimated: true }, model };
}

/** Some upstreams do not show the thinking before an answer, and count it only at the end. */
const mayThinkUnseen = ({ model }: Generation, { outputTokens }: AnswerProgress): boolean =>
  outputTokens === 0 && model.capabilities.includes("reasoning");

const isStreamedAnswer = ({ operation, framing }: Generation): boolean =>
  operations[operation].reportsProgress === true && framing !== "whole";
