/** The bill of a generation: what its caller used, and what that costs by the catalogue that was in force at its admission. */
import { plausible, type Usage } from "#dialects/usage.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { type Bill, priced } from "#ledger/bill.ts";
import { operations } from "#operations/operations.ts";
import type { AnswerProgress } from "#relay/job.ts";
import { estimatedUsageOf } from "../admission/estimate.ts";
import type { Generation } from "./generation.ts";

/**
 * A failed generation is not billed, unless its answer was paid and is too large to be passed on: its upstream's count, or what was reserved, is billed. A caller who leaves, whose key is revoked, or whose generation an operator stops, is billed for what was produced, whether or not
 * all of it was sent: nothing before an upstream begins a stream, and the estimate where the amount is unknown.
 * `receivedAt` is in epoch milliseconds: the prices of that moment apply.
 */
export function billOf(generation: Generation, outcome: GenerationOutcome, receivedAt?: number): Bill | undefined {
  const { catalogue, caller, model: requested } = generation;
  const billed = billedOf(generation, outcome);
  if (billed === undefined) return undefined;
  const model = catalogue.models.find(({ id }) => id === billed.model) ?? requested;
  return priced(catalogue, caller.group, model, billed.usage, receivedAt);
}

const billedOutcomes: readonly GenerationOutcome[] = ["complete", "left", "invalid_key", "stopped"];

interface Billed {
  usage: Usage;
  model: string;
}

function billedOf(generation: Generation, outcome: GenerationOutcome): Billed | undefined {
  const { state, usage, modelAnswered, progress, paidAnswer } = generation;
  if (paidAnswer !== undefined)
    return { usage: paidAnswer.usage ?? estimatedUsageOf(generation), model: paidAnswer.model };
  if (operations[generation.operation].isSession === true) return sessionUsageOf(generation);
  if (outcome === "complete" && usage !== null) return { usage: withTokens(usage, generation), model: modelAnswered };
  if (!billedOutcomes.includes(outcome)) return undefined;
  if (progress !== undefined && !mayThinkUnseen(generation, progress)) return producedBy(generation, progress);
  const hasBegun =
    outcome === "complete" || progress !== undefined || (state === "running" && !isStreamedAnswer(generation));
  if (!hasBegun) return undefined;
  return { usage: estimatedUsageOf(generation), model: generation.model.id };
}

/** Some upstreams report no tokens of their images. They are estimated, so that models without a price for each image bear a cost. */
const withTokens = (usage: Usage, generation: Generation): Usage =>
  usage.images !== undefined && usage.inputTokens + usage.outputTokens === 0
    ? { ...estimatedUsageOf(generation), images: usage.images }
    : usage;

/** A session is billed what its upstream reported, however it ends. */
function sessionUsageOf({ usage, modelAnswered, progress }: Generation): Billed | undefined {
  if (usage !== null) return { usage, model: modelAnswered };
  return progress?.reported && { usage: progress.reported, model: progress.model };
}

function producedBy(
  generation: Generation,
  { model, outputTokens, reasoningTokens, reported }: AnswerProgress,
): Billed {
  const input = reported ?? estimatedUsageOf(generation);
  return { usage: { ...plausible({ ...input, outputTokens, reasoningTokens }), isEstimated: true }, model };
}

/** Some upstreams do not show the thinking before an answer, and count it only at the end. */
const mayThinkUnseen = ({ model }: Generation, { outputTokens }: AnswerProgress): boolean =>
  outputTokens === 0 && model.capabilities.includes("reasoning");

const isStreamedAnswer = ({ operation, framing }: Generation): boolean =>
  operations[operation].reportsProgress === true && framing !== "whole";
