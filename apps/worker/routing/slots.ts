/**
 * Limits the calls that an upstream gets from all workers together: how many at once, by leases in
 * Redis that expire when their worker dies, and how many requests and tokens in any minute.
 */
import { leaseMs, renewEveryMsOf } from "#service/lease.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { firstOutputTokens, meanWeight, timedTargetsMax, vendorWindowSeconds } from "../bounds.ts";

/** An absent limit does not apply. */
export interface CallLimits {
  concurrencyMax?: number | undefined;
  requestsPerMinute?: number | undefined;
  tokensPerMinute?: number | undefined;
}

export const isLimit = ({ concurrencyMax, requestsPerMinute, tokensPerMinute }: CallLimits): boolean =>
  concurrencyMax !== undefined || requestsPerMinute !== undefined || tokensPerMinute !== undefined;

/** The limits of an upstream, or of a credential or target there, which `name` tells apart. */
export interface LimitScope {
  /** Empty for the upstream itself. */
  name: string;
  limits: CallLimits;
}

export interface SlotRequest {
  upstream: string;
  /** The target, as metrics name it. */
  target: string;
  /** Names the call and is unique. */
  holder: string;
  /** The scopes that have limits; without any, nothing is counted. */
  scopes: readonly LimitScope[];
  /** An estimate. */
  inputTokens: number;
  /** The most tokens that the answer may have, where the vendor counts these. */
  outputTokensMax?: number | undefined;
}

/** `scope` is the one that is full. */
export type FullSlots = { scope: string } & ({ by: "concurrency" } | { by: "rate-limit"; forMs: number });

export interface Slot {
  /** The call is over. `tokens` are those of the upstream's count, if there is one. */
  release(usage?: { inputTokens: number; outputTokens: number }): void;
}

/**
 * KEYS two of each scope: its slots, a sorted set of holders by the end of their lease, and its
 * last minute, a hash of `<second>r` and `<second>t` → requests and tokens. ARGV holder, lease in
 * ms, seconds of the window, tokens, then three of each scope: slots, requests and tokens at most,
 * 0 for no limit. Returns {0, the second} when the holder has a slot everywhere and is counted,
 * else {the scope that is full, ms until its window has space, or 0 if its slots are taken}. A
 * request of more tokens than the limit gets an empty window.
 */
const takeScript = scriptOf(`${redisClock}
local second = math.floor(nowMs / 1000)
local oldest = second - ARGV[3]
for index = 1, #KEYS / 2 do
  local slots, window = KEYS[index * 2 - 1], KEYS[index * 2]
  local max = {tonumber(ARGV[index * 3 + 2]), tonumber(ARGV[index * 3 + 3]), tonumber(ARGV[index * 3 + 4])}
  if max[1] > 0 then
    redis.call("ZREMRANGEBYSCORE", slots, "-inf", nowMs)
    if redis.call("ZCARD", slots) >= max[1] then return {index, 0} end
  end
  if max[2] > 0 or max[3] > 0 then
    local used, free = {r = 0, t = 0}, {r = max[2] - 1, t = math.max(0, max[3] - ARGV[4])}
    local entries, fields = {}, redis.call("HGETALL", window)
    for at = 1, #fields, 2 do
      local entry = {second = tonumber(string.sub(fields[at], 1, -2)), kind = string.sub(fields[at], -1), count = tonumber(fields[at + 1])}
      if entry.second < oldest then redis.call("HDEL", window, fields[at])
      else
        used[entry.kind] = used[entry.kind] + entry.count
        entries[#entries + 1] = entry
      end
    end
    if max[2] == 0 then free.r = math.huge end
    if max[3] == 0 then free.t = math.huge end
    if used.r > free.r or used.t > free.t then
      table.sort(entries, function(one, other) return one.second < other.second end)
      for _, entry in ipairs(entries) do
        used[entry.kind] = used[entry.kind] - entry.count
        if used.r <= free.r and used.t <= free.t then return {index, (entry.second + ARGV[3] + 1) * 1000 - nowMs} end
      end
    end
  end
end
for index = 1, #KEYS / 2 do
  local slots, window = KEYS[index * 2 - 1], KEYS[index * 2]
  if tonumber(ARGV[index * 3 + 2]) > 0 then
    redis.call("ZADD", slots, nowMs + ARGV[2], ARGV[1])
    redis.call("PEXPIRE", slots, ARGV[2] * 2)
  end
  if tonumber(ARGV[index * 3 + 3]) > 0 then redis.call("HINCRBY", window, second .. "r", 1) end
  if tonumber(ARGV[index * 3 + 4]) > 0 then redis.call("HINCRBY", window, second .. "t", ARGV[4]) end
  if tonumber(ARGV[index * 3 + 3]) > 0 or tonumber(ARGV[index * 3 + 4]) > 0 then redis.call("EXPIRE", window, ARGV[3] + 2) end
end
return {0, second}
`);

/**
 * KEYS as above. ARGV holder, the second in which it was counted, the tokens that it took more than
 * estimated. A second that has left the window stays gone.
 */
