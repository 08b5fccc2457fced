/** The relay's metrics, the same in every process. */
import type { Registry } from "prom-client";
import { readMetrics } from "#service/metrics.ts";
import type { Transport } from "./ports.ts";

/**
 * Registers gauges and counters that read the transport's statistics when they are scraped.
 * `resends` returns how many frames this process sent again.
 */
export function registerRelayMetrics(registry: Registry, transport: Transport, resends: () => number = () => 0): void {
  const { statistics } = transport;
  const { counter, gauge } = readMetrics(registry);
  counter("sluice_frames_sent_total", "Frames that left this process.", () => statistics.framesSent);
  counter("sluice_frames_received_total", "Frames that reached this process.", () => statistics.framesReceived);
  counter("sluice_frames_resent_total", "Frames that were sent again because the owner missed them.", resends);
  counter(
    "sluice_unreadable_envelopes_total",
    "Envelopes of frames that this process cannot read, such as those of another protocol.",
    () => statistics.unreadableEnvelopes,
  );
  counter("sluice_publishes_total", "Envelopes published.", () => statistics.publishes);
  counter(
    "sluice_publish_failures_total",
    "Envelopes that could not be published, or whose outcome is unknown.",
    () => statistics.publishFailures,
  );
  gauge("sluice_redis_round_trip_seconds", "The last round trip of a PUBLISH.", () => statistics.roundTripMs / 1_000);
  gauge("sluice_relay_connected", "1 while both connections of the mailbox are up.", () =>
    Number(transport.isConnected),
  );
}
