/** Steps that Redis takes at once, in Lua: sent by their text the first time, and by its hash from then on. */
import { createHash } from "node:crypto";
import type { Redis } from "./redis.ts";

/** The beginning of a script that goes by Redis' clock: `time`, as Redis has it, and `nowMs` in epoch milliseconds. */
export const redisClock = `
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)`;

interface Script {
  readonly text: string;
  readonly hash: string;
}

/**
 * What a Redis whose memory is full does with a script (https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags). `refuse`: it is refused as a
 * whole. `run`: it may write, so it must write little. Without either, it runs up to its first command that needs memory and stops there.
 */
type WhenFull = "refuse" | "run";

const firstLines: Record<WhenFull, string> = { refuse: "#!lua\n", run: "#!lua flags=allow-oom\n" };

export function scriptOf(body: string, whenFull?: WhenFull): Script {
  const text = whenFull === undefined ? body : `${firstLines[whenFull]}${body}`;
  return { text, hash: createHash("sha1").update(text).digest("hex") };
}

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
