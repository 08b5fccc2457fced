/**
 * A unit vector for a text, the same for the same text. A shorter vector is the beginning of a
 * longer one, normalised again.
 */
import { hash } from "node:crypto";

export function vectorOf(text: string, dimensions: number): Float32Array {
  let state = Number.parseInt(hash("sha256", text).slice(0, 8), 16);
  const values = Float64Array.from({ length: dimensions }, () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 31 - 1;
  });
  const length = Math.hypot(...values) || 1;
  return Float32Array.from(values, (value) => value / length);
}
