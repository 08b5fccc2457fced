/** The time as a process sees it. Tests pass a clock of their own. */

export interface Clock {
  /** Milliseconds, monotonic. */
  now(): number;
  /** Epoch milliseconds. */
  epoch(): number;
}

export const systemClock: Clock = { now: () => performance.now(), epoch: () => Date.now() };
