/**
 * The dispatch of jobs by two scripts of our own, in BullMQ's keys and with BullMQ's meaning:
 * BullMQ lists, counts and removes these jobs like any others, and puts back those of a dead
 * worker. Its own scripts take one job at a time and report every step on an event stream, which
 * costs most of a short request. test/libs/relay/redis/bullmq-internals.test.ts compares both.
 */
import { systemClock } from "#service/clock.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { jobLockMs } from "../bounds.ts";
import { reserveMarker } from "./bullmq-internals.ts";

const jobName = "generation";
const priority = 1;
/** As BullMQ keeps a job's options: it removes the job when it ends, whatever ends it. */
const jobOptions = JSON.stringify({ attempts: 1, priority, removeOnComplete: true, removeOnFail: true });

/** BullMQ's order of prioritized jobs: by priority, then by a counter of 32 bits. */
const priorityScore = priority * 2 ** 32;

/**
 * KEYS: prioritized, marker, pc, meta. ARGV: the prefix of jobs' keys, epoch ms, then an id and
 * data for each job. A job that is on the queue already stays as it is. The marker wakes a blocked
 * fetch.
 */
const addScript = scriptOf(
  `
local count = redis.call("INCRBY", KEYS[3], #ARGV / 2 - 1)
for at = 3, #ARGV, 2 do
  local key = ARGV[1] .. ARGV[at]
  if redis.call("EXISTS", key) == 0 then
    redis.call("HSET", key, "name", "${jobName}", "data", ARGV[at + 1], "opts", '${jobOptions}',
      "timestamp", ARGV[2], "delay", 0, "priority", ${priority})
    redis.call("ZADD", KEYS[1], ${priorityScore} + (count - (#ARGV - at - 1) / 2) % ${2 ** 32}, ARGV[at])
  end
end
if redis.call("HEXISTS", KEYS[4], "paused") == 0 then redis.call("ZADD", KEYS[2], 0, "0") end`,
  "refuse",
);

/**
 * KEYS: wait, prioritized, active, marker, pc, meta, stalled, reserve. ARGV: the prefix of jobs'
 * keys, epoch ms, the lock's token, its life in ms, the most jobs, 1 if the rest also wakes a
 * worker in reserve (0 otherwise), then the ids of jobs that are over. Returns 1 if no job waits (0
 * otherwise), then id, data and 1 for a job whose worker died (0 otherwise) of each job. Jobs that
 * BullMQ put back are on the waiting list. It frees more memory than it takes, so it may run when
 * memory is full.
 */
const fetchScript = scriptOf(
  `
for at = 7, #ARGV do
  local key = ARGV[1] .. ARGV[at]
  redis.call("DEL", key, key .. ":lock")
  redis.call("LREM", KEYS[3], -1, ARGV[at])
  redis.call("SREM", KEYS[7], ARGV[at])
end
local reply = { 0 }
local fetched, waiting = 0, redis.call("ZCARD", KEYS[2])
local listed = redis.call("LLEN", KEYS[1])
local mayFetch = tonumber(ARGV[5])
if waiting + listed > 0 and redis.call("HEXISTS", KEYS[6], "paused") == 1 then return { 1 } end
while fetched < mayFetch and waiting + listed > 0 do
  local id
  if listed > 0 then
    id = redis.call("RPOP", KEYS[1])
    listed = listed - 1
  else
    id = redis.call("ZPOPMIN", KEYS[2])[1]
    waiting = waiting - 1
  end
  local key = ARGV[1] .. id
  local fields = redis.call("HMGET", key, "data", "defa")
  if fields[1] then
    redis.call("LPUSH", KEYS[3], id)
    redis.call("SET", key .. ":lock", ARGV[3], "PX", ARGV[4])
    redis.call("HSET", key, "processedOn", ARGV[2])
    reply[#reply + 1] = id
    reply[#reply + 1] = fields[1]
    reply[#reply + 1] = fields[2] and 1 or 0
    fetched = fetched + 1
  end
end
if waiting + listed > 0 then
  redis.call("ZADD", KEYS[4], 0, "0")
  if ARGV[6] == "1" then redis.call("ZADD", KEYS[8], 0, "0") end
else
  reply[1] = 1
  redis.call("DEL", KEYS[4], KEYS[5], KEYS[8])
end
return reply`,
  "run",
);

