/** Measures what this process uses of the event loop, of its memory and of its open files. */
import { performance } from "node:perf_hooks";
import { getHeapStatistics } from "node:v8";
import { generationsPerJobMax } from "#relay/bounds.ts";
import type { OpenFiles } from "#service/open-files.ts";
import { filesCountedEvery } from "./bounds.ts";
import type { Usage } from "./intake.ts";

/** Each call returns the use since the last one. `running`: the generations that it has. */
export function measureUsage(openFiles: OpenFiles): (running: number) => Usage {
  let before = performance.eventLoopUtilization();
  let turnsBefore = turns();
  const filesLeft = countFiles(openFiles);
  return (running) => {
    const now = performance.eventLoopUtilization();
    const { utilization, active } = performance.eventLoopUtilization(now, before);
    const turnsNow = turns();
    const turnMs = active / Math.max(1, turnsNow - turnsBefore);
    before = now;
    turnsBefore = turnsNow;
    return { eventLoop: utilization, turnMs, memory: memoryShare(), filesLeft: filesLeft(running) };
  };
}

/**
 * How many more generations may begin before a job takes the last file: each opens a socket, and
 * those that began around the last count may not have had theirs. Counting takes longer the more
 * are open, so it is rare where many are left.
 */
function countFiles(files: OpenFiles): (running: number) => number {
  const leftAtStart = files.left;
  let calls = 0;
  let runningThen = 0;
  return (running) => {
    const counted = files.left - Math.max(0, running - runningThen);
    const left = Math.min(counted, leftAtStart - running) - generationsPerJobMax;
    if (++calls % filesCountedEvery === 0 || left < running) {
      files.tick();
      runningThen = running;
    }
    return left;
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
  const resident = residentBytes();
  const constrained = process.constrainedMemory();
  // Without a limit, the number is 0 or larger than any machine's memory.
  const total =
    constrained > 0 && constrained < Number.MAX_SAFE_INTEGER ? constrained : resident + process.availableMemory();
  return Math.max(used / limit, resident / total);
}

let lastResident = 0;

/** The last number where no file can be opened: Linux tells it in one. */
function residentBytes(): number {
  try {
    lastResident = process.memoryUsage.rss();
  } catch {
    // Fewer generations are taken, and soon a file is closed.
  }
  return lastResident;
}
