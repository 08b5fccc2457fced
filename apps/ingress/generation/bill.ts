/**
 * The bill of a generation: what its caller used, and what that costs by the catalogue that was in
 * force at its admission.
 */
import { plausible, type Usage } from "#dialects/usage.ts";
import type { GenerationOutcome } from "#events/ingress-events.ts";
import { type Bill, priced, withBatchTier } from "#ledger/bill.ts";
import { operations } from "#operations/operations.ts";
import { sumOf } from "#operations/realtime/upstream-session.ts";
import { usageBoundsOf } from "#operations/usage-bounds.ts";
import type { AnswerProgress } from "#relay/job.ts";
import { estimatedUsageOf } from "../admission/estimate.ts";
import type { Generation } from "./generation.ts";

/**
 * A failed generation is not billed, unless its answer was paid and is too large to be passed on:
 * its upstream's count, or what was reserved, is billed. A caller who leaves, whose key is revoked,
 * or whose generation an operator stops, is billed for what was produced, whether or not all of it
 * was sent: nothing before an upstream begins a stream, and the estimate where the amount is
 * unknown. `outcome` is undefined for a session that runs. `receivedAt` is in epoch milliseconds:
 * the prices of that moment apply.
 */
export function billOf(
  generation: Generation,
  outcome: GenerationOutcome | undefined,
  receivedAt?: number,
): Bill | undefined {
  const { request, admitted } = generation;
  const { catalogue } = admitted;
  const billed = billedOf(generation, outcome);
  if (billed === undefined) return undefined;
  const model = catalogue.modelWith(billed.model) ?? admitted.model;
  // A session has many answers; its worker bounds each of them.
  const isSession = operations[generation.request.endpoint.operation].isSession === true;
  const usage = isSession ? billed.usage : plausible(billed.usage, usageBoundsOf(model, request.demand));
  return priced(catalogue, request.http.caller.group, model, withBatchTier(usage, request.batch), receivedAt);
}

const billedOutcomes: readonly GenerationOutcome[] = ["complete", "left", "invalid_key", "stopped"];

interface Billed {
  usage: Usage;
  model: string;
}

function billedOf(generation: Generation, outcome: GenerationOutcome | undefined): Billed | undefined {
  const { state, usage, modelAnswered, progress, paidAnswer, isDeferred } = generation;
  if (isDeferred) return undefined;
  if (paidAnswer !== undefined)
    return {
      usage: withTokens(paidAnswer.usage ?? estimatedUsageOf(generation), generation),
      model: paidAnswer.model,
    };
  if (operations[generation.request.endpoint.operation].isSession === true) return sessionUsageOf(generation, outcome);
  if (outcome === "complete" && usage !== null) return { usage: withTokens(usage, generation), model: modelAnswered };
  if (outcome === undefined || !billedOutcomes.includes(outcome)) return undefined;
  if (progress !== undefined && !mayThinkUnseen(generation, progress)) return producedBy(generation, progress);
  const hasBegun =
    outcome === "complete" || progress !== undefined || (state.kind === "running" && !isStreamedAnswer(generation));
  if (!hasBegun) return undefined;
  return { usage: estimatedUsageOf(generation), model: generation.admitted.model.id };
}

/**
 * A report without input tokens, or with none that are numbers, counts nothing of the input, and
 * without tokens of either kind nothing at all: that part is estimated. Some upstreams report no
 * tokens of their images.
 */
function withTokens(usage: Usage, generation: Generation): Usage {
  if (usage.inputTokens > 0 || operations[generation.request.endpoint.operation].bills === "nothing") return usage;
  const { inputTokens, outputTokens } = estimatedUsageOf(generation);
  const output = usage.outputTokens > 0 ? usage.outputTokens : outputTokens;
  return { ...usage, inputTokens, outputTokens: output, isEstimated: true };
}

/**
 * A session is billed what its upstream reported, however it ends, and then also what it was
 * producing.
 */
function sessionUsageOf(
  { usage, modelAnswered, progress }: Generation,
  outcome: GenerationOutcome | undefined,
): Billed | undefined {
  if (usage !== null) return { usage, model: modelAnswered };
  if (progress === undefined) return undefined;
  const used = outcome === undefined ? progress.reported : sumOf(progress.reported, unreportedOf(progress));
  return used && { usage: used, model: progress.model };
}

/** With the tokens of the last messages, which are taken to be like those before them. */
function unreportedOf({ outputTokens: all, reported, unreported }: AnswerProgress): Usage | undefined {
  if (unreported === undefined) return undefined;
  const { outputTokens: countedTokens, audioOutputTokens: audio = 0 } = unreported;
  const outputTokens = Math.max(countedTokens, all - (reported?.outputTokens ?? 0));
  return {
    ...unreported,
    outputTokens,
    audioOutputTokens: Math.ceil(audio * (outputTokens / Math.max(1, countedTokens))),
  };
}

function producedBy(
  generation: Generation,
  { model, outputTokens, reasoningTokens, reported }: AnswerProgress,
): Billed {
  const input = reported ?? estimatedUsageOf(generation);
  return { usage: { ...plausible({ ...input, outputTokens, reasoningTokens }), isEstimated: true }, model };
}

/** Some upstreams do not show the thinking before an answer, and count it only at the end. */
const mayThinkUnseen = ({ admitted }: Generation, { outputTokens }: AnswerProgress): boolean =>
  outputTokens === 0 && admitted.model.capabilities.includes("reasoning");

const isStreamedAnswer = ({ request: { endpoint, framing } }: Generation): boolean =>
  operations[endpoint.operation].reportsProgress === true && framing !== "whole";
