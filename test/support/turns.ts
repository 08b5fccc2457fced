/**
 * Measures in a process, which loads this before all else, how long the processor works for one
 * turn of its event loop: whatever else runs on the machine does not count. It begins at the
 * message `{type: "measure"}` and tells at `{type: "measured"}`.
 */
import { isMainThread } from "node:worker_threads";

const workMs = (): number => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};

if (isMainThread && process.send !== undefined) {
  let longestMs = 0;
  let before = 0;
  let isMeasuring = false;
  const turn = () => {
    const now = workMs();
    longestMs = Math.max(longestMs, now - before);
    before = now;
    if (isMeasuring) setImmediate(turn);
  };
  process.on("message", ({ type }: { type: string }) => {
    if (type === "measure") {
      isMeasuring = true;
      longestMs = 0;
      before = workMs();
      setImmediate(turn);
    } else if (type === "measured") {
      isMeasuring = false;
      process.send?.({ type: "turns", longestMs });
    }
  });
}
