/**
 * The procedure of all measurements: case by case, in several rounds, with a turn for every system
 * in each.
 */
import { setTimeout as delay } from "node:timers/promises";
import { chatBodyOf, chatPath, runShort, type StreamLoad, startStreams } from "./load.ts";
import { cpuSecondsOf, signalAll } from "./processes.ts";
import { cpuOf } from "./report.ts";
import type { StreamWindow } from "./stream-messages.ts";
import { type Absent, isPresent, pidsOf, type System } from "./system.ts";

export interface Bench {
  /** Systems of the comparison, in the order of the tables. */
  systems: (System | Absent)[];
  upstream: System & { url: string };
  rounds: number;
  /** As short as possible while still exercising everything. */
  quick: boolean;
  /** A model of all systems, for a first answer. */
  shortModel: string;
  /** Reports the current measurement. */
  tell(text: string): void;
}

/** Runs load before a measurement, so that compilation by the runtimes does not count. */
export async function warmUp(
  system: System,
  { quick, warmSeconds = 10 }: { quick: boolean; warmSeconds?: number },
  shortModel: string,
  streams?: Pick<StreamLoad, "body" | "chunks">,
): Promise<void> {
  await runShort({
    system,
    path: chatPath,
    bodies: [chatBodyOf(shortModel)],
    connections: quick ? 16 : 64,
    seconds: quick ? 1 : warmSeconds,
  });
  if (quick || streams === undefined) return;
  const load = await startStreams({ system, path: chatPath, callers: 300, rampMs: 1_000, ...streams });
  await delay(warmSeconds * 1_000);
  await load.stop();
  await untilCalm(system);
}

const pausedSystems = new Set<System>();
/** Stopped processes would not notice the end of the bench. */
process.on("exit", () => {
  for (const system of pausedSystems) signalAll(pidsOf(system), "SIGCONT");
});

/** Stops a system's processes, because idle systems would slow the measured one. */
export function pause(system: System): void {
  pausedSystems.add(system);
  signalAll(pidsOf(system), "SIGSTOP");
}

export function unpause(system: System): void {
  signalAll(pidsOf(system), "SIGCONT");
  pausedSystems.delete(system);
}

const resumeMsMax = 20_000;
const resumeAnswers = 20;

/**
 * Continues a system, and waits until all of its addresses answer; broken connections are reopened.
 */
async function resume(system: System, shortModel: string): Promise<void> {
  unpause(system);
  const deadline = performance.now() + resumeMsMax;
  for (const url of system.urls)
    for (let answered = 0; answered < resumeAnswers; ) {
      if (performance.now() > deadline) throw new Error(`${system.name} does not come back`);
      const headers = { "content-type": "application/json", ...system.headers };
      const isGood = await fetch(`${url}${system.pathPrefix ?? ""}${chatPath}`, {
        method: "POST",
        headers,
        body: chatBodyOf(shortModel),
      }).then(
        async (response) => response.ok && (await response.text()) !== "",
        () => false,
      );
      answered = isGood ? answered + 1 : 0;
      if (!isGood) await delay(100);
    }
}

/**
 * Load for a second, and the ledger's work on it: processes that were stopped make up for what they
 * missed, reconnect and hear of each other first.
 */
async function settle(system: System, shortModel: string): Promise<void> {
  await runShort({ system, path: chatPath, bodies: [chatBodyOf(shortModel)], connections: 16, seconds: 1 });
  await system.caughtUp?.();
}

/** A system's turn: continues it, measures, waits until it is idle, and stops it again. */
export async function inTurn(system: System, shortModel: string, use: () => Promise<void>): Promise<void> {
  try {
    await resume(system, shortModel);
    await settle(system, shortModel);
    await use();
    await untilCalm(system);
  } finally {
    pause(system);
  }
}

