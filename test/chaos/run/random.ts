/** Random numbers that a seed determines (mulberry32), so that a run can be repeated. */
export interface Random {
  /** From 0 up to, but without, 1. */
  next(): number;
  /** From `min` to `max`. */
  integer(min: number, max: number): number;
  /** Throws for an empty list. */
  pick<Value>(values: readonly Value[]): Value;
}

export function randomOf(seed: number): Random {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
  return {
    next,
    integer: (min, max) => min + Math.floor(next() * (max - min + 1)),
    pick(values) {
      if (values.length === 0) throw new Error("nothing to pick from");
      return values[Math.floor(next() * values.length)] as never;
    },
  };
}
