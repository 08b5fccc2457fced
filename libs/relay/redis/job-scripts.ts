/**
 * The dispatch of jobs by two scripts of our own, in BullMQ's keys and with BullMQ's meaning:
 * BullMQ lists, counts and removes these jobs like any others, and puts back those of a dead
 * worker. Its own scripts take one job at a time and report every step on an event stream, which
 * costs most of a short request. test/libs/relay/redis/bullmq-internals.test.ts compares both.
 */
import { systemClock } from "#service/clock.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { creditLifeMs, jobLockMs, putBackMsMax } from "../bounds.ts";
import { reserveMarker } from "./bullmq-internals.ts";

const jobName = "generation";
/** Names of our own beside BullMQ's. No job has such an id, so they are none of a job. */
const creditName = "credit";
const sentName = "sent:";
const priority = 1;
/** As BullMQ keeps a job's options: it removes the job when it ends, whatever ends it. */
const jobOptions = JSON.stringify({ attempts: 1, priority, removeOnComplete: true, removeOnFail: true });

/** BullMQ's order of prioritized jobs: by priority, then by a counter of 32 bits. */
const priorityScore = priority * 2 ** 32;

/**
 * KEYS: prioritized, marker, pc, meta, wait, active, credit (a hash: a worker's id → "<generations>
 * <expiry, epoch ms>"). ARGV: the prefix of jobs' keys, epoch ms, the life of a lock in ms, then
 * the id, data and number of generations of each job. A job that is on the queue already stays as
 * it is. While no other job waits, any worker with credit is sent the job, as if it had fetched it.
 * Credit of a worker that hears nothing is void. Otherwise the job waits, and the marker wakes a
 * blocked fetch.
 */
const addScript = scriptOf(
  `${redisClock}
local function sentTo(id, data, generations)
  while true do
    local worker, credit = unpack(redis.call("HRANDFIELD", KEYS[7], 1, "WITHVALUES"))
    if not worker then return nil end
    local left, expiry = string.match(credit, "^(%d+) (%d+)$")
    local receivers = nowMs < tonumber(expiry)
      and redis.pcall("SPUBLISH", ARGV[1] .. "${sentName}" .. worker, id .. " " .. data)
    local isSent = type(receivers) == "number" and receivers > 0
    left = left - generations
    if isSent and left > 0 then
      redis.call("HSET", KEYS[7], worker, string.format("%d %s", left, expiry))
    else
      redis.call("HDEL", KEYS[7], worker)
    end
    if isSent then return worker end
  end
end
local isPaused = redis.call("HEXISTS", KEYS[4], "paused") == 1
local waits = redis.call("EXISTS", KEYS[1], KEYS[5]) > 0
for at = 4, #ARGV, 3 do
  local id, data = ARGV[at], ARGV[at + 1]
  local key = ARGV[1] .. id
  if redis.call("EXISTS", key) == 0 then
    local worker = not isPaused and not waits and sentTo(id, data, ARGV[at + 2])
    local fields = { "name", "${jobName}", "data", data, "opts", '${jobOptions}', "timestamp", ARGV[2], "delay", 0,
      "priority", ${priority}, worker and "processedOn", ARGV[2] }
    redis.call("HSET", key, unpack(fields, 1, worker and 14 or 12))
    if worker then
      redis.call("LPUSH", KEYS[6], id)
      redis.call("SET", key .. ":lock", worker, "PX", ARGV[3])
    else
      waits = true
      redis.call("ZADD", KEYS[1], ${priorityScore} + redis.call("INCR", KEYS[3]) % ${2 ** 32}, id)
    end
  end
end
if waits and not isPaused then redis.call("ZADD", KEYS[2], 0, "0") end`,
  "refuse",
);

/**
 * KEYS: wait, prioritized, active, marker, pc, meta, stalled, reserve, credit. ARGV: the prefix of
 * jobs' keys, epoch ms, the worker's id, the life of a lock in ms, the most jobs, 1 if the rest
 * also wakes a worker in reserve (0 otherwise), the credit for the worker, then the ids of jobs
 * that are over. The credit counts a generation for each fetched job, and is given if no job waits.
 * Returns 1 if no job waits (0 otherwise), the credit, then id, data and 1 for a job whose worker
 * died (0 otherwise) of each job. Jobs that BullMQ put back are on the waiting list. It frees more
 * memory than it takes, so it may run when memory is full.
 */
const fetchScript = scriptOf(
  `
for at = 8, #ARGV do
  local key = ARGV[1] .. ARGV[at]
  redis.call("DEL", key, key .. ":lock")
  redis.call("LREM", KEYS[3], -1, ARGV[at])
  redis.call("SREM", KEYS[7], ARGV[at])
end
local reply = { 0, 0 }
local fetched, waiting = 0, redis.call("ZCARD", KEYS[2])
local listed = redis.call("LLEN", KEYS[1])
local mayFetch = tonumber(ARGV[5])
if waiting + listed > 0 and redis.call("HEXISTS", KEYS[6], "paused") == 1 then return { 1, 0 } end
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
local credit = ARGV[7] - fetched
if reply[1] == 1 and credit > 0 then
  reply[2] = credit
  ${redisClock}
  redis.call("HSET", KEYS[9], ARGV[3], string.format("%d %d", credit, nowMs + ${creditLifeMs}))
  redis.call("PEXPIRE", KEYS[9], ${creditLifeMs})
else
  redis.call("HDEL", KEYS[9], ARGV[3])
end
return reply`,
  "run",
);

