/** Checks whether Redis has memory for data that is stored only as a service to callers. */
import type { Clock } from "#service/clock.ts";
import { type Redis, usedMemoryShare } from "#service/redis.ts";
import { redisMemoryAgeMsMax, redisMemoryShareMax } from "../bounds.ts";

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
    if (this.#read === undefined || now - this.#read.at > redisMemoryAgeMsMax) {
      const hasSpace = usedMemoryShare(this.#redis).then(
        (share) => share <= redisMemoryShareMax,
        () => false,
      );
      this.#read = { at: now, hasSpace };
    }
    return this.#read.hasSpace;
  }
}
