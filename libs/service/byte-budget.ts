/**
 * Bounds the bytes that a process sends to callers without a key. One answer may exceed the budget;
 * those after it wait until it is paid off.
 */
export class ByteBudget {
  readonly #perSecond: number;
  #left: number;
  #at = Number.NEGATIVE_INFINITY;

  constructor(bytesPerSecond: number) {
    this.#perSecond = bytesPerSecond;
    this.#left = bytesPerSecond;
  }

  /**
   * Milliseconds until the next answer may be sent; 0 if this one may, and its bytes are then
   * charged. `now` is in milliseconds.
   */
  waitFor(bytes: number, now: number): number {
    const since = Math.max(0, now - this.#at);
    this.#left = Math.min(this.#perSecond, this.#left + (since * this.#perSecond) / 1_000);
    this.#at = now;
    if (this.#left <= 0) return Math.ceil((-this.#left / this.#perSecond) * 1_000) + 1;
    this.#left -= bytes;
    return 0;
  }
}
