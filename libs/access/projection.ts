/**
 * The key records in Redis, which every ingress follows: reading them whole, and the scripts that change them.
 * Records are never removed, only revoked, and a revocation is never taken back: so a record that is missing was lost, and the
 * union of two copies is right. The scripts run in a Redis whose memory is full, too: a key must be revocable then above all.
 */

import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { type KeyRecord, parseRecord } from "./record.ts";

const pageSize = 1_000;
const revokeAttemptsMax = 5;

/** Stands for the hash in a notice when more than one record changed. */
const wholeMark = "*";

/**
 * Writes one record, unless another change came first.
 * KEYS: records (hash), version (counter). ARGV: the key's hash; the record expected to be there, "" for none; the record; the notices' channel.
 * Returns the new version, or 0 when another record was there. Atomic: write, count and notice. Repeating it does no harm.
 */
const writeScript = scriptOf(
  `
local present = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if present == ARGV[3] then return tonumber(redis.call('GET', KEYS[2]) or 1) end
if present ~= ARGV[2] then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
local version = redis.call('INCR', KEYS[2])
redis.call('PUBLISH', ARGV[4], version .. ' ' .. ARGV[1])
return version`,
  "run",
);

/**
 * Writes back some of the records that Redis lost: those that are missing, and revocations that are missing. What is there stays.
 * KEYS: records (hash). ARGV: pairs of a key's hash and its record.
 * Returns how many were written. Atomic for its pairs; it counts no version, so announceScript must follow.
 */
const restoreScript = scriptOf(
  `
local function isRevoked(text)
  local ok, record = pcall(cjson.decode, text)
  return ok and type(record) == 'table' and record.revokedAt ~= nil
end
local written = 0
for i = 1, #ARGV, 2 do
  local present = redis.call('HGET', KEYS[1], ARGV[i])
  if not present or (isRevoked(ARGV[i + 1]) and not isRevoked(present)) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    written = written + 1
  end
end
return written`,
  "run",
);

/**
 * Makes every follower read the records again.
 * KEYS: version (counter). ARGV: the version its caller held; the notices' channel.
 * Returns the new version, which leaps over any that a follower can hold of what was lost. Atomic: count and notice.
 */
const announceScript = scriptOf(
  `
local version = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(ARGV[1])) + 1000
redis.call('SET', KEYS[1], string.format('%.0f', version))
redis.call('PUBLISH', ARGV[2], string.format('%.0f', version) .. ' ${wholeMark}')
return version`,
  "run",
);

/** A change of the records: of one, or of any when `hash` is undefined. */
export interface Notice {
  version: number;
  hash?: string;
}

/** A message of the channel `keysChanged`; undefined for anything else. */
export function noticeOf(message: string): Notice | undefined {
  const [, version, hash] = /^(\d{1,15}) (\*|[0-9a-f]{64})$/.exec(message) ?? [];
  if (version === undefined || hash === undefined) return undefined;
  return hash === wholeMark ? { version: Number(version) } : { version: Number(version), hash };
}

/** 0 when nothing was ever projected, or all of it was lost. */
export async function readVersion(redis: Redis, keyspace: Keyspace): Promise<number> {
  return Number((await redis.get(keyspace.keysVersion)) ?? 0);
}

/** Every record by its key's hash, page by page, so that neither end is blocked for long. What is no record is passed over. */
export async function readRecords(redis: Redis, keyspace: Keyspace): Promise<Map<string, KeyRecord>> {
  const records = new Map<string, KeyRecord>();
  let cursor = "0";
  do {
    const [next, fields] = await redis.hscan(keyspace.keys, cursor, "COUNT", pageSize);
    for (let index = 0; index < fields.length; index += 2) {
      const record = parseRecord(fields[index + 1]!);
      if (record) records.set(fields[index]!, record);
    }
    cursor = next;
  } while (cursor !== "0");
  return records;
}

/** The records of these hashes, in their order; undefined for those that are missing or no records. */
export async function readSome(
  redis: Redis,
  keyspace: Keyspace,
  hashes: readonly string[],
): Promise<(KeyRecord | undefined)[]> {
  const texts = await redis.hmget(keyspace.keys, ...hashes);
  return texts.map((text) => (text === null ? undefined : parseRecord(text)));
}

/** Adds a new key's record; it is live at every ingress within a second. When it rejects with a time-out the outcome is unknown; the same call may be repeated. */
export async function addRecord(redis: Redis, keyspace: Keyspace, hash: string, record: KeyRecord): Promise<void> {
  if (!(await write(redis, keyspace, hash, "", JSON.stringify(record))))
    throw new Error("another record has this key's hash");
}

/** Revokes a key at `now` (epoch milliseconds), once: the first revocation's time stays. Undefined when there is no such record. */
export async function revokeRecord(
  redis: Redis,
  keyspace: Keyspace,
  hash: string,
  now: number,
): Promise<KeyRecord | undefined> {
  for (let attempt = 1; attempt <= revokeAttemptsMax; attempt++) {
    const present = await redis.hget(keyspace.keys, hash);
    const record = present === null ? undefined : parseRecord(present);
    if (present === null || !record || record.revokedAt !== undefined) return record;
    const revoked = { ...record, revokedAt: now };
    if (await write(redis, keyspace, hash, present, JSON.stringify(revoked))) return revoked;
  }
  throw new Error("the record is changed by others all the time");
}

/**
 * Writes back records that Redis lost, and tells every follower; `version` is the one they were held under.
 * It may stop half-way when Redis goes away: what was written is right, and repeating it does the rest. Nothing is told when nothing was lost.
 */
export async function restoreRecords(
  redis: Redis,
  keyspace: Keyspace,
  records: readonly (readonly [hash: string, record: KeyRecord])[],
  version: number,
): Promise<void> {
  let written = 0;
  for (let start = 0; start < records.length; start += pageSize) {
    const pairs = records.slice(start, start + pageSize).flatMap(([hash, record]) => [hash, JSON.stringify(record)]);
    written += Number(await runScript(redis, restoreScript, [keyspace.keys], pairs));
  }
  if (written > 0) await runScript(redis, announceScript, [keyspace.keysVersion], [version, keyspace.keysChanged]);
}

async function write(
  redis: Redis,
  keyspace: Keyspace,
  hash: string,
  expected: string,
  record: string,
): Promise<boolean> {
  const version = await runScript(
    redis,
    writeScript,
    [keyspace.keys, keyspace.keysVersion],
    [hash, expected, record, keyspace.keysChanged],
  );
  return version !== 0;
}
