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
  /** Those of them that it has. */
  held: number;
  /** Generations that run for an ingress. */
  running: number;
}

export interface QueueLoad {
  /** Of all workers. */
  slots: number;
  held: number;
  /** The slots of the workers whose names come before this one's. */
  slotsBefore: number;
  /** What runs for other processes. */
  running: number;
}

/**
 * KEYS[1]: a queue's announcements, a hash of process name → "<slots> <running> <expiry, epoch ms> <held>". ARGV: name, slots, running, lifetime in ms, held. Returns
 * the fields of `QueueLoad` in order. It writes little, so it may run when memory is full.
 */
const announceScript = scriptOf(
  `${redisClock}
redis.call("HSET", KEYS[1], ARGV[1], ARGV[2] .. " " .. ARGV[3] .. " " .. (nowMs + ARGV[4]) .. " " .. ARGV[5])
redis.call("PEXPIRE", KEYS[1], ARGV[4] * 2)
local slots, held, before, running = 0, 0, 0, 0
local all = redis.call("HGETALL", KEYS[1])
for at = 1, #all, 2 do
  local ownSlots, ownRunning, expiry, ownHeld = string.match(all[at + 1], "^(%d+) (%d+) (%d+) ?(%d*)")
  if expiry == nil or tonumber(expiry) < nowMs then
    redis.call("HDEL", KEYS[1], all[at])
  else
    slots = slots + ownSlots
    held = held + (tonumber(ownHeld) or 0)
    if all[at] < ARGV[1] then before = before + ownSlots end
    if all[at] ~= ARGV[1] then running = running + ownRunning end
  end
end
return { slots, held, before, running }
`,
  "run",
);

/** Announces for the process `name`. Resolves with the load of the queue. Rejects if Redis does not answer. */
export async function announce(
  redis: Redis,
  key: string,
  name: string,
  { slots, held, running }: Announced,
): Promise<QueueLoad> {
  const [allSlots, allHeld, slotsBefore, othersRunning] = (await runScript(
    redis,
    announceScript,
    [key],
    [name, slots, running, announcementLifeMs, held],
  )) as [number, number, number, number];
  return { slots: allSlots, held: allHeld, slotsBefore, running: othersRunning };
}

/** Withdraws the announcement of a process that stops. Rejects if Redis does not answer. */
export async function withdraw(redis: Redis, key: string, name: string): Promise<void> {
  await redis.hdel(key, name);
}
