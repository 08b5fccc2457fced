/**
 * The conditions that need the operator now. infra/prometheus/alerts.yml has the same for those who
 * are away, and gives the first worker of a queue time to start.
 */
import type { liveOperations } from "#api/live.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { ledgerBehindSeconds, oldestWaitShare, redisMemoryShare } from "../bounds.ts";

export type LiveState = AnswerOf<(typeof liveOperations)["readOperations"]>;

type Condition = LiveState["conditions"][number];

export function conditionsOf(
  { queues, processes, targets, redis, ledger }: Omit<LiveState, "conditions">,
  catalogueQueues: Catalogue["queues"],
): Condition[] {
  const conditions: Condition[] = [];
  const add = (kind: Condition["kind"], subject: string | null, value: number | null) =>
    conditions.push({ kind, subject, value });
  for (const { id, isLate } of processes) if (isLate) add("processSilent", id, null);
  for (const { name, workers, queued, waiting, oldestWaitMs, control } of queues) {
    // A queue that an operator has paused may wait, and one that scales from zero may have no
    // worker.
    if (control?.state === "paused") continue;
    if (workers === 0 && queued + waiting > 0) add("noWorker", name, null);
    const waitMs = catalogueQueues.get(name)?.waitMs ?? Number.POSITIVE_INFINITY;
    if (oldestWaitMs > waitMs * oldestWaitShare) add("oldestWait", name, oldestWaitMs / 1_000);
  }
  for (const { target, state } of targets) if (state !== "closed") add("circuitBreakerOpen", target, null);
  if (ledger.lagSeconds > ledgerBehindSeconds) add("ledgerBehind", null, ledger.lagSeconds);
  if (ledger.invalid > 0) add("invalidRecords", null, ledger.invalid);
  const share = redis.memoryMaxBytes === 0 ? 0 : redis.memoryBytes / redis.memoryMaxBytes;
  if (share > redisMemoryShare) add("redisMemory", null, share);
  return conditions;
}
