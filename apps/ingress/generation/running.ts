/** The generations of this ingress that are not over, for operators. */
import type { CommandAnswer, GenerationFilter, RunningGeneration } from "#service/generation-commands.ts";
import type { Generation } from "./generation.ts";

/** The oldest `limit` of those that match the filter, of generations in the order of their start, and how many match. */
export function runningOf(
  generations: Iterable<Generation>,
  { model, key, queue }: GenerationFilter,
  limit: number,
  workerOf: (number: number) => string | undefined,
): CommandAnswer {
  const items: RunningGeneration[] = [];
  let count = 0;
  for (const generation of generations) {
    const { facts } = generation;
    if (model !== undefined && facts.model !== model) continue;
    if (key !== undefined && facts.keyId !== key) continue;
    if (queue !== undefined && facts.queue !== queue) continue;
    count++;
    if (items.length < limit) items.push(shownOf(generation, workerOf(generation.number)));
  }
  return { count, items };
}

function shownOf(generation: Generation, worker: string | undefined): RunningGeneration {
  const { facts, caller, state, framing, progress, source } = generation;
  return {
    id: facts.generationId,
    keyId: facts.keyId,
    keyName: caller.name,
    account: facts.account ?? null,
    group: facts.group,
    model: facts.model,
    queue: facts.queue,
    operation: facts.operation,
    state: state === "running" || state === "dispatched" ? state : "queued",
    since: facts.receivedAt,
    isStreamed: framing !== "whole",
    outputTokens: progress?.outputTokens ?? null,
    upstream: source?.upstream ?? null,
    target: source?.target ?? null,
    worker: worker ?? null,
  };
}
