import { randomFrom } from "../../support/random.ts";

/** Random choices that a seed determines, so that a run can be repeated. */
export interface Random {
  /** From 0 up to, but without, 1. */
  next(): number;
  /** From `min` to `max`. */
  integer(min: number, max: number): number;
  /** Throws for an empty list. */
  pick<Value>(values: readonly Value[]): Value;
}

export function randomOf(seed: number): Random {
  const next = randomFrom(seed);
  return {
    next,
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    pick(values) {
      if (values.length === 0) throw new Error("nothing to pick from");
      return values[Math.floor(next() * values.length)] as never;
    },
  };
}
