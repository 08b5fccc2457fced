/** Control's metrics (https://prometheus.io/docs/practices/naming/), read when they are scraped. */
import type { Registry } from "prom-client";
import { readMetrics } from "#service/metrics.ts";
import type { Redis } from "#service/redis.ts";
import type { KeyProjection } from "./keys/key-projection.ts";
import type { Ledger } from "./ledger/ledger.ts";
import { readRedisState } from "./operations/redis-state.ts";

export interface ControlReadings {
  ledger: Pick<Ledger, "counts" | "budgets" | "lagSeconds" | "invalidRecords">;
  projection: Pick<KeyProjection, "isBehind">;
  redis: Redis;
  /** Vendors' batches that have left lines unanswered. */
  vendorFailures(): number;
}

export function registerControlMetrics(
  registry: Registry,
  { ledger, projection, redis, vendorFailures }: ControlReadings,
): void {
  const { counter, gauge } = readMetrics(registry);
  counter("sluice_ledger_records_total", "Usage records that this process has stored.", () => ledger.counts.inserted);
  counter(
    "sluice_budget_differences_total",
    "Differences between budgets in Redis and the ledger that were found and corrected. Zero unless something broke.",
    () => ledger.budgets.differences,
  );
  gauge(
    "sluice_ledger_lag_seconds",
    "The age of the oldest usage record that the ledger does not have yet; about a second when it is current. NaN while Redis is away.",
    () => ledger.lagSeconds(),
  );
  gauge(
    "sluice_ledger_invalid_records",
    "Usage records in the stream usage:invalid, which the ledger put aside because it cannot store them. NaN while Redis is away.",
    () => ledger.invalidRecords(),
  );
  gauge("sluice_keys_behind", "1 while Redis may lack a change of keys.", () => Number(projection.isBehind));
  counter(
    "sluice_vendor_batches_failed_total",
    "Batches of vendors that were refused, failed, or left requests unanswered, which this process then ran one by one. Its log has the reasons.",
    vendorFailures,
  );
  const state = () => readRedisState(redis);
  gauge("sluice_redis_memory_bytes", "Memory that Redis uses. NaN while Redis is away.", () =>
    state().then(({ memoryBytes }) => memoryBytes),
  );
  gauge("sluice_redis_memory_max_bytes", "Redis' maxmemory; 0 without a limit. NaN while Redis is away.", () =>
    state().then(({ memoryMaxBytes }) => memoryMaxBytes),
  );
  gauge("sluice_redis_clients", "Connections to Redis. NaN while Redis is away.", () =>
    state().then(({ clients }) => clients),
  );
  gauge(
    "sluice_redis_commands_per_second",
    "Commands that Redis processes, as it counts them itself. NaN while Redis is away.",
    () => state().then(({ commandsPerSecond }) => commandsPerSecond),
  );
}
