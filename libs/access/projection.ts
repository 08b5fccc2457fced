/**
 * The key records in Redis, which every ingress follows: functions that read them and scripts that
 * change them. Records are never deleted, a revocation is final, and a higher version replaces a
 * lower one. So a missing or earlier record was lost, and copies can be merged in any order. Where
 * control runs, its database has the records, and Redis only a projection of them. The scripts also
 * run while Redis' memory is full, so that a key can always be revoked.
 */
import { randomBytes } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { runScript, scriptOf } from "#service/script.ts";
import { pageSize, revokeAttemptsMax } from "./bounds.ts";
import { createKey } from "./key.ts";
import { type KeyRecord, parseRecord, recordFields } from "./record.ts";

/** Replaces the hash in a notice when several records changed. */
const wholeMark = "*";

/**
 * Writes one record, unless another change came first. KEYS: records (hash), version (counter).
 * ARGV: the key's hash; the expected current record, "" for none; the new record; the channel of
 * notices. Returns the new version, or 0 when the current record differs. Atomic: write, count and
 * notice. Idempotent.
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

/** Lua's form of `isLater`, for records as text; true if there is no other record. */
const laterScript = `
local function isLater(text, other)
  if not other then return true end
  local ok, present = pcall(cjson.decode, other)
  if not ok or type(present) ~= 'table' then return true end
  local record = cjson.decode(text)
  local isRevoked, wasRevoked = record.revokedAt ~= nil, present.revokedAt ~= nil
  if isRevoked ~= wasRevoked then return isRevoked end
  return (record.version or 0) > (tonumber(present.version) or 0)
end`;

/**
 * Writes the records that are later than the present ones. Other present records stay unchanged.
 * KEYS: records (hash), version (counter). ARGV: the channel of notices, "" for none; then pairs of
 * a key's hash and its record. Returns the number of written records. Atomic for its pairs. Without
 * a channel it counts no version, so announceScript must follow.
 */
const mergeScript = scriptOf(
  `${laterScript}
local written = 0
for i = 2, #ARGV, 2 do
  local present = redis.call('HGET', KEYS[1], ARGV[i])
  if isLater(ARGV[i + 1], present) then
    redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    written = written + 1
    if ARGV[1] ~= '' then
      redis.call('PUBLISH', ARGV[1], redis.call('INCR', KEYS[2]) .. ' ' .. ARGV[i])
    end
  end
end
return written`,
  "run",
);

/**
 * Makes every follower read the records again. KEYS: version (counter). ARGV: the version of its
 * caller's copy; the channel of notices. Returns the new version, which is higher than any version
 * of lost data that a follower can have. Atomic: count and notice.
 */
const announceScript = scriptOf(
  `
local version = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), tonumber(ARGV[1])) + 1000
redis.call('SET', KEYS[1], string.format('%.0f', version))
redis.call('PUBLISH', ARGV[2], string.format('%.0f', version) .. ' ${wholeMark}')
return version`,
  "run",
);

/** Announces a change of one record, or of any records when `hash` is undefined. */
export interface Notice {
  version: number;
  hash?: string;
}

/** Parses a message of the channel `keysChanged`; undefined for anything else. */
export function noticeOf(message: string): Notice | undefined {
  const [, version, hash] = /^(\d{1,15}) (\*|[0-9a-f]{64})$/.exec(message) ?? [];
  if (version === undefined || hash === undefined) return undefined;
  return hash === wholeMark ? { version: Number(version) } : { version: Number(version), hash };
}

/** 0 when there were never any records, or Redis lost all of them. */
export async function readVersion(redis: Redis, keyspace: Keyspace): Promise<number> {
  return Number((await redis.get(keyspace.keysVersion)) ?? 0);
}

/**
 * Every record by its key's hash. Reads page by page, so that neither side blocks for long, and
 * skips invalid records.
 */
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

/** The records of these hashes, in their order; undefined for missing and invalid ones. */
export async function readSome(
  redis: Redis,
  keyspace: Keyspace,
  hashes: readonly string[],
): Promise<(KeyRecord | undefined)[]> {
  const texts = await redis.hmget(keyspace.keys, ...hashes);
  return texts.map((text) => (text === null ? undefined : parseRecord(text)));
}

/** Creates a key and adds its record. The returned key is stored nowhere. */
export async function issueKey(
  redis: Redis,
  keyspace: Keyspace,
  fields: Omit<KeyRecord, "id" | "hint">,
): Promise<{ key: string; record: KeyRecord }> {
  const { key, hash, hint } = createKey();
  const record = { id: `key_${randomBytes(12).toString("hex")}`, hint, ...fields };
  await addRecord(redis, keyspace, hash, record);
  return { key, record };
}

/**
 * Adds a new key's record; every ingress accepts the key from then on. After a time-out the outcome
 * is unknown, and the same call may be repeated.
 */
export async function addRecord(redis: Redis, keyspace: Keyspace, hash: string, record: KeyRecord): Promise<void> {
  if (!(await write(redis, keyspace, hash, "", JSON.stringify(record))))
    throw new Error("another record already has this hash");
}

/**
 * Revokes a key at `now` (epoch milliseconds). A later revocation does not change the time.
 * Undefined for an unknown hash.
 */
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
  throw new Error("other processes keep changing the record; try again");
}

/**
 * Restores records that Redis lost and notifies every follower, unless nothing was missing.
 * `version` is that of the caller's copy. May stop half-way when Redis fails; the restored part is
 * correct, and a repeated call restores the rest.
 */
export async function restoreRecords(
  redis: Redis,
  keyspace: Keyspace,
  records: KeyRecords,
  version: number,
): Promise<void> {
  const written = await merge(redis, keyspace, records, "");
  if (written > 0) await runScript(redis, announceScript, [keyspace.keysVersion], [version, keyspace.keysChanged]);
}

/**
 * Writes records that are later than those in Redis, and notifies every follower of each. Resolves
 * to their number. Idempotent; may stop half-way when Redis fails.
 */
export const projectRecords = (redis: Redis, keyspace: Keyspace, records: KeyRecords): Promise<number> =>
  merge(redis, keyspace, records, keyspace.keysChanged);

type KeyRecords = readonly (readonly [hash: string, record: KeyRecord])[];

async function merge(redis: Redis, keyspace: Keyspace, records: KeyRecords, channel: string): Promise<number> {
  let written = 0;
  for (let start = 0; start < records.length; start += pageSize) {
    const pairs = records.slice(start, start + pageSize).flatMap(([hash, record]) => [hash, JSON.stringify(record)]);
    written += Number(await runScript(redis, mergeScript, [keyspace.keys, keyspace.keysVersion], [channel, ...pairs]));
  }
  return written;
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

/** Whether two records say the same, apart from fields of later versions of the gateway. */
export const isSame = (record: KeyRecord, other: KeyRecord): boolean =>
  recordFields.every((field) => isDeepStrictEqual(record[field], other[field]));
