/**
 * Limits how many calls an upstream gets at once from all workers together, by leases in Redis that
 * expire when their worker dies.
 */
import { leaseMs, renewEveryMsOf } from "#service/lease.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";

/**
 * KEYS[1] an upstream's slots, a sorted set of holders by the end of their lease. ARGV holder,
 * slots at most, lease in ms. Returns 1 when the holder has a slot now, else 0. Atomic: expired
 * leases are removed in the same step.
 */
const takeScript = scriptOf(`${redisClock}
redis.call("ZREMRANGEBYSCORE", KEYS[1], "-inf", nowMs)
if redis.call("ZCARD", KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call("ZADD", KEYS[1], nowMs + ARGV[3], ARGV[1])
redis.call("PEXPIRE", KEYS[1], ARGV[3] * 2)
return 1
`);

/**
 * KEYS[1] an upstream's slots. ARGV lease in ms, then holders. Extends their leases, also those
 * that expired a moment ago.
 */
const renewScript = scriptOf(`${redisClock}
for index = 2, #ARGV do redis.call("ZADD", KEYS[1], nowMs + ARGV[1], ARGV[index]) end
redis.call("PEXPIRE", KEYS[1], ARGV[1] * 2)
return 1
`);

export class Slots {
  readonly #redis: Redis;
  readonly #keyOf: (upstream: string) => string;
  readonly #holders = new Map<string, Set<string>>();
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: Redis, keyOf: (upstream: string) => string) {
    this.#redis = redis;
    this.#keyOf = keyOf;
  }

  start(): void {
    this.#timer = setInterval(() => this.#renew(), renewEveryMsOf(leaseMs));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /**
   * Takes one of `max` slots, and returns whether there was one. Without Redis nothing is counted,
   * and the call may be made.
   */
  async take(upstream: string, holder: string, max: number): Promise<boolean> {
    try {
      const taken = (await runScript(this.#redis, takeScript, [this.#keyOf(upstream)], [holder, max, leaseMs])) === 1;
      if (taken) this.#holdersOf(upstream).add(holder);
      return taken;
    } catch {
      return true;
    }
  }

  release(upstream: string, holder: string): void {
    if (this.#holders.get(upstream)?.delete(holder) === true)
      this.#redis.zrem(this.#keyOf(upstream), holder).catch(() => undefined);
  }

  /** How many slots this worker has, by upstream. */
  taken(): Record<string, number> {
    return Object.fromEntries([...this.#holders].map(([upstream, holders]) => [upstream, holders.size]));
  }

  #holdersOf(upstream: string): Set<string> {
    const holders = this.#holders.get(upstream) ?? new Set();
    this.#holders.set(upstream, holders);
    return holders;
  }

  #renew(): void {
    for (const [upstream, holders] of this.#holders)
      if (holders.size > 0)
        runScript(this.#redis, renewScript, [this.#keyOf(upstream)], [leaseMs, ...holders]).catch(() => undefined);
  }
}
