/**
 * Fan-out: what a stream costs Redis when several ingresses and workers share the load of one pair.
 */
import { setTimeout as delay } from "node:timers/promises";
import { connectRedis } from "#service/redis.ts";
import { type FreshCase, withFresh } from "./fresh.ts";
import { chatBodyOf, chatPath, startStreams } from "./load.ts";
import { cpuOf, record, type Table } from "./report.ts";
import { type Bench, interleaved, meterOf, perOne } from "./rounds.ts";
import type { Sluice } from "./sluice.ts";
import { streamChunks, streamModel, streamMs } from "./streams.ts";

export const fanOutSizes = { pair: "1 ingress, 1 worker", several: "3 ingresses, 4 workers" };
const sizes: FreshCase[] = [
  { name: fanOutSizes.pair, options: {} },
  { name: fanOutSizes.several, options: { ingresses: 3, workers: 4 } },
];

/** How often Redis has run SPUBLISH. */
async function publishesOf(redisUrl: string): Promise<number> {
  const redis = await connectRedis(redisUrl, "patient");
  const info = await redis.info("commandstats");
  redis.disconnect();
  return Number(/^cmdstat_spublish:calls=(\d+)/m.exec(info)?.[1] ?? 0);
}

export async function measureFanOut(bench: Bench): Promise<Table> {
  const callers = bench.quick ? 16 : 128;
  const windowMs = bench.quick ? 2_000 : 8_000;
  const table: Table = {
    key: "fan-out",
    title: "Fan-out",
    notes: [
      `${callers} callers of streams of ${streamChunks} chunks, one every 20 ms: the same load for one pair and for several processes, in turns, with the others paused.`,
    ],
    labels: ["processes"],
    columns: [
      { key: `${cpuOf}redis`, head: "Redis CPU µs/stream", digits: 0 },
      { key: "publishes", head: "SPUBLISH/stream", digits: 1 },
      { key: "cpu", head: "CPU µs/stream", digits: 0 },
      { key: "streams", head: "streams/s", digits: 1 },
      { key: "firstP50", head: "first p50 ms", digits: 1 },
      { key: "gapP99", head: "gap p99 ms", digits: 1 },
    ],
    rows: [],
  };
  const measure = async (system: Sluice, label: string) => {
    const body = chatBodyOf(streamModel, { stream: true });
    const load = { system, path: chatPath, body, callers, rampMs: streamMs, chunks: streamChunks };
    const streams = await startStreams(load);
    try {
      await delay(bench.quick ? 0 : 1_500);
      const meter = meterOf(system);
      const before = await publishesOf(system.redisUrl);
      let figures: Record<string, number> = {};
      const window = await streams.watch(windowMs, async () => {
        await delay(windowMs);
        const publishes = (await publishesOf(system.redisUrl)) - before;
        figures = { ...meter(), publishes: publishes / 1e6 };
      });
      // The streams overlap the window's ends, so their number follows from their chunks.
      const count = window.chunks / streamChunks;
      const { firstP50, gapP99, errors } = window;
      const streamsPerSecond = count / window.seconds;
      record(table, [label], { ...perOne(figures, count), streams: streamsPerSecond, firstP50, gapP99 }, errors);
    } finally {
      await streams.stop();
    }
  };
  await withFresh(bench, sizes, (systems) =>
    interleaved(
      { ...bench, systems },
      "fan-out",
      (system) => measure(system as Sluice, system.name),
      (system, fault) => record(table, [system], {}, [fault]),
    ),
  );
  return table;
}
