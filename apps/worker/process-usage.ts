/** Measures what this process uses of the event loop and of its memory. */
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import type { Usage } from "./intake.ts";

/** Each call returns the use since the last one. */
export function measureUsage(): () => Usage {
  let before = performance.eventLoopUtilization();
  return () => {
    const now = performance.eventLoopUtilization();
    const { utilization } = performance.eventLoopUtilization(now, before);
    before = now;
    return { eventLoop: utilization, memory: memoryShare() };
  };
}

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
