/** Steps that Redis takes at once, in Lua: sent by their text the first time, and by its hash from then on. */
import { createHash } from "node:crypto";
import type { Redis } from "ioredis";

/** The beginning of a script that goes by Redis' clock: `time`, as Redis has it, and `nowMs` in epoch milliseconds. */
export const redisClock = `
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)`;

interface Script {
  readonly text: string;
  readonly hash: string;
}

export const scriptOf = (text: string): Script => ({ text, hash: createHash("sha1").update(text).digest("hex") });

/** What Redis was told over a connection, and should know. */
const told = new WeakMap<Redis, Set<string>>();

/** One round trip, unless Redis forgot its scripts. Rejects when Redis does not answer; whether the script ran is unknown then. */
export async function runScript(
  redis: Redis,
  { text, hash }: Script,
  keys: readonly string[],
  values: readonly (string | number | Buffer)[],
): Promise<unknown> {
  const known = told.get(redis) ?? new Set();
  if (!known.has(hash)) {
    told.set(redis, known.add(hash));
    return redis.eval(text, keys.length, ...keys, ...values);
  }
  try {
    return await redis.evalsha(hash, keys.length, ...keys, ...values);
  } catch (error) {
    if (!(error as Error).message.startsWith("NOSCRIPT")) throw error;
    return redis.eval(text, keys.length, ...keys, ...values);
  }
}
