/** Whether Redis has memory for what it only stores as a service to callers. */
import type { Clock } from "#service/clock.ts";
import { type Redis, usedMemoryShare } from "#service/redis.ts";

/** Nothing is stored while Redis uses more than this share of its memory; the number may be this old. */
const memoryShareMax = 0.5;
const memoryAgeMsMax = 1_000;

export class RedisSpace {
  readonly #redis: Redis;
  readonly #clock: Clock;
  #read: { at: number; hasSpace: Promise<boolean> } | undefined;

  constructor(redis: Redis, clock: Clock) {
    this.#redis = redis;
    this.#clock = clock;
  }

  /** False also when Redis does not answer. */
  hasSpace(): Promise<boolean> {
    const now = this.#clock.now();
    if (this.#read === undefined || now - this.#read.at > memoryAgeMsMax) {
      const hasSpace = usedMemoryShare(this.#redis).then(
        (share) => share <= memoryShareMax,
        () => false,
      );
      this.#read = { at: now, hasSpace };
    }
    return this.#read.hasSpace;
  }
}
