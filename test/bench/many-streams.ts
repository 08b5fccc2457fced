/**
 * Very many slow streams that begin at once: how long the last waits for its first chunk, and how
 * the running ones fare meanwhile and afterwards.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { keyspaceOf } from "#service/keyspace.ts";
import { type ProcessReport, readProcessReports } from "#service/process-reports.ts";
import { connectRedis } from "#service/redis.ts";
import { chatBodyOf, chatPath, startOpenCallers } from "./load.ts";
import { copyOfCheckout, NpmStart } from "./npm-start.ts";
import { openFilesMax, residentKibibytesOf } from "./processes.ts";
import { record, type Table } from "./report.ts";
import { type Bench, meterOf, warmUp } from "./rounds.ts";
import { catalogueOf, startSluice } from "./sluice.ts";
import type { System } from "./system.ts";

const shortModel = "short-0";
const filesBeside = 500;
const reportMs = 1_000;
const settleMsMax = 120_000;

interface Gateway {
  system: System;
  redisUrl: string;
}

/** Figures that the processes reported each second. */
interface Observed {
  /** By role: the 99th percentile of the event loop's delay, each second. */
  delays: Record<string, number[]>;
  /** Why the worker took no more, as far as it said so; and the most generations that it had. */
  saturated: Set<string>;
  usedSlots: number;
}

/**
 * Reads the reports of the gateway's processes every second until the returned function is called.
 */
async function observe(redisUrl: string): Promise<() => Observed> {
  const redis = await connectRedis(redisUrl, "patient");
  const observed: Observed = { delays: {}, saturated: new Set(), usedSlots: 0 };
  const seen = new Set<string>();
  const look = (report: ProcessReport) => {
    const mark = `${report.id} ${report.at}`;
    if (seen.has(mark)) return;
    seen.add(mark);
    observed.delays[report.role] ??= [];
    observed.delays[report.role]?.push(report.eventLoopDelayMs);
    if (report.role !== "worker") return;
    const { saturated, queues } = report.status as { saturated?: string; queues: { usedSlots: number }[] };
    if (saturated !== undefined) observed.saturated.add(saturated);
    observed.usedSlots = Math.max(observed.usedSlots, ...queues.map(({ usedSlots }) => usedSlots));
  };
  const timer = setInterval(async () => {
    for (const report of await readProcessReports(redis, keyspaceOf("sluice"), Date.now())) look(report);
  }, reportMs / 2);
  return () => {
    clearInterval(timer);
    redis.disconnect();
    return observed;
  };
}

const columns = [
  { key: "usedSlots", head: "at once, at most", digits: 0 },
  { key: "firstP50", head: "first p50 ms", digits: 0 },
  { key: "firstMax", head: "first max ms", digits: 0 },
  { key: "startCores", head: "cores at first", digits: 2 },
  { key: "gapP50", head: "gap p50 ms", digits: 2 },
  { key: "gapP99", head: "gap p99 ms", digits: 1 },
  { key: "cores", head: "cores", digits: 2 },
  { key: "ingressDelay", head: "ingress p99 ms", digits: 1 },
  { key: "workerDelay", head: "worker p99 ms", digits: 1 },
  { key: "ingressKibibytes", head: "ingress KiB/stream", digits: 1 },
  { key: "workerKibibytes", head: "worker KiB/stream", digits: 1 },
  { key: "complete", head: "complete", digits: 0 },
];

interface Case {
  label: string;
  streams: number;
  intervalMs: number;
  chunks: number;
  /** The time over which they are asked for, and within which all have begun. */
  overMs: number;
  startMs: number;
  start(bench: Bench, model: string): Promise<Gateway & { stop(): Promise<void> }>;
}