/**
 * KEYS: wait, prioritized, marker, reserve, meta. Wakes the workers if jobs wait, those in reserve
 * too; returns 1 then, otherwise 0.
 */
const wakeScript = scriptOf(
  `
if redis.call("EXISTS", KEYS[1], KEYS[2]) == 0 or redis.call("HEXISTS", KEYS[5], "paused") == 1 then return 0 end
redis.call("ZADD", KEYS[3], 0, "0")
redis.call("ZADD", KEYS[4], 0, "0")
return 1`,
  "run",
);

export interface QueuedJobText {
  id: string;
  /** JSON. */
  data: string;
}

export interface FetchedJob extends QueuedJobText {
  /** Its worker died, and BullMQ put it back. */
  isAbandoned: boolean;
}

export interface Fetched {
  jobs: FetchedJob[];
  /** No further job waits, and the marker is gone. */
  isDrained: boolean;
}

/** A BullMQ queue, or a worker of one. */
interface BullmqKeys {
  toKey(name: string): string;
}

const keysOf = (queue: BullmqKeys, names: readonly string[]): string[] => names.map((name) => queue.toKey(name));

export class JobScripts {
  readonly #redis: Redis;
  readonly #prefix: string;
  readonly #addKeys: readonly string[];
  readonly #fetchKeys: readonly string[];
  readonly #wakeKeys: readonly string[];
  readonly #waitingKeys: readonly string[];

  constructor(queue: BullmqKeys, redis: Redis) {
    this.#redis = redis;
    this.#prefix = queue.toKey("");
    this.#addKeys = keysOf(queue, ["prioritized", "marker", "pc", "meta"]);
    this.#fetchKeys = keysOf(queue, [
      "wait",
      "prioritized",
      "active",
      "marker",
      "pc",
      "meta",
      "stalled",
      reserveMarker,
    ]);
    this.#wakeKeys = keysOf(queue, ["wait", "prioritized", "marker", reserveMarker, "meta"]);
    this.#waitingKeys = keysOf(queue, ["wait", "prioritized"]);
  }

  /** Puts jobs on the queue, in order. Redis refuses all of them when its memory is full. */
  async add(jobs: readonly QueuedJobText[]): Promise<void> {
    const values = [this.#prefix, systemClock.epoch(), ...jobs.flatMap(({ id, data }) => [id, data])];
    await runScript(this.#redis, addScript, this.#addKeys, values);
  }

  /** Wakes all workers if jobs wait; resolves to whether they do. */
  async wake(): Promise<boolean> {
    return (await runScript(this.#redis, wakeScript, this.#wakeKeys, [])) === 1;
  }

  async hasWaitingJobs(): Promise<boolean> {
    return (await this.#redis.exists(...this.#waitingKeys)) > 0;
  }

  /**
   * Ends the jobs `over`, and takes at most `jobsMax` of those that wait, locked under `token`. The
   * rest wakes another worker; with `wakesReserve` also one in reserve.
   */
  async fetch(
    token: string,
    { jobsMax, over, wakesReserve }: { jobsMax: number; over: readonly string[]; wakesReserve: boolean },
  ): Promise<Fetched> {
    const values = [this.#prefix, systemClock.epoch(), token, jobLockMs, jobsMax, wakesReserve ? 1 : 0, ...over];
    const reply = await runScript(this.#redis, fetchScript, this.#fetchKeys, values);
    const [drained, ...fields] = reply as [number, ...(string | number)[]];
    const jobs: FetchedJob[] = [];
    for (let at = 0; at < fields.length; at += 3)
      jobs.push({ id: String(fields[at]), data: String(fields[at + 1]), isAbandoned: fields[at + 2] === 1 });
    return { jobs, isDrained: drained === 1 };
  }
}
