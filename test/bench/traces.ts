/**
 * Cost of tracing and of metrics per request: CPU time of this process for the events, spans,
 * batches and exports of requests to a collector in another process, with and without them in
 * turns. `npm run bench:traces` prints the medians of the rounds.
 */
import { pino } from "pino";
import { openTracing } from "#tracing/tracing.ts";
import { eventCost } from "./event-cost.ts";
import { startScript } from "./processes.ts";
import { median } from "./report.ts";

const rounds = Number(process.env.BENCH_ROUNDS ?? 15);
const requests = Number(process.env.BENCH_REQUESTS ?? 5_000);

const collector = await startScript("test/bench/trace-collector.ts");
process.env.OTEL_EXPORTER_OTLP_ENDPOINT = collector.urls.api as string;
process.env.OTEL_BSP_SCHEDULE_DELAY = "5";
const tracing = await openTracing("bench", process.env, pino());
if (tracing === undefined) throw new Error("tracing is off");
const figures: Record<"none" | "metrics" | "traces", number[]> = { none: [], metrics: [], traces: [] };
for (let round = -2; round < rounds; round++)
  for (const kind of ["none", "metrics", "traces"] as const) {
    const cost = await eventCost(kind === "traces" ? tracing : kind, requests);
    if (round >= 0) figures[kind].push(cost);
  }
await tracing.close();
await collector.stop();
const [none, metrics, traces] = [median(figures.none), median(figures.metrics), median(figures.traces)];
console.log(`CPU per request, medians of ${rounds} rounds of ${requests} requests with four spans each:`);
console.log(
  `off ${none.toFixed(1)} µs   metrics ${(metrics - none).toFixed(1)} µs   tracing ${(traces - none).toFixed(1)} µs`,
);
console.log(`spans exported ${tracing.counts.exported}, dropped ${tracing.counts.dropped}`);
