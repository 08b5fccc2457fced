/**
 * Values that Redis stores for API keys, for a limited time and in limited space. A key above its
 * own bound loses its least recently used values. If all keys together exceed their bound, the key
 * that stores most loses its least recently used ones, so no key displaces the values of a smaller
 * one.
 */
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { redisClock, runScript, scriptOf } from "#service/script.ts";
import { aliasesMax, countedAheadBytes, smallEndBytesMax } from "../common/bounds.ts";
import type { RedisSpace } from "../common/redis-space.ts";

/** Ids and aliases. */
const nameForm = /^[A-Za-z0-9_.:-]{1,200}$/;

export const isStorableName = (name: string): boolean => nameForm.test(name);

/**
 * KEYS[1] is the beginning of the names of all keys, which are `entry:<key>:<id>` (hash: value,
 * aliases, bytes, version), `order:<key>` (sorted set: "<id> <bytes>" → expiry), `log:<key>:<id>`
 * (list: what was appended to the value), `aliases:<key>` (hash: alias → id), `bytes` (sorted set:
 * key → its bytes), `total` (bytes of all), and `expiry` (sorted set: "<key> <id> <bytes>" →
 * expiry).
 */
const names = `
local prefix = KEYS[1]
local function logOf(key, id) return prefix .. ":log:" .. key .. ":" .. id end
local function entryOf(key, id) return prefix .. ":entry:" .. key .. ":" .. id end`;

const counting = `${redisClock}
local bytesKey, totalKey, expiryKey = prefix .. ":bytes", prefix .. ":total", prefix .. ":expiry"
local function orderOf(key) return prefix .. ":order:" .. key end
local function aliasesOf(key) return prefix .. ":aliases:" .. key end
local function uncount(key, id, bytes)
  redis.call("ZREM", orderOf(key), id .. " " .. bytes)
  if redis.call("ZREM", expiryKey, key .. " " .. id .. " " .. bytes) == 0 then return end
  if tonumber(redis.call("ZINCRBY", bytesKey, -bytes, key)) <= 0 then redis.call("ZREM", bytesKey, key) end
  if redis.call("DECRBY", totalKey, bytes) <= 0 then redis.call("DEL", totalKey) end
end
local function drop(key, id, bytes)
  local entry = entryOf(key, id)
  local aliases = redis.call("HGET", entry, "aliases")
  for alias in string.gmatch(aliases or "", "%S+") do
    if redis.call("HGET", aliasesOf(key), alias) == id then redis.call("HDEL", aliasesOf(key), alias) end
  end
  redis.call("DEL", entry, logOf(key, id))
  uncount(key, id, bytes)
end
local function count(key, id, bytes, lifeMs)
  redis.call("ZADD", orderOf(key), nowMs + lifeMs, id .. " " .. bytes)
  redis.call("ZADD", expiryKey, nowMs + lifeMs, key .. " " .. id .. " " .. bytes)
  redis.call("ZINCRBY", bytesKey, bytes, key)
  redis.call("INCRBY", totalKey, bytes)
  for _, name in ipairs({ orderOf(key), aliasesOf(key), bytesKey, totalKey, expiryKey }) do redis.call("PEXPIRE", name, 2 * lifeMs) end
end
local function makeSpace(key, bytes, keyMax, max)
  if bytes > keyMax or bytes > max then return false end
  for _ = 1, 1000 do
    local from
    if (tonumber(redis.call("ZSCORE", bytesKey, key)) or 0) + bytes > keyMax then from = key
    elseif (tonumber(redis.call("GET", totalKey)) or 0) + bytes > max then from = redis.call("ZREVRANGE", bytesKey, 0, 0)[1] end
    if not from then return true end
    local oldest = redis.call("ZRANGE", orderOf(from), 0, 0)[1]
    if not oldest then
      redis.call("ZREM", bytesKey, from)
      return false
    end
    local oldId, oldBytes = string.match(oldest, "^(%S+) (%d+)$")
    drop(from, oldId, oldBytes)
  end
  return false
end
local function dropExpired(most)
  for _, member in ipairs(redis.call("ZRANGEBYSCORE", expiryKey, "-inf", nowMs, "LIMIT", 0, most)) do
    drop(string.match(member, "^(%S+) (%S+) (%d+)$"))
  end
end`;

