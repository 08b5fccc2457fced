/**
 * The system's clock, corrected by Redis' clock where the two differ by a second or more: processes
 * share their budgets, periods and leases, so one whose clock is off must not count today's usage
 * in another day.
 */
import { clockCheckMs, clockDifferenceMs } from "./bounds.ts";
import type { Clock } from "./clock.ts";
import type { Redis } from "./redis.ts";

export class SharedClock implements Clock {
  readonly #own: Clock;
  /** Milliseconds that Redis' clock is ahead. */
  #offsetMs = 0;

  constructor(own: Clock) {
    this.#own = own;
  }

  now(): number {
    return this.#own.now();
  }

  epoch(): number {
    return this.#own.epoch() + this.#offsetMs;
  }

  /**
   * Compares the clocks, now and then every ten seconds. While Redis does not answer, the last
   * difference stays. The returned function stops it.
   */
  async follow(redis: Pick<Redis, "time">): Promise<() => void> {
    await this.#compare(redis);
    const timer = setInterval(() => void this.#compare(redis), clockCheckMs);
    return () => clearInterval(timer);
  }

  /** Never rejects. */
  async #compare(redis: Pick<Redis, "time">): Promise<void> {
    const [startedAt, before] = [this.#own.now(), this.#own.epoch()];
    const shared = await redisEpoch(redis).catch(() => undefined);
    const tookMs = this.#own.now() - startedAt;
    if (shared === undefined) return;
    const difference = Math.round(shared - (before + tookMs / 2));
    // An answer that took long says less.
    this.#offsetMs = Math.abs(difference) < clockDifferenceMs + tookMs ? 0 : difference;
  }
}

/** Redis' time in epoch milliseconds. Rejects when Redis does not answer. */
export async function redisEpoch(redis: Pick<Redis, "time">): Promise<number> {
  const [seconds = 0, microseconds = 0] = (await redis.time()).map(Number);
  return seconds * 1_000 + microseconds / 1_000;
}
