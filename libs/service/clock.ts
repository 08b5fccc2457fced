/** The clock that a process measures time with. A test passes its own. */
export interface Clock {
  /** Milliseconds since an arbitrary moment. Never goes back. */
  now(): number;
  /** Milliseconds since 1970. Follows the system's clock, so it may jump. */
  epoch(): number;
}

export const systemClock: Clock = { now: () => performance.now(), epoch: () => Date.now() };