const common = `${names}${counting}`;

/**
 * ARGV: key, id, value, aliases (separated by spaces), detail (empty to keep that of the version
 * before), life in ms, expected version (-1 for any), bytes of one key and of all keys at most, an
 * alias that no other value may have (empty for none), and the id of the value that may have it.
 * Returns the new version, 0 if another version was found or another value has the alias, -1 if the
 * value does not fit.
 */
const putText = `${common}
local key, id, detail, lifeMs = ARGV[1], ARGV[2], ARGV[5], tonumber(ARGV[6])
local expected, keyMax, max = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
dropExpired(100)
local entry = entryOf(key, id)
local found = redis.call("HMGET", entry, "version", "bytes")
local version = tonumber(found[1]) or 0
if expected >= 0 and version ~= expected then return 0 end
local holder = ARGV[10] ~= "" and redis.call("HGET", aliasesOf(key), ARGV[10])
if holder and holder ~= ARGV[11] and redis.call("EXISTS", entryOf(key, holder)) == 1 then return 0 end
if detail == "" then detail = redis.call("HGET", entry, "detail") or "" end
local bytes = #ARGV[3] + 2 * #ARGV[4] + #detail
if bytes > keyMax or bytes > max then return -1 end
if found[2] then drop(key, id, found[2]) end
if not makeSpace(key, bytes, keyMax, max) then return -1 end
redis.call("HSET", entry, "value", ARGV[3], "aliases", ARGV[4], "bytes", bytes, "version", version + 1)
if detail ~= "" then redis.call("HSET", entry, "detail", detail, "detailBytes", #detail) end
redis.call("PEXPIRE", entry, lifeMs)
for alias in string.gmatch(ARGV[4], "%S+") do redis.call("HSET", aliasesOf(key), alias, id) end
count(key, id, bytes, lifeMs)
return version + 1`;
const putScript = scriptOf(putText, "refuse");
/** Also while Redis' memory is full. */
const putEndScript = scriptOf(putText, "run");

/**
 * ARGV: key, id, a part, the number of parts before it, life in ms, bytes of one key and of all
 * keys at most, bytes to count ahead, 0 for the last part. Returns the number of parts afterwards:
 * one more if it was appended. -1 if the value is not stored (any more), or finds no space. Bytes
 * are counted ahead, so most parts change no count: three commands. The last part returns what is
 * spare.
 */
const appendScript = scriptOf(
  `${names}
local key, id, lifeMs, ahead = ARGV[1], ARGV[2], tonumber(ARGV[5]), tonumber(ARGV[8])
local entry, log = entryOf(key, id), logOf(key, id)
local found = redis.call("HMGET", entry, "bytes", "spare")
if not found[1] then return -1 end
local length = redis.call("RPUSH", log, ARGV[3])
if length ~= ARGV[4] + 1 then
  redis.call("RPOP", log)
  return length - 1
end
local bytes, spare = tonumber(found[1]), (tonumber(found[2]) or 0) - #ARGV[3]
if spare >= 0 and ahead > 0 then
  redis.call("HSET", entry, "spare", spare)
  return length
end
${counting}
local keyMax, max = tonumber(ARGV[6]), tonumber(ARGV[7])
local more = -spare
if more > 0 and not makeSpace(key, more, keyMax, max) or redis.call("EXISTS", entry) == 0 then
  redis.call("RPOP", log)
  return -1
end
-- What is counted ahead displaces nothing.
local used = tonumber(redis.call("ZSCORE", bytesKey, key)) or 0
if ahead > 0 and used + more + ahead <= keyMax and (tonumber(redis.call("GET", totalKey)) or 0) + more + ahead <= max then more = more + ahead end
redis.call("PEXPIRE", log, lifeMs)
redis.call("PEXPIRE", entry, lifeMs)
uncount(key, id, bytes)
redis.call("HSET", entry, "bytes", bytes + more, "spare", spare + more)
count(key, id, bytes + more, lifeMs)
return length`,
  "refuse",
);

