/**
 * The entries of Idempotency-Keys in Redis. An entry is first the claim of the ingress that runs
 * the generation, then the stored answer. Stored bytes are bounded per API key and in all, and no
 * answer is stored while Redis uses more than half of its memory.
 */
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { idempotencyLeaseMs, unreleasedClaimsMax } from "../common/bounds.ts";
import { outlastRedis, type RedisWait } from "../common/outlast-redis.ts";
import type { RedisSpace } from "../common/redis-space.ts";
import type { KeptAnswer } from "../response/shared-response.ts";

/**
 * KEYS[1] the entry. ARGV: the claim's value; the new value, which is the claim or empty to delete
 * it; its life in ms. Returns 1 when the value was written, 0 when the entry is another request's.
 * Atomic: only our claim is replaced, or an entry that Redis lost.
 */
const replaceScript = scriptOf(
  `
local found = redis.call("GET", KEYS[1])
if found and found ~= ARGV[1] then return 0 end
if ARGV[2] == "" then redis.call("DEL", KEYS[1]) else redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3]) end
return 1`,
  "run",
);

/**
 * KEYS[1] the entry; KEYS[2] the stored answers (sorted set); KEYS[3] their bytes (hash). ARGV: the
 * claim's value; the answer; its life in ms; its bytes; the id of its caller's API key; the hash of
 * its Idempotency-Key; the bytes that the callers of this key may store, and those of all. Returns
 * 1 when the answer is stored; otherwise 0, and the claim is deleted. Atomic: up to a thousand
 * expired answers are uncounted first.
 */
const storeScript = scriptOf(
  `${redisClock}
local found = redis.call("GET", KEYS[1])
if found and found ~= ARGV[1] then return 0 end
local function count(keyId, bytes)
  for _, field in ipairs({ keyId, "total" }) do
    if redis.call("HINCRBY", KEYS[3], field, bytes) <= 0 then redis.call("HDEL", KEYS[3], field) end
  end
end
local lapsed = redis.call("ZRANGEBYSCORE", KEYS[2], "-inf", nowMs, "LIMIT", 0, 1000)
for _, member in ipairs(lapsed) do
  local bytes, keyId = string.match(member, "^(%d+) (%S+) ")
  count(keyId, -bytes)
end
if #lapsed > 0 then redis.call("ZREM", KEYS[2], unpack(lapsed)) end
local bytes = tonumber(ARGV[4])
local stored = redis.call("HMGET", KEYS[3], ARGV[5], "total")
if (tonumber(stored[1]) or 0) + bytes > tonumber(ARGV[7]) or (tonumber(stored[2]) or 0) + bytes > tonumber(ARGV[8]) then
  redis.call("DEL", KEYS[1])
  return 0
end
redis.call("SET", KEYS[1], ARGV[2], "PX", ARGV[3])
if redis.call("ZADD", KEYS[2], nowMs + ARGV[3], ARGV[4] .. " " .. ARGV[5] .. " " .. ARGV[6]) == 1 then count(ARGV[5], bytes) end
redis.call("PEXPIRE", KEYS[2], ARGV[3])
redis.call("PEXPIRE", KEYS[3], ARGV[3])
return 1`,
  "refuse",
);

/** One request's claim on an entry. */
export interface EntryClaim {
  /** The entry's key in Redis. */
  readonly key: string;
  /** The id of the caller's API key, and the hash of the Idempotency-Key. */
  readonly keyId: string;
  readonly hash: string;
  /** The request's fingerprint: retries must have the same. */
  readonly fingerprint: string;
  /** The value of the entry while the generation runs: no other request writes the same. */
  readonly value: string;
}

/** An entry that was found. */
export interface FoundEntry {
  fingerprint: string;
  /** Undefined while the generation runs. */
  answer: KeptAnswer | undefined;
}

/** The first line of an entry, as JSON; the answer's bytes follow once it is complete. */
interface EntryLine {
  fingerprint: string;
  status?: number;
  headers?: Record<string, string>;
}

