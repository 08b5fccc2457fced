/**
 * The lines that a process has under way. Their number falls when ingresses or workers are busy,
 * and grows again with each answered line, so batches take the capacity that others leave.
 */
import type { Clock } from "#service/clock.ts";

export class LineSlots {
  readonly #max: number;
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #limit: number;
  #reducedAt = Number.NEGATIVE_INFINITY;
  taken = 0;

  constructor(max: number, clock: Clock) {
    this.#max = max;
    this.#clock = clock;
    this.#limit = Math.min(max, firstLimit);
  }

  get limit(): number {
    return this.#limit;
  }

  /** In the order of the calls. */
  async take(): Promise<void> {
    if (this.taken + this.#waiting.length < this.#limit) this.taken++;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }

  free(): void {
    this.taken--;
    this.#admit();
  }

  answered(): void {
    this.#limit = Math.min(this.#max, this.#limit + 1 / this.#limit);
    this.#admit();
  }

  /**
   * Leaves this share of them, and no fewer than `least`. At most once a second: lines that began
   * before the reduction are refused too.
   */
  reduce(share = 0.5, least = 1): void {
    const now = this.#clock.now();
    if (now - this.#reducedAt < reducedEveryMs) return;
    this.#reducedAt = now;
    this.#limit = Math.min(this.#limit, Math.max(least, this.#limit * share));
  }

  #admit(): void {
    while (this.taken < this.#limit && this.#waiting.length > 0) {
      this.taken++;
      this.#waiting.shift()?.();
    }
  }
}

const firstLimit = 16;
const reducedEveryMs = 1_000;
