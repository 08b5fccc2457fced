/**
 * The metrics of usage records on their way to the ledger, the same in every process that writes
 * them.
 */
import type { Registry } from "prom-client";
import { readMetrics } from "#service/metrics.ts";
import type { UsageStream } from "./usage-stream.ts";

/** Registers gauges and counters that read the stream's counts when they are scraped. */
export function registerUsageMetrics(registry: Registry, stream: Pick<UsageStream, "counts">): void {
  const { counter, gauge } = readMetrics(registry);
  gauge(
    "sluice_usage_pending_records",
    "Usage records that wait in memory for Redis or for a file. At 100,000 further ones are lost.",
    () => stream.counts.pending,
  );
  gauge(
    "sluice_usage_spooled_bytes",
    "Bytes of usage records in files that this process will send: Redis is away, or the stream is full because the ledger is behind.",
    () => stream.counts.spooledBytes,
  );
  counter(
    "sluice_usage_written_records_total",
    "Usage records that Redis took from this process. One that was sent twice counts twice.",
    () => stream.counts.written,
  );
  counter(
    "sluice_usage_lost_records_total",
    "Usage records that were dropped: neither Redis nor a file took them. Zero unless a disk is full or broken.",
    () => stream.counts.lost,
  );
}
