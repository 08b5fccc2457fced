/** The key that the first start creates, so that the first call needs no further step. */
import { hashOf } from "#access/key.ts";
import { issueKey, readSome } from "#access/projection.ts";
import { stateOf } from "#access/record.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { readTrimmed, type State, writePrivately } from "./state.ts";

/**
 * Returns the key in `.sluice/first-key` if it is live and belongs to the group; otherwise creates
 * a new one and stores it there. It can be revoked like any other key.
 */
export async function ensureFirstKey(
  { firstKeyFile }: State,
  redis: Redis,
  keyspace: Keyspace,
  group: string,
): Promise<string> {
  const stored = readTrimmed(firstKeyFile);
  if (stored !== undefined) {
    const [record] = await readSome(redis, keyspace, [hashOf(stored)]);
    if (record && record.group === group && stateOf(record, Date.now()) === "live") return stored;
  }
  const { key } = await issueKey(redis, keyspace, { name: "first-run", group, createdAt: Date.now() });
  writePrivately(firstKeyFile, `${key}\n`);
  return key;
}
