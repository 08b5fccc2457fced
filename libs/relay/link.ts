/**
 * A process's own link to Redis, judged by whether it hears its own heartbeats. Nobody is called gone by a process that did not hear
 * itself throughout the time it judges by: the silence may be its own.
 */
import type { RelayBounds } from "./bounds.ts";

export class Link {
  readonly #limits: RelayBounds;
  #heardAt: number;
  #unbrokenSince: number;

  constructor(limits: RelayBounds, now: number) {
    this.#limits = limits;
    this.#heardAt = now;
    this.#unbrokenSince = now;
  }

  heardSelf(now: number): void {
    if (!this.isUp(now)) this.#unbrokenSince = now;
    this.#heardAt = now;
  }

  /** Own heartbeats arrive: two may be late, a third may not. */
  isUp(now: number): boolean {
    return now - this.#heardAt <= 2.5 * this.#limits.heartbeatMs;
  }

  /** Own heartbeats have been missing for too long to hold on to anything. */
  isLost(now: number): boolean {
    return now - this.#heardAt > this.#limits.downMs;
  }

  /** Was there nothing to hear since `since`, for the whole grace time, over a sound link? */
  isSilentSince(since: number, now: number): boolean {
    return this.isUp(now) && now - Math.max(since, this.#unbrokenSince) > this.#limits.graceMs;
  }
}
