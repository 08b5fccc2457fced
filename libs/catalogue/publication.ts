/**
 * The catalogue's stored entries in Redis. Control puts them there after each change, and again
 * after Redis has lost them; ingresses and workers follow.
 */

import { followValue } from "#service/followed-value.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { StartupFault } from "#service/startup.ts";
import type { StoredRevision } from "./stored.ts";
import type { CatalogueWatch } from "./watch.ts";

/** A process knows a change of which it missed the notice within this time. */
const readEveryMs = 2_000;

/** Identifies a revision, also among databases. */
export const revisionIdOf = ({ number, sha256 }: Pick<StoredRevision, "number" | "sha256">): string =>
  `${number} ${sha256}`;

/** The id of the revision in Redis; null without one. */
export const publishedId = (redis: Redis, keyspace: Keyspace): Promise<string | null> =>
  redis.hget(keyspace.catalogue, "id");

export async function publishRevision(redis: Redis, keyspace: Keyspace, revision: StoredRevision): Promise<void> {
  await redis.hset(keyspace.catalogue, { id: revisionIdOf(revision), revision: JSON.stringify(revision) });
  await redis.publish(keyspace.catalogueChanged, "").catch(() => undefined);
}

export interface FollowCatalogueOptions {
  redis: Redis;
  /**
   * A shared connection in subscriber mode. The caller closes both connections, after the follower.
   */
  subscriber: Redis;
  keyspace: Keyspace;
  watch: CatalogueWatch;
}

/**
 * Puts the stored entries into the watch, and each later revision. Resolves to what ends that.
 * Rejects without Redis, and with a StartupFault if the entries cannot be in force: a process that
 * starts would otherwise serve less than those before it.
 */
export async function followStoredCatalogue({
  redis,
  subscriber,
  keyspace,
  watch,
}: FollowCatalogueOptions): Promise<() => void> {
  let id: string | null = null;
  let fault: string | undefined;
  const read = async () => {
    const published = await publishedId(redis, keyspace);
    if (published === null || published === id) return;
    const text = await redis.hget(keyspace.catalogue, "revision");
    if (text === null) return;
    const revision = JSON.parse(text) as StoredRevision;
    id = revisionIdOf(revision);
    fault = watch.put(revision);
  };
  const close = await followValue({
    redis,
    subscriber,
    channel: keyspace.catalogueChanged,
    everyMs: readEveryMs,
    read,
  });
  if (fault === undefined) return close;
  close();
  throw new StartupFault(fault);
}