/** ARGV: key, life in ms, ids. Restarts their lives. */
const touchScript = scriptOf(
  `${common}
for place = 3, #ARGV do
  local bytes = redis.call("HGET", entryOf(ARGV[1], ARGV[place]), "bytes")
  if bytes then
    local expiresAt = nowMs + ARGV[2]
    redis.call("PEXPIRE", entryOf(ARGV[1], ARGV[place]), ARGV[2])
    redis.call("PEXPIRE", logOf(ARGV[1], ARGV[place]), ARGV[2])
    redis.call("ZADD", orderOf(ARGV[1]), "XX", expiresAt, ARGV[place] .. " " .. bytes)
    redis.call("ZADD", expiryKey, "XX", expiresAt, ARGV[1] .. " " .. ARGV[place] .. " " .. bytes)
    for _, name in ipairs({ orderOf(ARGV[1]), aliasesOf(ARGV[1]), bytesKey, totalKey, expiryKey }) do redis.call("PEXPIRE", name, 2 * ARGV[2]) end
  end
end`,
  "run",
);

/** ARGV: key, id. Returns 1 if the value was found. */
const removeScript = scriptOf(
  `${common}
local bytes = redis.call("HGET", entryOf(ARGV[1], ARGV[2]), "bytes")
if not bytes then return 0 end
drop(ARGV[1], ARGV[2], bytes)
return 1`,
  "run",
);

const sweepScript = scriptOf(`${common}\ndropExpired(500)`, "run");

const nothing = Buffer.alloc(0);

/** Where a part of a value is. */
export interface PartPlace {
  /** How many parts come before it. */
  before: number;
  /** None follows. */
  isLast?: boolean;
}

export interface BoundedStoreOptions {
  redis: Redis;
  keyspace: Keyspace;
  space: Pick<RedisSpace, "hasSpace">;
  /** How long a value is stored after its last use. */
  lifeMs: number;
  /** Bytes stored at most: for one API key, and for all. */
  keyBytesMax: number;
  bytesMax: number;
}

export interface StoredValue {
  value: Buffer;
  /** Grows with every change, from 1. */
  version: number;
}

/** The value is stored only if no value has the alias, or if the one with the id `from` has it. */
export interface AliasClaim {
  alias: string;
  from: string | undefined;
}

export interface ValueToStore {
  id: string;
  value: Buffer;
  /**
   * A second value under the same id, which is read by itself. A new version keeps it if it brings
   * none.
   */
  detail?: Buffer;
  /** Further names by which the value can be found. */
  aliases?: readonly string[];
  /** A further alias, which no other value has. */
  claim?: AliasClaim | undefined;
  /** Stores only in place of this version; 0 for none. */
  replaces?: number;
  /**
   * The end of something that has begun: it is stored although Redis has little space, and a small
   * one although it has none.
   */
  isEnd?: boolean;
}

export class BoundedStore {
  readonly #options: BoundedStoreOptions;

  constructor(options: BoundedStoreOptions) {
    this.#options = options;
  }

  /**
   * The new version; "conflict" if another version is stored than the one to replace, or another
   * value has the claimed alias; "full" if there is no space. Rejects when Redis does not answer.
   */
  async put(
    keyId: string,
    { id, value, detail = nothing, aliases = [], claim, replaces = -1, isEnd = false }: ValueToStore,
  ): Promise<number | "conflict" | "full"> {
    const { redis, keyspace, space, lifeMs, keyBytesMax, bytesMax } = this.#options;
    if (!isEnd && !(await space.hasSpace())) return "full";
    const all = claim === undefined ? aliases : [claim.alias, ...aliases];
    const names = all.filter(isStorableName).slice(0, aliasesMax).join(" ");
    const claimValues = [claim?.alias ?? "", claim?.from ?? ""];
    const values = [keyId, id, value, names, detail, lifeMs, replaces, keyBytesMax, bytesMax, ...claimValues];
    const script = isEnd && value.length + detail.length <= smallEndBytesMax ? putEndScript : putScript;
    const version = Number(await runScript(redis, script, [keyspace.stored], values));
    return version > 0 ? version : version === 0 ? "conflict" : "full";
  }

