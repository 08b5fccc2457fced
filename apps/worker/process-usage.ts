/** Measures what this process uses of the event loop and of its memory. */
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import type { Usage } from "./intake.ts";

/** Each call returns the use since the last one. */
export function measureUsage(): () => Usage {
  let before = performance.eventLoopUtilization();
  let turnsBefore = turns();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization, active } = performance.eventLoopUtilization(now, before);
    const turnsNow = turns();
    const turnMs = active / Math.max(1, turnsNow - turnsBefore);
    before = now;
    turnsBefore = turnsNow;
    return { eventLoop: utilization, turnMs, memory: memoryShare() };
  };
}

/** The turns of the event loop since the process began. */
const turns = (): number => performance.nodeTiming.uvMetricsInfo.loopCount;

/**
 * The larger of two shares: of the heap's limit, and of the memory that the process or its
 * container may have.
 */
function memoryShare(): number {
  const { used_heap_size: used, heap_size_limit: limit } = getHeapStatistics();
  const resident = process.memoryUsage.rss();
  const constrained = process.constrainedMemory();
  // Without a limit, the number is 0 or larger than any machine's memory.
  const total =
    constrained > 0 && constrained < Number.MAX_SAFE_INTEGER ? constrained : resident + process.availableMemory();
  return Math.max(used / limit, resident / total);
}
