/**
 * The conditions that need the operator now. infra/prometheus/alerts.yml has most of them for those
 * who are away, and gives the first worker of a queue time to start.
 */
import type { liveOperations } from "#api/live.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { stopping } from "#service/metrics.ts";
import {
  comparedRequestsMin,
  failedShare,
  ledgerBehindSeconds,
  oldestWaitSeconds,
  oldestWaitShare,
  queueGrowthFactor,
  queueGrowthMin,
  redisMemoryShare,
  refusedShare,
  targetFailedShare,
} from "../bounds.ts";

export type LiveState = AnswerOf<(typeof liveOperations)["readOperations"]>;

type Condition = LiveState["conditions"][number];
type Add = (kind: Condition["kind"], subject: string | null, value: number | null, share?: number) => void;
type Queue = LiveState["queues"][number];

/** The counts of about the last minute, as far as it was seen. */
export interface Seen {
  requests: number;
  failed: number;
  refused: number;
  /** How many requests waited at its begin, by queue. */
  waiting: ReadonlyMap<string, number>;
}

export function conditionsOf(
  { queues, processes, targets, redis, ledger }: Omit<LiveState, "conditions">,
  { queues: catalogueQueues, isRefused }: { queues: Catalogue["queues"]; isRefused: boolean },
  seen: Seen | undefined,
): Condition[] {
  const conditions: Condition[] = [];
  const add: Add = (kind, subject, value, share) => conditions.push({ kind, subject, value, share: share ?? null });
  for (const { id, isLate, notReady } of processes) {
    if (isLate) add("processSilent", id, null);
    else if (notReady !== null && notReady !== stopping) add("processNotReady", id, null);
  }
  if (seen !== undefined && seen.requests >= comparedRequestsMin) {
    const [failed, refused] = [seen.failed / seen.requests, seen.refused / seen.requests];
    if (failed > failedShare) add("requestsFail", null, failed);
    if (refused > refusedShare) add("requestsRefused", null, refused);
  }
  for (const queue of queues) addQueue(queue, add, { waitMs: catalogueQueues.get(queue.name)?.waitMs, seen });
  for (const { target, state, calls, failed, cooling } of targets) {
    if (state !== "closed") add("circuitBreakerOpen", target, null);
    else if (calls >= comparedRequestsMin && failed / calls > targetFailedShare)
      add("targetFails", target, failed / calls);
    if (cooling > 0) add("credentialCools", target, cooling);
  }
  if (isRefused) add("catalogueRefused", null, null);
  if (ledger.lagSeconds > ledgerBehindSeconds) add("ledgerBehind", null, ledger.lagSeconds);
  if (ledger.invalid > 0) add("invalidRecords", null, ledger.invalid);
  const share = redis.memoryMaxBytes === 0 ? 0 : redis.memoryBytes / redis.memoryMaxBytes;
  if (share > redisMemoryShare) add("redisMemory", null, share);
  return conditions;
}

/**
 * A queue that an operator has paused may wait, and one that scales from zero may have no worker.
 */
function addQueue(
  { name, workers, queued, waiting, oldestWaitMs, control }: Queue,
  add: Add,
  { waitMs = Number.POSITIVE_INFINITY, seen }: { waitMs: number | undefined; seen: Seen | undefined },
): void {
  if (control?.state === "paused") {
    add("queuePaused", name, queued);
    return;
  }
  if (control?.state === "draining") add("queueDraining", name, queued);
  if (workers === 0 && queued + waiting > 0) add("noWorker", name, null);
  const share = oldestWaitMs / waitMs;
  const isLong = name !== "background" && oldestWaitMs > 1_000 * oldestWaitSeconds;
  if (share > oldestWaitShare || isLong) add("oldestWait", name, oldestWaitMs / 1_000, share);
  const before = seen?.waiting.get(name);
  if (before !== undefined && queued >= before + queueGrowthMin && queued >= before * queueGrowthFactor)
    add("queueGrows", name, queued);
}
