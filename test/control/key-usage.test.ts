/** The usage of keys that ingresses read from Redis. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { keyUsageOf } from "#ledger/key-usage.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { KeyUsagePublisher } from "../../apps/control/ledger/key-usage.ts";
import { connectTestRedis } from "../support/redis.ts";
import { until } from "../support/time.ts";
import { openPostgres } from "./databases.ts";
import { usageRecord } from "./records.ts";

const redis = await connectTestRedis("request");

test("an empty Redis gets the usage of all keys, and a total has what came late of an earlier month", async () => {
  await using opened = await openPostgres();
  const { database } = opened;
  const keyspace = keyspaceOf("key-usage");
  // A Sunday, so the week began in October.
  let now = Date.UTC(2026, 10, 1, 12);
  const record = (keyId: string, month: number, day: number, cost: string) =>
    usageRecord({ keyId, cost, receivedAt: Date.UTC(2026, month, day, 12) });
  await insertUsage(database, [
    record("key_old", 7, 3, "2"),
    record("key_week", 9, 28, "3"),
    record("key_now", 10, 1, "4"),
  ]);
  const publisher = new KeyUsagePublisher({
    ...{ database, redis, keyspace, log: pino({ level: "silent" }) },
    clock: { ...systemClock, epoch: () => now },
  });
  const costsOf = async (keyId: string) => {
    const { week, month, total } = keyUsageOf(await redis.hget(keyspace.keyUsage, keyId), now);
    return [week.cost, month.cost, total];
  };
  const published = (keyId: string, total: string) =>
    until(`${keyId} costs ${total}`, async () => (await costsOf(keyId))[2] === total);
  try {
    for (let round = 0; round < 2; round++) {
      await published("key_old", "2");
      assert.deepEqual(await costsOf("key_old"), ["0", "0", "2"]);
      assert.deepEqual(await costsOf("key_week"), ["3", "0", "3"]);
      assert.deepEqual(await costsOf("key_now"), ["4", "4", "4"]);
      await redis.del(keyspace.keyUsage);
    }
    await published("key_now", "4");
    await insertUsage(database, [record("key_now", 9, 31, "5")]);
    now += 3_600_000;
    publisher.changed(["key_now"]);
    await published("key_now", "9");
    assert.deepEqual(await costsOf("key_now"), ["9", "4", "9"]);
  } finally {
    publisher.close();
  }
});
