/** Checks whether Redis has memory for data that is stored only as a service to callers. */
import type { Clock } from "#service/clock.ts";
import { type Redis, usedMemoryShare } from "#service/redis.ts";
import { redisMemoryAgeMsMax, redisMemoryShareMax } from "./bounds.ts";

export class RedisSpace {
  readonly #redis: Redis;
  readonly #clock: Clock;
  #read: { at: number; hasSpace: Promise<boolean> } | undefined;

  constructor(redis: Redis, clock: Clock) {
    this.#redis = redis;
    this.#clock = clock;
  }

  /** Rejects when Redis does not answer. */
  async hasSpace(): Promise<boolean> {
    const now = this.#clock.now();
    if (this.#read === undefined || now - this.#read.at > redisMemoryAgeMsMax)
      this.#read = { at: now, hasSpace: usedMemoryShare(this.#redis).then((share) => share <= redisMemoryShareMax) };
    const read = this.#read;
    try {
      return await read.hasSpace;
    } catch (error) {
      if (this.#read === read) this.#read = undefined;
      throw error;
    }
  }
}
