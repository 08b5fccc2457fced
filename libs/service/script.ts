/** Lua scripts. Each connection sends a script's text once, and its hash afterwards. */
import { createHash } from "node:crypto";
import type { Redis } from "./redis.ts";

/**
 * The first lines of a script that uses Redis' clock: `time`, as Redis returns it, and `nowMs` in
 * epoch milliseconds.
 */
export const redisClock = `
local time = redis.call("TIME")
local nowMs = time[1] * 1000 + math.floor(time[2] / 1000)`;

interface Script {
  readonly text: string;
  readonly hash: string;
}

/**
 * How Redis treats a script while its memory is full
 * (https://redis.io/docs/latest/develop/programmability/lua-api/#script_flags). `refuse`: it does
 * not run the script. `run`: the script may write, so it must write little. Without a value the
 * script stops at its first command that needs memory.
 */
type WhenFull = "refuse" | "run";

const firstLines: Record<WhenFull, string> = { refuse: "#!lua\n", run: "#!lua flags=allow-oom\n" };

export function scriptOf(body: string, whenFull?: WhenFull): Script {
  const text = whenFull === undefined ? body : `${firstLines[whenFull]}${body}`;
  return { text, hash: createHash("sha1").update(text).digest("hex") };
}

/** The hashes of the scripts that each connection has sent. */
const sent = new WeakMap<Redis, Set<string>>();

/**
 * One round trip, or two if Redis lost its scripts: commands that were sent later then overtake it,
 * so with `isOrdered` it rejects instead. After a time-out it is unknown whether the script ran.
 */
export async function runScript(
  redis: Redis,
  { text, hash }: Script,
  keys: readonly string[],
  values: readonly (string | number | Buffer)[],
  isOrdered = false,
): Promise<unknown> {
  const sentScripts = sent.get(redis) ?? new Set();
  if (!sentScripts.has(hash)) {
    sent.set(redis, sentScripts.add(hash));
    return redis.eval(text, keys.length, ...keys, ...values);
  }
  try {
    return await redis.evalsha(hash, keys.length, ...keys, ...values);
  } catch (error) {
    if (isOrdered || !(error as Error).message.startsWith("NOSCRIPT")) throw error;
    return redis.eval(text, keys.length, ...keys, ...values);
  }
}