/**
 * KEYS: prioritized, active, marker, credit, meta. ARGV: the prefix of jobs' keys, a worker's id,
 * the id of a job that it was sent. The job waits again, before all others, and the worker has no
 * credit. A job that the worker no longer has stays as it is, for the command may be sent again. An
 * old one is removed, for its owner may have started another attempt.
 */
const putBackScript = scriptOf(
  `
local key = ARGV[1] .. ARGV[3]
local lock = key .. ":lock"
redis.call("HDEL", KEYS[4], ARGV[2])
if redis.call("GET", lock) ~= ARGV[2] then return end
local ageMs = ${jobLockMs} - redis.call("PTTL", lock)
redis.call("DEL", lock)
redis.call("LREM", KEYS[2], 1, ARGV[3])
if ageMs > ${putBackMsMax} then
  redis.call("DEL", key)
  return
end
redis.call("HDEL", key, "processedOn")
redis.call("ZADD", KEYS[1], ${priorityScore}, ARGV[3])
if redis.call("HEXISTS", KEYS[5], "paused") == 0 then redis.call("ZADD", KEYS[3], 0, "0") end`,
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

interface JobText {
  id: string;
  /** JSON. */
  data: string;
}

export interface QueuedJobText extends JobText {
  /** How many generations the data has. */
  generations: number;
}

export interface FetchedJob extends JobText {
  /** Its worker died, and BullMQ put it back. */
  isAbandoned: boolean;
}

export interface Fetched {
  jobs: FetchedJob[];
  /** No further job waits, and the marker is gone. */
  isDrained: boolean;
  /** Generations of jobs that may be sent now. */
  credit: number;
}

export interface Fetch {
  jobsMax: number;
  /** The ids of jobs that are over. */
  over: readonly string[];
  /** Whether the rest also wakes a worker in reserve. */
  wakesReserve: boolean;
  /** Generations for which there are slots: of the fetched jobs, and of those that are sent. */
  creditMax: number;
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
  readonly #putBackKeys: readonly string[];
  readonly #waitingKeys: readonly string[];

  constructor(queue: BullmqKeys, redis: Redis) {
    this.#redis = redis;
    this.#prefix = queue.toKey("");
    this.#addKeys = keysOf(queue, ["prioritized", "marker", "pc", "meta", "wait", "active", creditName]);
    this.#fetchKeys = keysOf(queue, [
      "wait",
      "prioritized",
      "active",
      "marker",
      "pc",
      "meta",
      "stalled",
      reserveMarker,
      creditName,
    ]);
    this.#wakeKeys = keysOf(queue, ["wait", "prioritized", "marker", reserveMarker, "meta"]);
    this.#putBackKeys = keysOf(queue, ["prioritized", "active", "marker", creditName, "meta"]);
    this.#waitingKeys = keysOf(queue, ["wait", "prioritized"]);
  }

  /**
   * Puts jobs on the queue, in order, or sends them to a worker that has credit. Redis refuses all
   * of them when its memory is full.
   */
  async add(jobs: readonly QueuedJobText[]): Promise<void> {
    const fields = jobs.flatMap(({ id, data, generations }) => [id, data, generations]);
    const values = [this.#prefix, systemClock.epoch(), jobLockMs, ...fields];
    await runScript(this.#redis, addScript, this.#addKeys, values);
  }

  /** Takes the credit of a worker, and lets a job that it was sent wait again. */
  async putBack(worker: string, id: string): Promise<void> {
    await runScript(this.#redis, putBackScript, this.#putBackKeys, [this.#prefix, worker, id]);
  }

  /** Wakes all workers if jobs wait; resolves to whether they do. */
  async wake(): Promise<boolean> {
    return (await runScript(this.#redis, wakeScript, this.#wakeKeys, [])) === 1;
  }

  /** The channel of the jobs that a worker is sent: `decodeSentJob` reads a message. */
  sentJobsOf(worker: string): string {
    return `${this.#prefix}${sentName}${worker}`;
  }

  async hasWaitingJobs(): Promise<boolean> {
    return (await this.#redis.exists(...this.#waitingKeys)) > 0;
  }

  /**
   * Ends the jobs `over`, and takes at most `jobsMax` of those that wait. The rest wakes another
   * worker. If there is none, the worker has credit for `creditLifeMs`.
   */
  async fetch(worker: string, { jobsMax, over, wakesReserve, creditMax }: Fetch): Promise<Fetched> {
    const options = [jobLockMs, jobsMax, wakesReserve ? 1 : 0, creditMax];
    const values = [this.#prefix, systemClock.epoch(), worker, ...options, ...over];
    const reply = await runScript(this.#redis, fetchScript, this.#fetchKeys, values);
    const [drained, credit, ...fields] = reply as [number, number, ...(string | number)[]];
    const jobs: FetchedJob[] = [];
    for (let at = 0; at < fields.length; at += 3)
      jobs.push({ id: String(fields[at]), data: String(fields[at + 1]), isAbandoned: fields[at + 2] === 1 });
    return { jobs, isDrained: drained === 1, credit };
  }
}

/** A job that its worker was sent: its id, a space, and its data. */
export function decodeSentJob(message: string): FetchedJob {
  const end = message.indexOf(" ");
  return { id: message.slice(0, end), data: message.slice(end + 1), isAbandoned: false };
}