  /**
   * The values with these ids, in order. Reading a value prolongs its life. Rejects when Redis does
   * not answer.
   */
  async read(keyId: string, ids: readonly string[]): Promise<(StoredValue | undefined)[]> {
    const { redis, keyspace, lifeMs } = this.#options;
    const storableIds = ids.filter(isStorableName);
    const hashes = await Promise.all(
      ids.map((id) =>
        isStorableName(id) ? redis.hmgetBuffer(keyspace.storedEntry(keyId, id), "value", "version") : [null, null],
      ),
    );
    if (storableIds.length > 0)
      void runScript(redis, touchScript, [keyspace.stored], [keyId, lifeMs, ...storableIds]).catch(() => undefined);
    return hashes.map(([value, version]) =>
      value === null || value === undefined ? undefined : { value, version: Number(version) },
    );
  }

  /** The details of the values with these ids, in order. Rejects when Redis does not answer. */
  async details(keyId: string, ids: readonly string[]): Promise<(Buffer | undefined)[]> {
    const { redis, keyspace } = this.#options;
    const details = await Promise.all(
      ids.map((id) => (isStorableName(id) ? redis.hgetBuffer(keyspace.storedEntry(keyId, id), "detail") : null)),
    );
    return details.map((detail) => detail ?? undefined);
  }

  /**
   * The bytes of the values with these ids together, with or without their details; 0 for those
   * that are not stored. Rejects when Redis does not answer.
   */
  async bytesOf(keyId: string, ids: readonly string[], { hasDetails }: { hasDetails: boolean }): Promise<number> {
    const { redis, keyspace } = this.#options;
    const storableIds = ids.filter(isStorableName);
    const values = await Promise.all(
      storableIds.map((id) => redis.hmget(keyspace.storedEntry(keyId, id), "bytes", "detailBytes")),
    );
    return values.reduce((sum, [all, detail]) => sum + Number(all ?? 0) - (hasDetails ? 0 : Number(detail ?? 0)), 0);
  }

  /**
   * The ids of the values that have these aliases, in order. Rejects when Redis does not answer.
   */
  async idsOf(keyId: string, aliases: readonly string[]): Promise<(string | undefined)[]> {
    if (aliases.length === 0) return [];
    const { redis, keyspace } = this.#options;
    const aliasIds = await redis.hmget(keyspace.storedAliases(keyId), ...aliases);
    return aliasIds.map((id) => id ?? undefined);
  }

  /**
   * Appends a part to a value that has `before` parts; does nothing if it has another number.
   * Returns the number of parts afterwards, -1 if the value is not stored
   * (any more) or finds no space. Rejects when Redis does not answer.
   */
  async append(keyId: string, id: string, part: Buffer, { before, isLast }: PartPlace): Promise<number> {
    const { redis, keyspace, lifeMs, keyBytesMax, bytesMax } = this.#options;
    const ahead = isLast ? 0 : countedAheadBytes;
    const values = [keyId, id, part, before, lifeMs, keyBytesMax, bytesMax, ahead];
    return Number(await runScript(redis, appendScript, [keyspace.stored], values));
  }

  /**
   * Parts of a value from this index on, at most so many; -1 is the last one. Undefined where the
   * value is not stored. Rejects when Redis does not answer.
   */
  async parts(keyId: string, id: string, from: number, most: number): Promise<Buffer[] | undefined> {
    const { redis, keyspace } = this.#options;
    if (!isStorableName(id)) return undefined;
    const [parts, exists] = await Promise.all([
      redis.lrangeBuffer(keyspace.storedLog(keyId, id), from, from + most - 1),
      redis.exists(keyspace.storedEntry(keyId, id)),
    ]);
    return exists === 1 ? parts : undefined;
  }

  /** Whether there was a value with this id. Rejects when Redis does not answer. */
  async remove(keyId: string, id: string): Promise<boolean> {
    const { redis, keyspace } = this.#options;
    return isStorableName(id) && (await runScript(redis, removeScript, [keyspace.stored], [keyId, id])) === 1;
  }

  /** The bytes of all values of all keys. Rejects when Redis does not answer. */
  async bytes(): Promise<number> {
    return Number((await this.#options.redis.get(this.#options.keyspace.storedTotal)) ?? 0);
  }

  /** Releases the space of expired values. Never rejects. */
  async sweep(): Promise<void> {
    const { redis, keyspace } = this.#options;
    await runScript(redis, sweepScript, [keyspace.stored], []).catch(() => undefined);
  }
}
