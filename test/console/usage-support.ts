/** Usage records for tests of the console, through the stream of a gateway. */
import type { UsageRecord } from "#ledger/usage-record.ts";
import { encodeUsageRecord } from "#ledger/usage-record.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectRedis } from "#service/redis.ts";
import { usageRecord } from "../control/records.ts";
import type { TestConsole } from "../support/console.ts";
import { until } from "../support/time.ts";

const recordsTogether = 100;

/** Writes records of one account, which has none so far, and waits until the ledger has them. */
export async function record(
  { gateway, control }: TestConsole,
  account: string,
  records: readonly Partial<UsageRecord>[],
): Promise<UsageRecord[]> {
  const whole = records.map((more) => usageRecord({ account, ...more }));
  const redis = await connectRedis(gateway.redis.url, "request");
  try {
    for (let start = 0; start < whole.length; start += recordsTogether) {
      const batch = whole.slice(start, start + recordsTogether);
      await redis.xadd(keyspaceOf("sluice").usage, "*", "r", batch.map(encodeUsageRecord).join("\n"));
    }
  } finally {
    redis.disconnect();
  }
  await until("the ledger has the records", async () => {
    const { total } = await control.get<{ total: { requests: number } }>(`/usage?account=${account}&interval=none`);
    return total.requests === whole.length;
  });
  return whole;
}
