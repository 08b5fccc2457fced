/** How far the ledger is behind the usage stream, read in Redis. */
import { setTimeout as delay } from "node:timers/promises";
import { systemClock as clock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis, type Redis } from "#service/redis.ts";

const { usage } = keyspaceOf("sluice");
const group = "ledger";
const lookMs = 50;
/** Ten times as long as ingresses and workers collect records before they write them. */
const calmMs = 500;
const msMax = 120_000;

/**
 * The age of the oldest entry that the ledger has not confirmed, in milliseconds; 0 without one.
 */
export async function ledgerLagMs(redis: Redis): Promise<number> {
  const groups = ((await redis.xinfo("GROUPS", usage).catch(() => [])) as unknown[][]).map(fieldsOf);
  const ledger = groups.find(({ name }) => name === group);
  if (ledger === undefined) return 0;
  const [pending, next] = await Promise.all([
    redis.xpending(usage, group) as Promise<[count: number, oldest: string | null]>,
    redis.xrange(usage, `(${ledger["last-delivered-id"]}`, "+", "COUNT", 1),
  ]);
  const times = [pending[1], next[0]?.[0]].flatMap((id) => (id ? Number.parseInt(id, 10) : []));
  return times.length === 0 ? 0 : Math.max(1, clock.epoch() - Math.min(...times));
}

/**
 * Waits until the ledger has every entry of the stream, and no other has come for a while; resolves
 * to the milliseconds until it had the last one.
 */
export async function ledgerCaughtUp(redisUrl: string): Promise<number> {
  const redis = await connectRedis(redisUrl, "patient");
  try {
    const startedAt = clock.now();
    let currentSince = startedAt;
    while (clock.now() - currentSince < calmMs) {
      if ((await ledgerLagMs(redis)) > 0) currentSince = clock.now();
      if (clock.now() - startedAt > msMax) throw new Error(`the ledger did not catch up within ${msMax / 1_000} s`);
      await delay(lookMs);
    }
    return currentSince - startedAt;
  } finally {
    redis.disconnect();
  }
}

/** Usage records that these control processes have stored, by their metrics. */
export async function ledgerRecordsOf(operationsUrls: readonly string[]): Promise<number> {
  const counts = operationsUrls.map(async (url) => {
    const metrics = await (await fetch(`${url}/metrics`)).text();
    return Number(/^sluice_ledger_records_total (\d+)/m.exec(metrics)?.[1]);
  });
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0);
}

const fieldsOf = (flat: unknown[]): Record<string, unknown> =>
  Object.fromEntries(flat.flatMap((name, place) => (place % 2 === 0 ? [[String(name), flat[place + 1]]] : [])));
