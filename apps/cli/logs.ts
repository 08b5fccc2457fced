/** Keeps the logs under `.sluice/log` bounded: one earlier file of each, and none beyond a size. */
import { copyFileSync, renameSync, statSync, truncateSync } from "node:fs";

const logBytesMax = 64 * 1024 * 1024;
const lookEveryMs = 10_000;

/** Puts what an earlier run wrote aside, in place of what was put aside before it; a run that wrote nothing replaces nothing. */
export function rotateLogs(files: readonly string[]): void {
  for (const file of files) {
    try {
      if (statSync(file).size > 0) renameSync(file, `${file}.1`);
    } catch {}
  }
}

/** Watches the files, which others append to, until it is called off. A file over its size is put aside by copying, for its writer has it open. */
export function boundLogs(files: readonly string[]): () => void {
  const timer = setInterval(() => {
    for (const file of files) {
      try {
        if (statSync(file).size <= logBytesMax) continue;
        copyFileSync(file, `${file}.1`);
        truncateSync(file);
      } catch {}
    }
  }, lookEveryMs);
  return () => clearInterval(timer);
}
