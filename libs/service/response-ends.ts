/**
 * The ends of background responses in a Redis stream, which an ingress adds to and control takes.
 * The stream is bounded: without control, the oldest ones are dropped.
 */
import type { Keyspace } from "./keyspace.ts";
import type { Redis } from "./redis.ts";

export interface ResponseEnd {
  account: string;
  id: string;
  /** Such as `completed`. */
  status: string;
  /** Epoch milliseconds. */
  at: number;
}

/** Ends that wait at most, about 150 bytes each. */
export const responseEndsMax = 50_000;

/** The oldest ends, at most `count`, and the ids of their entries. */
export async function readResponseEnds(
  redis: Redis,
  keyspace: Keyspace,
  count: number,
): Promise<{ ids: string[]; ends: ResponseEnd[] }> {
  const entries = await redis.xrange(keyspace.runsEnded, "-", "+", "COUNT", count);
  const ends = entries.flatMap(([entry, [, account = "", , id = "", , status = ""]]) =>
    account === "" || id === "" ? [] : [{ account, id, status, at: Number.parseInt(entry, 10) }],
  );
  return { ids: entries.map(([entry]) => entry), ends };
}

export async function removeResponseEnds(redis: Redis, keyspace: Keyspace, ids: readonly string[]): Promise<void> {
  if (ids.length > 0) await redis.xdel(keyspace.runsEnded, ...ids);
}
