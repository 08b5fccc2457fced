/**
 * The catalogue's stored entries in Redis. Control puts them there after each change, and again
 * after Redis has lost them; ingresses and workers follow.
 */

import { followValue } from "#service/followed-value.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { StartupFault } from "#service/startup.ts";
import type { PublishedCredentials } from "./credentials.ts";
import { noRevision, type StoredRevision } from "./stored.ts";
import type { CatalogueWatch } from "./watch.ts";

/** A process knows a change of which it missed the notice within this time. */
const readEveryMs = 2_000;

/** Identifies a revision, also among databases. */
export const revisionIdOf = ({ number, sha256 }: Pick<StoredRevision, "number" | "sha256">): string =>
  `${number} ${sha256}`;

/** The id of the revision in Redis; null without one. */
export const publishedId = (redis: Redis, keyspace: Keyspace): Promise<string | null> =>
  redis.hget(keyspace.catalogue, "id");

export const publishRevision = (redis: Redis, keyspace: Keyspace, revision: StoredRevision): Promise<void> =>
  publish(redis, keyspace, { id: revisionIdOf(revision), revision: JSON.stringify(revision) });

/** The same for the sealed credentials. */
export const publishedCredentialsId = (redis: Redis, keyspace: Keyspace): Promise<string | null> =>
  redis.hget(keyspace.catalogue, "credentialsId");

export const publishCredentials = (
  redis: Redis,
  keyspace: Keyspace,
  { id, credentials }: { id: string; credentials: PublishedCredentials },
): Promise<void> => publish(redis, keyspace, { credentialsId: id, credentials: JSON.stringify(credentials) });

async function publish(redis: Redis, keyspace: Keyspace, fields: Record<string, string>): Promise<void> {
  await redis.hset(keyspace.catalogue, fields);
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
  /**
   * For workers: gets the sealed credentials before entries that use them. Returns those with two
   * values in use.
   */
  onCredentials?(credentials: PublishedCredentials): Required<StoredRevision>["overlapping"];
}

/**
 * Puts the stored entries into the watch, and each later revision. Resolves to the function that
 * ends it. Rejects without Redis, and with a StartupFault if the entries cannot be in force: a
 * process that starts would otherwise serve less than those before it.
 */
export async function followStoredCatalogue({
  redis,
  subscriber,
  keyspace,
  watch,
  onCredentials,
}: FollowCatalogueOptions): Promise<() => void> {
  let revision = noRevision;
  let credentialsId: string | null = null;
  let overlapping: StoredRevision["overlapping"];
  let fault: string | undefined;
  const partsOf = (...fields: [string, string]) => redis.hmget(keyspace.catalogue, ...fields);
  const read = async () => {
    const [newId = null, newCredentialsId = null] = await partsOf("id", "credentialsId");
    const hasRevision = newId !== null && newId !== revisionIdOf(revision);
    const hasCredentials =
      onCredentials !== undefined && newCredentialsId !== null && newCredentialsId !== credentialsId;
    if (!hasRevision && !hasCredentials) return;
    const [revisionText = null, credentialsText = null] = await partsOf(
      hasRevision ? "revision" : "",
      hasCredentials ? "credentials" : "",
    );
    if (credentialsText !== null) {
      overlapping = onCredentials?.(JSON.parse(credentialsText) as PublishedCredentials);
      credentialsId = newCredentialsId;
    }
    if (revisionText !== null) revision = JSON.parse(revisionText) as StoredRevision;
    fault = watch.put({ ...revision, ...(overlapping && { overlapping }) });
  };
  const channel = keyspace.catalogueChanged;
  const close = await followValue({ redis, subscriber, channel, everyMs: readEveryMs, read });
  if (fault === undefined) return close;
  close();
  throw new StartupFault(fault);
}