/** With the settings of `npm start`, and a catalogue of the bench's models. */
async function startDefaults(bench: Bench, model: string): Promise<Gateway & { stop(): Promise<void> }> {
  const root = copyOfCheckout();
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-"));
  const catalogue = join(directory, "catalogue.yaml");
  const options = { models: [shortModel, model], upstreamUrl: bench.upstream.url };
  await writeFile(catalogue, catalogueOf({ ...options, waitingMax: undefined, connectionsMax: undefined }));
  const started = new NpmStart(root, { SLUICE_CATALOGUE: catalogue });
  const stop = async () => {
    await started.stop();
    await rm(directory, { recursive: true, force: true });
    await rm(root, { recursive: true, force: true });
  };
  try {
    const { address, key, pids, redisUrl } = await started.ready();
    const processes = ["ingress", "worker", "redis", "control", "simulator"].map((name) => ({
      name,
      pid: pids[name] as number,
    }));
    const headers = { authorization: `Bearer ${key}` };
    return { system: { name: "npm start", version: "", urls: [address], headers, processes, stop }, redisUrl, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startLarge(bench: Bench, model: string): Promise<Gateway & { stop(): Promise<void> }> {
  const options = { name: "sluice", ingresses: 1, workers: 1, upstreamUrl: bench.upstream.url };
  const system = await startSluice({ ...options, models: [shortModel, model] });
  return { system, redisUrl: system.redisUrl, stop: system.stop };
}

const residentOf = ({ processes }: System, role: string): number =>
  residentKibibytesOf(processes.find(({ name }) => name === role)?.pid as number);

async function measureCase(bench: Bench, table: Table, { label, streams, start, ...load }: Case): Promise<void> {
  const { intervalMs, chunks, overMs, startMs } = load;
  const model = `stream-${chunks}-${intervalMs}`;
  const gateway = await start(bench, model);
  const { system } = gateway;
  try {
    await warmUp(system, bench, shortModel);
    await delay(bench.quick ? 0 : 2_000);
    const body = chatBodyOf(model, { stream: true });
    const callers = await startOpenCallers({ system, path: chatPath, body, connections: streams, chunks });
    try {
      await delay(bench.quick ? 0 : 1_000);
      const before = { ingress: residentOf(system, "ingress"), worker: residentOf(system, "worker") };
      const meter = meterOf(system);
      let ended: Promise<void> | undefined;
      const begun = await callers.watch(async () => {
        ended = callers.burst(streams, { overMs, follows: false, msMax: settleMsMax });
        ended.catch(() => {});
        await delay(startMs);
      });
      const startCores = ((meter().cpu as number) * 1_000) / startMs;
      const observed = await observe(gateway.redisUrl);
      const flowingMeter = meterOf(system);
      const flowMs = (chunks - 2) * intervalMs - startMs;
      const flowing = await callers.watch(() => delay(flowMs));
      const cores = ((flowingMeter().cpu as number) * 1_000) / flowMs;
      const after = { ingress: residentOf(system, "ingress"), worker: residentOf(system, "worker") };
      const { delays, saturated, usedSlots } = observed();
      const rest = await callers.watch(() => ended as Promise<void>);
      if (saturated.size > 0) bench.tell(`${label}: the worker took no more: ${[...saturated].join(", ")}`);
      const figures = {
        firstP50: begun.firstP50,
        firstMax: Math.max(begun.firstMax, Number.isNaN(flowing.firstMax) ? 0 : flowing.firstMax),
        startCores,
        usedSlots,
        gapP50: flowing.gapP50,
        gapP99: flowing.gapP99,
        cores,
        ingressDelay: Math.max(...(delays.ingress ?? [])),
        workerDelay: Math.max(...(delays.worker ?? [])),
        ingressKibibytes: (after.ingress - before.ingress) / streams,
        workerKibibytes: (after.worker - before.worker) / streams,
        complete: begun.complete + flowing.complete + rest.complete,
      };
      record(table, [label, streams], figures, [...begun.errors, ...flowing.errors, ...rest.errors]);
    } finally {
      await callers.stop();
    }
  } finally {
    await gateway.stop();
  }
}

export async function measureManyStreams(bench: Bench): Promise<Table> {
  const few = { label: "npm start, at once", overMs: 0, start: startDefaults };
  const many = { streams: 10_000, intervalMs: 5_000, chunks: 10, startMs: 15_000, start: startLarge };
  return measureCases(
    bench,
    {
      key: "many-streams",
      title: "Many slow streams",
      notes: [
        "Streams that begin at once, or evenly over a time, with one chunk a second (2,000 streams) or every five seconds (10,000): first chunks, and the CPU of the gateway in the first 3 or 15 s.",
        ...notes,
      ],
    },
    bench.quick
      ? [{ ...few, streams: 200, intervalMs: 500, chunks: 12, startMs: 2_000 }]
      : [
          { ...few, streams: 2_000, intervalMs: 1_000, chunks: 21, startMs: 3_000 },
          { ...many, label: "at once", overMs: 0 },
          { ...many, label: "over 10 s", overMs: 10_000 },
        ],
  );
}

/** More than one worker can have at once: some wait, those that run are not disturbed. */
export async function measureSaturation(bench: Bench): Promise<Table> {
  const often = { intervalMs: 100, chunks: 200, overMs: 0, startMs: 5_000, start: startDefaults };
  return measureCases(
    bench,
    {
      key: "saturation",
      title: "A saturated worker",
      notes: [
        "Streams of 200 chunks, one every 100 ms, that are asked for at once: more of them than the machine can bear.",
        ...notes,
      ],
    },
    (bench.quick ? [200] : [3_000]).map((streams) => ({ ...often, label: "npm start", streams })),
  );
}

const notes = [
  "Then, until the first end: gaps (by how much the time between two chunks differs from the upstream's own), the CPU, and the 99th percentile of the event loops' delay in the worst second.",
  "Memory: resident, and grown since the connections were opened. Complete: every chunk came, in order, and the end.",
];

async function measureCases(
  bench: Bench,
  about: Pick<Table, "key" | "title" | "notes">,
  cases: readonly Case[],
): Promise<Table> {
  const table: Table = { ...about, labels: ["start", "streams"], columns, rows: [] };
  for (let round = 0; round < bench.rounds; round++)
    for (const one of cases.filter(({ streams }) => streams + filesBeside <= openFilesMax())) {
      bench.tell(`${one.streams} streams, ${one.label}, round ${round + 1}`);
      await measureCase(bench, table, one);
    }
  return table;
}