/** Gives each system its turn in each round; each round begins with another one. */
export async function interleaved(
  bench: Bench,
  what: string,
  measure: (system: System) => Promise<void>,
  failed: (system: string, fault: string) => void,
): Promise<void> {
  const present = bench.systems.filter(isPresent);
  for (let round = 0; round < bench.rounds; round++)
    for (const place of present.keys()) {
      const system = present[(place + round) % present.length] as System;
      bench.tell(`${what}, round ${round + 1}: ${system.name}`);
      const isPaused = !bench.quick && system !== bench.upstream;
      const turn = isPaused ? inTurn(system, bench.shortModel, () => measure(system)) : measure(system);
      await turn.catch((error: Error) => failed(system.name, error.message));
      if (bench.quick) await delay(50);
    }
}

/** Measures CPU seconds by kind of process, and `cpu` as their sum, from now until the call. */
export function meterOf(system: System): () => Record<string, number> {
  const before = system.processes.map(({ pid }) => cpuSecondsOf([pid]));
  return () => {
    const seconds: Record<string, number> = { cpu: 0 };
    for (const [place, { name, pid }] of system.processes.entries()) {
      const took = cpuSecondsOf([pid]) - (before[place] as number);
      seconds.cpu = (seconds.cpu as number) + took;
      seconds[`${cpuOf}${name}`] = (seconds[`${cpuOf}${name}`] ?? 0) + took;
    }
    return seconds;
  };
}

/** The processes of the ledger, which works on after the answers. */
const ledgerProcesses = ["control", "postgres"].map((name) => `${cpuOf}${name}`);

/**
 * CPU seconds since `meter` began: of the ledger's processes until the ledger has every record, of
 * the others until now.
 */
export async function cpuWithLedger(
  system: System,
  meter: () => Record<string, number>,
): Promise<Record<string, number>> {
  const seconds = meter();
  await system.caughtUp?.();
  const later = meter();
  for (const key of ledgerProcesses.filter((key) => key in seconds)) {
    seconds.cpu = (seconds.cpu as number) + (later[key] as number) - (seconds[key] as number);
    seconds[key] = later[key] as number;
  }
  return seconds;
}

const calmCpu = 0.2;
const calmLookMs = 500;
const calmLooksMax = 60;

/**
 * Waits until a system is idle, after closing connections and cancelled generations: hardly any CPU
 * for a while.
 */
export async function untilCalm(system: System): Promise<void> {
  for (let look = 0; look < calmLooksMax; look++) {
    const meter = meterOf(system);
    await delay(calmLookMs);
    if ((meter().cpu as number) * 1_000 < calmCpu * calmLookMs) return;
  }
  throw new Error(`${system.name} does not come to rest`);
}

/** Microseconds per item. */
export const perOne = (seconds: Record<string, number>, count: number): Record<string, number> =>
  Object.fromEntries(Object.entries(seconds).map(([key, value]) => [key, (value * 1e6) / count]));

/**
 * One load of streams from start to end: the callers' observations in `windowMs`, and the CPU cost.
 */
export async function measureStreams(
  upstream: System,
  load: StreamLoad,
  { settleMs, windowMs }: { settleMs: number; windowMs: number },
): Promise<{ window: StreamWindow; figures: Record<string, number> }> {
  const streams = await startStreams(load);
  try {
    await delay(settleMs);
    const meter = meterOf(load.system);
    const around = [...pidsOf(upstream), streams.pid];
    const before = cpuSecondsOf(around);
    let seconds: Record<string, number> = {};
    let aroundSeconds = 0;
    const window = await streams.watch(windowMs, async () => {
      await delay(windowMs);
      seconds = meter();
      aroundSeconds = cpuSecondsOf(around) - before;
    });
    return {
      window,
      figures: {
        ...figuresOf(window),
        ...perOne(seconds, window.chunks),
        around: (aroundSeconds * 1e6) / window.chunks,
      },
    };
  } finally {
    await streams.stop();
  }
}

export const figuresOf = ({
  seconds,
  chunks,
  ended,
  complete,
  errors: _,
  ...times
}: StreamWindow): Record<string, number> => ({
  ...times,
  chunksPerSecond: chunks / seconds,
  completeShare: ended === 0 ? Number.NaN : (100 * complete) / ended,
});
