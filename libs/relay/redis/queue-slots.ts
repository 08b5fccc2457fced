/**
 * How many places a queue has, and how many of them are taken: every worker announces what it has, every ingress what it runs, once a second.
 * An announcement lapses with its process.
 */
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";

/** A process that has announced nothing for this long is gone. */
const lapseMs = 5_000;

/** What one process says of a queue. */
export interface Announced {
  /** Generations that it takes at once: a worker's. */
  slots: number;
  /** Generations that run for it: an ingress'. */
  running: number;
}

/**
 * KEYS[1] a queue's announcements: a hash of the process' name → "<places> <running> <when it lapses, ms>". ARGV name, places, running, lapse in ms.
 * Returns the places of all, and what runs for the others. It is small, so it may run when memory is full.
 */
const announceScript = scriptOf(
  `${redisClock}
redis.call("HSET", KEYS[1], ARGV[1], ARGV[2] .. " " .. ARGV[3] .. " " .. (nowMs + ARGV[4]))
redis.call("PEXPIRE", KEYS[1], ARGV[4] * 2)
local places, running = 0, 0
local all = redis.call("HGETALL", KEYS[1])
for at = 1, #all, 2 do
  local itsPlaces, itsRunning, lapses = string.match(all[at + 1], "^(%d+) (%d+) (%d+)")
  if lapses == nil or tonumber(lapses) < nowMs then
    redis.call("HDEL", KEYS[1], all[at])
  else
    places = places + itsPlaces
    if all[at] ~= ARGV[1] then running = running + itsRunning end
  end
end
return { places, running }
`,
  "run",
);

/** Announces for the process `name` at `key`; resolves with the places of all workers, and with what runs for other processes. Rejects when Redis does not answer. */
export async function announce(
  redis: Redis,
  key: string,
  name: string,
  { slots, running }: Announced,
): Promise<Announced> {
  const [allPlaces, othersRunning] = (await runScript(
    redis,
    announceScript,
    [key],
    [name, slots, running, lapseMs],
  )) as [number, number];
  return { slots: allPlaces, running: othersRunning };
}

/** Takes the announcement back: the process is about to stop. Rejects when Redis does not answer. */
export async function withdraw(redis: Redis, key: string, name: string): Promise<void> {
  await redis.hdel(key, name);
}
