/** Counts requests by name, for faults that affect only the first few. */

const namesMax = 10_000;

export interface Series {
  /** The number of this request among those of its name, from 1. */
  next(name: string): number;
  reset(): void;
}

/** Remembers the most recent names, up to a bound. */
export function createSeries(): Series {
  const counts = new Map<string, number>();
  return {
    next(name) {
      const count = (counts.get(name) ?? 0) + 1;
      counts.delete(name);
      counts.set(name, count);
      const oldest = counts.keys().next().value;
      if (counts.size > namesMax && oldest !== undefined) counts.delete(oldest);
      return count;
    },
    reset: () => counts.clear(),
  };
}
