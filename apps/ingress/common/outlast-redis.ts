/**
 * Requests outlast short absences of Redis: a command that fails is repeated. Generations wait in
 * generation/lifecycle.ts.
 */
import { setTimeout } from "node:timers/promises";
import type { Clock } from "#service/clock.ts";
import { isRefusal } from "#service/redis.ts";
import { redisTryEveryMs } from "./bounds.ts";
import { RedisUnavailable } from "./failures.ts";

export interface RedisWait {
  clock: Clock;
  /** How long a request waits while Redis is away. */
  redisWaitMs: number;
}

/**
 * Repeats a command while Redis is away. `isRepeated`: an earlier call failed, but Redis may have
 * done what it asked. `isWanted`: whether anybody still needs the result. Rejects with
 * RedisUnavailable when Redis refuses the command or is away for too long, or nobody does.
 */
export async function outlastRedis<Result>(
  { clock, redisWaitMs }: RedisWait,
  command: (isRepeated: boolean) => Promise<Result>,
  isWanted: () => boolean = () => true,
): Promise<Result> {
  const until = clock.now() + redisWaitMs;
  for (let isRepeated = false; ; isRepeated = true)
    try {
      return await command(isRepeated);
    } catch (error) {
      if (isRefusal(error) || clock.now() >= until || !isWanted()) throw new RedisUnavailable();
      await setTimeout(redisTryEveryMs);
    }
}
