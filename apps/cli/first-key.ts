/** The key that the first run makes, so that the first call needs no further step. */
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { createKey, hashOf } from "#access/key.ts";
import { addRecord, readSome } from "#access/projection.ts";
import { stateOf } from "#access/record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { type State, writePrivately } from "./state.ts";

/** The key in `.sluice/first-key` if it is in force, else a new one of the group, kept there. Its owner may revoke it like any other. */
export async function ensureFirstKey(
  state: State,
  redisUrl: string,
  namespace: string,
  group: string,
): Promise<string> {
  const redis = await connectRedis(redisUrl, "request");
  try {
    const keyspace = keyspaceOf(namespace);
    const kept = readKept(state.firstKeyFile);
    if (kept !== undefined) {
      const [record] = await readSome(redis, keyspace, [hashOf(kept)]);
      if (record && record.group === group && stateOf(record, Date.now()) === "live") return kept;
    }
    const { key, hash, hint } = createKey();
    await addRecord(redis, keyspace, hash, {
      id: `key_${randomBytes(12).toString("hex")}`,
      name: "first-run",
      group,
      hint,
      createdAt: Date.now(),
    });
    writePrivately(state.firstKeyFile, `${key}\n`);
    return key;
  } finally {
    redis.disconnect();
  }
}

function readKept(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}
