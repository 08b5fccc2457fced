/** Limits the logs under `.sluice/log`: one previous file of each, and a maximum size. */
import { copyFileSync, renameSync, statSync, truncateSync } from "node:fs";

const logBytesMax = 64 * 1024 * 1024;
const checkEveryMs = 10_000;

/**
 * Renames the logs of the previous run to `<file>.1`. An empty log does not replace an older one.
 */
export function rotateLogs(files: readonly string[]): void {
  for (const file of files) {
    try {
      if (statSync(file).size > 0) renameSync(file, `${file}.1`);
    } catch {}
  }
}

/**
 * Checks the size of files that other processes append to, until the returned function is called.
 * It copies and truncates a file that is too large, because its writer keeps it open.
 */
export function boundLogs(files: readonly string[]): () => void {
  const timer = setInterval(() => {
    for (const file of files) {
      try {
        if (statSync(file).size <= logBytesMax) continue;
        copyFileSync(file, `${file}.1`);
        truncateSync(file);
      } catch {}
    }
  }, checkEveryMs);
  return () => clearInterval(timer);
}
