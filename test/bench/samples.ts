const samplesMax = 4_000_000;

/** Samples of a window, in microseconds. */
export class Samples {
  #values = new Float64Array(65_536);
  #count = 0;

  add(value: number): void {
    if (this.#count === this.#values.length) {
      if (this.#count >= samplesMax) return;
      const larger = new Float64Array(this.#count * 2);
      larger.set(this.#values);
      this.#values = larger;
    }
    this.#values[this.#count++] = value;
  }

  /** In milliseconds; NaN without samples. */
  percentile(share: number): number {
    const ascending = this.#values.subarray(0, this.#count).sort();
    return (ascending[Math.min(this.#count - 1, Math.floor(this.#count * share))] ?? Number.NaN) / 1_000;
  }
}
