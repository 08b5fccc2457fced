/**
 * The number of worker slots of a queue and how many are in use. Every worker announces its slots and every ingress its running generations, once a second.
 * An announcement expires if its process stops renewing it.
 */

import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { announcementLifeMs } from "../bounds.ts";

/** What one process announces about a queue. */
export interface Announced {
  /** Concurrent generations that a worker takes. */
  slots: number;
  /** Generations that run for an ingress. */
  running: number;
}

/**
 * KEYS[1]: a queue's announcements, a hash of process name → "<slots> <running> <expiry, epoch ms>". ARGV: name, slots, running, lifetime in ms.
 * Returns the slots of all processes and what runs for the other processes. It writes little, so it may run when memory is full.
 */
const announceScript = scriptOf(
  `${redisClock}
redis.call("HSET", KEYS[1], ARGV[1], ARGV[2] .. " " .. ARGV[3] .. " " .. (nowMs + ARGV[4]))
redis.call("PEXPIRE", KEYS[1], ARGV[4] * 2)
local slots, running = 0, 0
local all = redis.call("HGETALL", KEYS[1])
for at = 1, #all, 2 do
  local ownSlots, ownRunning, expiry = string.match(all[at + 1], "^(%d+) (%d+) (%d+)")
  if expiry == nil or tonumber(expiry) < nowMs then
    redis.call("HDEL", KEYS[1], all[at])
  else
    slots = slots + ownSlots
    if all[at] ~= ARGV[1] then running = running + ownRunning end
  end
end
return { slots, running }
`,
  "run",
);

/** Announces for the process `name`. Resolves with the slots of all workers and with what runs for other processes. Rejects if Redis does not answer. */
export async function announce(
  redis: Redis,
  key: string,
  name: string,
  { slots, running }: Announced,
): Promise<Announced> {
  const [allSlots, othersRunning] = (await runScript(
    redis,
    announceScript,
    [key],
    [name, slots, running, announcementLifeMs],
  )) as [number, number];
  return { slots: allSlots, running: othersRunning };
}

/** Withdraws the announcement of a process that stops. Rejects if Redis does not answer. */
export async function withdraw(redis: Redis, key: string, name: string): Promise<void> {
  await redis.hdel(key, name);
}