const releaseScript = scriptOf(`
for index = 1, #KEYS / 2 do
  redis.call("ZREM", KEYS[index * 2 - 1], ARGV[1])
  if redis.call("HEXISTS", KEYS[index * 2], ARGV[2] .. "t") == 1 then
    redis.call("HINCRBY", KEYS[index * 2], ARGV[2] .. "t", ARGV[3])
  end
end
return 1
`);

/**
 * KEYS[1] slots. ARGV lease in ms, then holders. Extends their leases, also those that expired a
 * moment ago.
 */
const renewScript = scriptOf(`${redisClock}
for index = 2, #ARGV do redis.call("ZADD", KEYS[1], nowMs + ARGV[1], ARGV[index]) end
redis.call("PEXPIRE", KEYS[1], ARGV[1] * 2)
return 1
`);

/** The slot of a call that nothing limits. */
export const freeSlot: Slot = { release: () => undefined };

export class Slots {
  readonly #redis: Redis;
  readonly #keyOf: (upstream: string, part: string) => string;
  /** The holders of slots, by upstream and by the key of the slots. */
  readonly #holders = new Map<string, Map<string, Set<string>>>();
  /** The mean of an answer's tokens, by target. */
  readonly #outputTokens = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(redis: Redis, keyOf: (upstream: string, part: string) => string) {
    this.#redis = redis;
    this.#keyOf = keyOf;
  }

  start(): void {
    this.#timer = setInterval(() => this.#renew(), renewEveryMsOf(leaseMs));
  }

  close(): void {
    clearInterval(this.#timer);
  }

  /**
   * Takes a slot in every scope. Without Redis nothing is counted, and the call may be made.
   */
  async take({
    upstream,
    target,
    holder,
    scopes,
    inputTokens,
    outputTokensMax,
  }: SlotRequest): Promise<Slot | FullSlots> {
    if (scopes.length === 0) return freeSlot;
    const keys = scopes.flatMap(({ name }) => [this.#keyOf(upstream, name), this.#keyOf(upstream, `${name}:minute`)]);
    const tokens = Math.ceil(inputTokens + (outputTokensMax ?? this.#outputTokens.get(target) ?? firstOutputTokens));
    const maxima = scopes.flatMap(({ limits: { concurrencyMax = 0, requestsPerMinute = 0, tokensPerMinute = 0 } }) => [
      concurrencyMax,
      requestsPerMinute,
      tokensPerMinute,
    ]);
    let taken: [index: number, value: number];
    try {
      const values = [holder, leaseMs, vendorWindowSeconds, tokens, ...maxima];
      taken = (await runScript(this.#redis, takeScript, keys, values)) as typeof taken;
    } catch {
      return freeSlot;
    }
    const [index, value] = taken;
    const full = scopes[index - 1]?.name;
    if (full !== undefined)
      return value === 0 ? { scope: full, by: "concurrency" } : { scope: full, by: "rate-limit", forMs: value };
    const holdersHere = scopes.flatMap(({ name, limits }) =>
      limits.concurrencyMax === undefined ? [] : [this.#holdersOf(upstream, this.#keyOf(upstream, name))],
    );
    for (const holders of holdersHere) holders.add(holder);
    return {
      release: (usage) => {
        for (const holders of holdersHere) holders.delete(holder);
        if (usage !== undefined) this.#learn(target, usage.outputTokens);
        const { inputTokens = 0, outputTokens = 0 } = usage ?? {};
        const more = usage === undefined ? 0 : inputTokens + Math.max(outputTokens, outputTokensMax ?? 0) - tokens;
        const countsTokens = more !== 0 && scopes.some(({ limits }) => limits.tokensPerMinute !== undefined);
        if (holdersHere.length > 0 || countsTokens)
          runScript(this.#redis, releaseScript, keys, [holder, value, more]).catch(() => undefined);
      },
    };
  }

  /** How many slots this worker has, by upstream. */
  taken(): Record<string, number> {
    const counts = [...this.#holders].map(([upstream, ofUpstream]) => {
      const holders = new Set([...ofUpstream.values()].flatMap((ofKey) => [...ofKey]));
      return [upstream, holders.size] as const;
    });
    return Object.fromEntries(counts);
  }

  #learn(target: string, outputTokens: number): void {
    if (this.#outputTokens.size >= timedTargetsMax) this.#outputTokens.clear();
    const mean = this.#outputTokens.get(target) ?? outputTokens;
    this.#outputTokens.set(target, mean + (outputTokens - mean) * meanWeight);
  }

  #holdersOf(upstream: string, key: string): Set<string> {
    const ofUpstream = this.#holders.get(upstream) ?? new Map<string, Set<string>>();
    this.#holders.set(upstream, ofUpstream);
    const holders = ofUpstream.get(key) ?? new Set();
    ofUpstream.set(key, holders);
    return holders;
  }

  #renew(): void {
    for (const ofUpstream of this.#holders.values())
      for (const [key, holders] of ofUpstream)
        if (holders.size > 0) runScript(this.#redis, renewScript, [key], [leaseMs, ...holders]).catch(() => undefined);
        else ofUpstream.delete(key);
  }
}
