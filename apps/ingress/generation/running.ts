/** The generations of this ingress that are not over, and its queues, for operators. */

import type { QueuePlace } from "#relay/admission-queue.ts";
import type { CommandAnswer, GenerationFilter, RunningGeneration } from "#service/generation-commands.ts";
import type { Generation, GenerationState } from "./generation.ts";
import type { IngressQueue, ServingWorkers } from "./ingress-queues.ts";
import { positionOf, secondsOf } from "./queue-place.ts";

const shownStates = {
  admitting: "queued",
  limited: "rate_limited",
  queued: "queued",
  dispatched: "dispatched",
  running: "running",
  over: "running",
} as const satisfies Record<GenerationState["kind"], RunningGeneration["state"]>;

export interface RunningOptions {
  workerOf(number: number): string | undefined;
  /** Only for those in the line of a limit or in the admission queue. */
  placeOf(generation: Generation): QueuePlace | undefined;
}

/**
 * The oldest `limit` of those that match the filter, of generations in the order of their start,
 * and how many match.
 */
export function runningOf(
  generations: Iterable<Generation>,
  { model, key, queue, isWaiting }: GenerationFilter,
  limit: number,
  { workerOf, placeOf }: RunningOptions,
): CommandAnswer {
  const items: RunningGeneration[] = [];
  let count = 0;
  for (const generation of generations) {
    const { facts } = generation;
    if (model !== undefined && facts.model !== model) continue;
    if (key !== undefined && facts.keyId !== key) continue;
    if (queue !== undefined && facts.queue !== queue) continue;
    if (isWaiting === true && (!generation.isWaiting || generation.state.kind === "admitting")) continue;
    count++;
    if (items.length < limit) items.push(shownOf(generation, workerOf(generation.number), placeOf(generation)));
  }
  return { count, items };
}

function shownOf(generation: Generation, worker: string | undefined, place: QueuePlace | undefined): RunningGeneration {
  const { facts, request, state, progress, source } = generation;
  return {
    id: facts.generationId,
    requestId: facts.requestId,
    keyId: facts.keyId,
    keyName: request.http.caller.name,
    account: facts.account ?? null,
    group: facts.group,
    model: facts.model,
    queue: facts.queue,
    operation: facts.operation,
    state: shownStates[state.kind],
    position: place === undefined ? null : positionOf(place),
    expectedSeconds: (place && secondsOf(place)) ?? null,
    since: facts.receivedAt,
    isStreamed: request.framing !== "whole",
    outputTokens: progress?.outputTokens ?? null,
    upstream: source?.upstream ?? null,
    target: source?.target ?? null,
    worker: worker ?? null,
  };
}

export interface QueueStatistics {
  queue: string;
  /** The workers' slots that no other ingress uses; undefined if unknown. */
  slots: number | undefined;
  workers: ServingWorkers;
  /**
   * Generations of this ingress that wait for a worker, and those of them that are in its admission
   * queue.
   */
  waiting: number;
  admissionQueueSize: number;
  running: number;
  oldestWaitMs: number;
  /** The waiting generations of the groups with the most, and of all others together. */
  groups: { group: string; waiting: number }[];
  otherGroups: number;
}

/** How many groups of a queue are reported by name. */
const groupsMax = 10;

/** The statistics of these queues; `generations` are those of this ingress that are not over. */
export function statisticsOf(
  queues: readonly IngressQueue[],
  generations: Iterable<Generation>,
  now: number,
): QueueStatistics[] {
  const byQueue = new Map<string, QueueStatistics>();
  for (const { jobs, admission, workers } of queues) {
    const { slots, waitingSize: admissionQueueSize } = admission;
    const counts = { waiting: 0, admissionQueueSize, running: 0, oldestWaitMs: 0, groups: [], otherGroups: 0 };
    byQueue.set(jobs.name, { queue: jobs.name, slots, workers, ...counts });
  }
  const groups = new Map<QueueStatistics, Map<string, number>>();
  for (const generation of generations) {
    const queue = byQueue.get(generation.facts.queue);
    if (queue === undefined) continue;
    if (!generation.isWaiting) queue.running++;
    else {
      queue.waiting++;
      queue.oldestWaitMs = Math.max(queue.oldestWaitMs, now - generation.startedAt);
      const counts = groups.get(queue) ?? new Map<string, number>();
      groups.set(queue, counts.set(generation.facts.group, (counts.get(generation.facts.group) ?? 0) + 1));
    }
  }
  for (const [queue, counts] of groups) {
    const largestGroups = [...counts].sort(([, a], [, b]) => b - a);
    queue.groups = largestGroups.slice(0, groupsMax).map(([group, waiting]) => ({ group, waiting }));
    queue.otherGroups = largestGroups.slice(groupsMax).reduce((sum, [, waiting]) => sum + waiting, 0);
  }
  return [...byQueue.values()];
}
