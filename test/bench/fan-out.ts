/**
 * Fan-out: what a stream costs Redis when several ingresses and workers share the load of one pair.
 */
import { setTimeout as delay } from "node:timers/promises";
import { connectRedis } from "#service/redis.ts";
import { chatBodyOf, chatPath, startStreams } from "./load.ts";
import { cpuOf, record, type Table } from "./report.ts";
import { type Bench, inTurn, meterOf, pause, perOne, unpause, warmUp } from "./rounds.ts";
import { type Sluice, startSluice } from "./sluice.ts";
import { streamChunks, streamModel, streamMs } from "./streams.ts";

const shortModel = "short-0";
const sizes = [
  { name: "1 ingress, 1 worker", ingresses: 1, workers: 1 },
  { name: "3 ingresses, 4 workers", ingresses: 3, workers: 4 },
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
  const systems: { label: string; system: Sluice }[] = [];
  try {
    for (const { name: label, ...size } of sizes) {
      const models = [shortModel, streamModel];
      const system = await startSluice({ name: "sluice", ...size, upstreamUrl: bench.upstream.url, models });
      systems.push({ label, system });
      await warmUp(system, bench, shortModel);
      pause(system);
    }
    for (let round = 0; round < bench.rounds; round++)
      for (const { label, system } of round % 2 === 0 ? systems : systems.toReversed()) {
        bench.tell(`fan-out, ${label}, round ${round + 1}`);
        await inTurn(system, shortModel, () => measure(system, label));
      }
  } finally {
    for (const { system } of systems) {
      unpause(system);
      await system.stop();
    }
  }
  return table;
}
