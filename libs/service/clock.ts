/** The clock that a process measures time with. A test passes its own. */
export interface Clock {
  /** Milliseconds since an arbitrary moment. Never goes back. */
  now(): number;
}

export const systemClock: Clock = { now: () => performance.now() };