export interface StoredAnswersOptions extends RedisWait {
  redis: Redis;
  keyspace: Keyspace;
  space: RedisSpace;
  /** How long an answer is stored. */
  windowMs: number;
  /** Bytes stored in Redis at most: for the callers of one API key, and for all. */
  keyBytesMax: number;
  bytesMax: number;
}

export class StoredAnswers {
  readonly #options: StoredAnswersOptions;
  /** Claims that nobody needs, and that Redis may still have, by their values. */
  readonly #unreleased = new Map<string, EntryClaim>();

  constructor(options: StoredAnswersOptions) {
    this.#options = options;
  }

  /** `claimedBy` tells this request from all others. */
  claimOf(keyId: string, hash: string, fingerprint: string, claimedBy: string): EntryClaim {
    const value = JSON.stringify({ fingerprint, claimedBy });
    return { key: this.#options.keyspace.idempotency(keyId, hash), keyId, hash, fingerprint, value };
  }

  /**
   * Claims a free entry, or one that it claimed before; resolves to false when it is another's.
   * Rejects with RedisUnavailable when Redis is away for too long, or its caller left meanwhile; a
   * claim that Redis then makes is released.
   */
  async claim(claim: EntryClaim, isWanted: () => boolean): Promise<boolean> {
    const { key, value } = claim;
    const set = () => this.#options.redis.set(key, value, "PX", idempotencyLeaseMs, "NX", "GET");
    try {
      const before = await outlastRedis(this.#options, set, isWanted);
      return before === null || before === value;
    } catch (error) {
      void this.release(claim);
      throw error;
    }
  }

  /** Undefined for a free entry. Rejects when Redis does not answer. */
  async find({ key }: EntryClaim): Promise<FoundEntry | undefined> {
    const value = await this.#options.redis.getBuffer(key);
    if (value === null) return undefined;
    const end = value.indexOf("\n");
    const line = end === -1 ? value : value.subarray(0, end);
    const { fingerprint, status, headers = {} } = JSON.parse(line.toString("utf8")) as EntryLine;
    const answer = status === undefined ? undefined : { status, headers, body: value.subarray(end + 1) };
    return { fingerprint, answer };
  }

  /** Keeps the claim for another while, also in a Redis that lost it. Never rejects. */
  async renew({ key, value }: EntryClaim): Promise<void> {
    await runScript(this.#options.redis, replaceScript, [key], [value, value, idempotencyLeaseMs]).catch(
      () => undefined,
    );
  }

  /**
   * Frees the entry, unless it is another request's. While Redis is away `releaseAgain` does it.
   * Never rejects.
   */
  async release(claim: EntryClaim): Promise<void> {
    try {
      await runScript(this.#options.redis, replaceScript, [claim.key], [claim.value, "", 0]);
      this.#unreleased.delete(claim.value);
    } catch {
      if (this.#unreleased.size < unreleasedClaimsMax) this.#unreleased.set(claim.value, claim);
    }
  }

  /** Repeats the releases that failed. Call it when Redis is back, and about once a second. */
  releaseAgain(): void {
    for (const claim of this.#unreleased.values()) void this.release(claim);
  }

  /**
   * Replaces the claim by the answer, also if Redis is away for a short while; frees the entry
   * where there is no space for it. Never rejects.
   */
  async store(claim: EntryClaim, { status, headers, body }: KeptAnswer): Promise<void> {
    const { redis, keyspace, space, windowMs, keyBytesMax, bytesMax } = this.#options;
    const { key, keyId, hash, fingerprint, value } = claim;
    const line: EntryLine = { fingerprint, status, headers };
    const entry = Buffer.concat([Buffer.from(`${JSON.stringify(line)}\n`), body]);
    const keys = [key, keyspace.idempotencyStored, keyspace.idempotencyBytes];
    const values = [value, entry, windowMs, entry.length, keyId, hash, keyBytesMax, bytesMax];
    const replace = async () => {
      if (!(await space.hasSpace())) return this.release(claim);
      await runScript(redis, storeScript, keys, values);
    };
    await outlastRedis(this.#options, replace).catch(() => this.release(claim));
  }
}
