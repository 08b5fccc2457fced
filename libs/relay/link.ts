/**
 * The state of this process's own link to Redis: it is up while the process receives its own
 * heartbeats. A process may only declare another one dead if its own link was up during the whole
 * silence, because otherwise the silence may be its own.
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

  /** Whether own heartbeats arrive. Two may be late. */
  isUp(now: number): boolean {
    return now - this.#heardAt <= 2.5 * this.#limits.heartbeatMs;
  }

  /** Whether own heartbeats have been missing for so long that all generations are given up. */
  isLost(now: number): boolean {
    return now - this.#heardAt > this.#limits.downMs;
  }

  /** Whether nothing arrived since `since` for the whole grace time, while the link was up. */
  isSilentSince(since: number, now: number): boolean {
    return this.isUp(now) && now - Math.max(since, this.#unbrokenSince) > this.#limits.graceMs;
  }
}
