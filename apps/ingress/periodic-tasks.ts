/** Runs everything that an ingress does at an interval. */
import type { Clock } from "#service/clock.ts";

export interface PeriodicTask {
  readonly everyMs: number;
  /** `now` is the clock's time. Must not throw. */
  run(now: number): unknown;
}

/**
 * Runs each task at its interval, first after one interval. The returned function stops all of
 * them.
 */
export function startPeriodicTasks(clock: Clock, tasks: readonly PeriodicTask[]): () => void {
  const timers = tasks.map((task) => setInterval(() => task.run(clock.now()), task.everyMs));
  return () => {
    for (const timer of timers) clearInterval(timer);
  };
}
