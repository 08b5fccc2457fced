/** The announcements of worker slots, in one hash for each queue and protocol of jobs. */
import type { Keyspace } from "#service/keyspace.ts";
import { readableOf } from "#service/protocol.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { announcementLifeMs } from "../bounds.ts";
import type { QueueLoad, SlotAnnouncement, SlotBoard } from "../ports.ts";

/**
 * KEYS[1]: a queue's announcements, a hash of process name → "<slots> <running> <expiry, epoch ms>
 * <used slots> <lasting slots> <slots and tokens of keys>". ARGV: name, slots, running, lifetime in
 * ms, used slots, lasting slots, and for an ingress the slots and tokens of its keys. A process
 * without slots and running generations needs no announcement. Returns the fields of `QueueLoad` in
 * order, the last one only for an ingress. It writes at most some kilobytes, so it may run when
 * memory is full.
 */
const announceScript = scriptOf(
  `${redisClock}
local isNothing = ARGV[2] == "0" and ARGV[3] == "0"
if not isNothing then
  redis.call("HSET", KEYS[1], ARGV[1], ARGV[2] .. " " .. ARGV[3] .. " " .. (nowMs + ARGV[4]) .. " " .. ARGV[5] .. " " .. ARGV[6] .. " " .. (ARGV[7] or ""))
  redis.call("PEXPIRE", KEYS[1], ARGV[4] * 2)
end
local slots, used, lasting, workersBefore, slotsBefore, openWorkers, openLasting, running = 0, 0, 0, 0, 0, 0, 0, 0
local keySlots = {}
local all = redis.call("HGETALL", KEYS[1])
for at = 1, #all, 2 do
  local ownSlots, ownRunning, expiry, ownUsed, ownLasting, ownKeySlots =
    string.match(all[at + 1], "^(%d+) (%d+) (%d+) ?(%d*) ?(%d*) ?(.*)")
  if expiry == nil or tonumber(expiry) < nowMs or (isNothing and all[at] == ARGV[1]) then
    redis.call("HDEL", KEYS[1], all[at])
  else
    slots = slots + ownSlots
    ownUsed = tonumber(ownUsed) or 0
    ownLasting = tonumber(ownLasting) or ownUsed
    used = used + ownUsed
    lasting = lasting + ownLasting
    if all[at] < ARGV[1] and ownSlots ~= "0" then
      workersBefore = workersBefore + 1
      slotsBefore = slotsBefore + ownSlots
    end
    if all[at] ~= ARGV[1] then
      running = running + ownRunning
      if tonumber(ownSlots) > ownUsed then
        openWorkers = openWorkers + 1
        openLasting = openLasting + ownLasting
      end
      if ARGV[7] and ownKeySlots ~= "" then keySlots[#keySlots + 1] = ownKeySlots end
    end
  end
end
return { slots, used, lasting, workersBefore, slotsBefore, openWorkers, openLasting, running, keySlots }
`,
  "run",
);

export class RedisSlotBoard implements SlotBoard {
  readonly #redis: Redis;
  readonly #keyspace: Keyspace;
  readonly #self: string;
  /** Protocols of the jobs that the process runs, or adds. */
  readonly #protocols: readonly number[];

  /** `self` is the name of this process. A worker announces its slots for all jobs that it runs. */
  constructor(redis: Redis, keyspace: Keyspace, { self, role }: { self: string; role: "ingress" | "worker" }) {
    this.#redis = redis;
    this.#keyspace = keyspace;
    this.#self = self;
    this.#protocols = role === "worker" ? readableOf(keyspace.protocols) : [keyspace.protocols.current];
  }

  async announce(queue: string, announcement: SlotAnnouncement): Promise<QueueLoad> {
    const { slots, usedSlots, lastingSlots, running, lifeMs = announcementLifeMs, keySlots } = announcement;
    const values = [
      this.#self,
      slots,
      running,
      lifeMs,
      usedSlots,
      lastingSlots,
      ...(keySlots === undefined ? [] : [keySlots]),
    ];
    const [load] = await Promise.all(
      this.#protocols.map((protocol) =>
        runScript(this.#redis, announceScript, [this.#keyspace.queueSlots(queue, protocol)], values),
      ),
    );
    const [
      allSlots,
      allUsedSlots,
      allLastingSlots,
      workersBefore,
      slotsBefore,
      openWorkers,
      openLastingSlots,
      othersRunning,
      othersKeySlots,
    ] = load as [...number[], string[]];
    return {
      slots: allSlots,
      usedSlots: allUsedSlots,
      lastingSlots: allLastingSlots,
      workersBefore,
      slotsBefore,
      openWorkers,
      openLastingSlots,
      running: othersRunning,
      ...(keySlots !== undefined && { keySlots: othersKeySlots }),
    } as QueueLoad;
  }

  async withdraw(queue: string): Promise<void> {
    for (const protocol of this.#protocols)
      await this.#redis.hdel(this.#keyspace.queueSlots(queue, protocol), this.#self);
  }

  async hasOtherWorkers(queue: string): Promise<boolean> {
    const { current } = this.#keyspace.protocols;
    const others = [current - 1, current + 1].filter((protocol) => protocol > 0);
    const announcements = await Promise.all(
      others.map((protocol) => this.#redis.hvals(this.#keyspace.queueSlots(queue, protocol))),
    );
    return announcements.flat().some((announcement) => !announcement.startsWith("0 "));
  }
}
