/** Runs everything that an ingress does at an interval. */
import type { Clock } from "#service/clock.ts";

export type PeriodicTask = readonly [everyMs: number, run: (now: number) => unknown];

/**
 * Runs each task at its interval, first after one interval. The returned function stops all of
 * them.
 */
export function startPeriodicTasks(clock: Clock, tasks: readonly PeriodicTask[]): () => void {
  const timers = tasks.map(([everyMs, run]) => setInterval(() => run(clock.now()), everyMs));
  return () => {
    for (const timer of timers) clearInterval(timer);
  };
}
