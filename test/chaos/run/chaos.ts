/**
 * A chaos run: real processes under a mixed load, struck by faults at moments that the seed
 * determines, and afterwards the checks of what must hold.
 *
 *   npm run chaos -- --seed 1 --minutes 5 [--topology single|sentinel|cluster]
 *                    [--callers 24] [--report DIRECTORY]
 *
 * The minutes are those of the faults and the checks: a slow start takes no faults away. After each
 * fault it hands out what it knows, so a run that is stopped leaves a report.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { assertTotals } from "../ledger-support.ts";
import { startBatches } from "./batches.ts";
import type { Call } from "./call.ts";
import {
  doneAgain,
  keptKeys,
  type Struck,
  settledRecords,
  type Violation,
  violationsOfBudget,
  violationsOfCalls,
  violationsOfGauges,
  violationsOfKeys,
  violationsOfLedger,
  violationsOfProcesses,
  violationsOfSlots,
} from "./checks.ts";
import { type Fault, faultsOf } from "./faults.ts";
import { followJournal } from "./journal.ts";
import { kinds, probe, probePicture } from "./kinds.ts";
import { type Load, startLoad } from "./load.ts";
import { type Random, randomOf } from "./random.ts";
import { type Sample, sampleOf, startSampler } from "./samples.ts";
import { type Member, type Stack, startStack, type TopologyName } from "./stack.ts";

export interface ChaosOptions {
  seed: number;
  /** From the first caller to the end of the checks. */
  minutes: number;
  topology: TopologyName;
  /** How many callers send at a time. */
  callers: number;
  /** Only faults whose name contains it. */
  only?: string | undefined;
  tell(line: string): void;
  /** Called after each fault with what is known until then. */
  save?(result: ChaosResult): Promise<void>;
  /** Ends the faults early; the checks follow. */
  signal?: AbortSignal | undefined;
}

export interface ChaosResult {
  options: Pick<ChaosOptions, "seed" | "minutes" | "topology" | "callers" | "only">;
  /** False before the checks of the ledger and of what is left. */
  isWhole: boolean;
  /** When the callers started, in epoch milliseconds. */
  startedAt: number;
  violations: Violation[];
  calls: readonly Call[];
  struck: readonly StruckAndHealed[];
  samples: readonly Sample[];
  upstreamRequests: number;
  /** Batches of requests, each over and checked. */
  batches: number;
  /** Answers that the upstream produced again after a fault. */
  doneAgain: number;
  records: number;
}

/** Everything is healthy again so soon after a fault. */
const recoveryMsMax = 10_000;
/** After so long without recovery the run goes on. */
const unhealthyMsMax = 120_000;
const pauseMs = { min: 2_000, max: 12_000 };
/** The checks' share of a run, and its upper bound. */
const checksShare = 0.35;
const checksMsMax = 110_000;
/** A fault that begins later does not end in time. */
const faultMs = 20_000;

export async function runChaos(options: ChaosOptions): Promise<ChaosResult> {
  const { seed, minutes, topology, callers, only, tell } = options;
  const runMs = minutes * 60_000;
  const faultsMs = runMs - Math.min(checksMsMax, runMs * checksShare);
  const directory = await mkdtemp(join(tmpdir(), "chaos-"));
  try {
    await using stack = await startStack(topology, directory);
    const journal = followJournal(stack.simulatorUrl);
    const load = await startLoad(stack, seed);
    await warmUp(stack, load);
    const before = { keys: await keptKeys(stack), sample: await sampleOf(stack) };
    tell(`${topology} runs; ${callers} callers send for ${seconds(faultsMs)}`);

    load.add(callers);
    const batchLoad = await startBatches(stack, seed);
    const sampler = startSampler(stack, () => load.calls.length);
    const startedAt = Date.now();
    const resultOf = (struck: readonly StruckAndHealed[], violations: Violation[]): ChaosResult => ({
      options: { seed, minutes, topology, callers, only },
      isWhole: false,
      startedAt,
      violations: [...violationsOfFaults(struck), ...violations],
      calls: load.calls,
      struck,
      samples: sampler.samples,
      upstreamRequests: journal.requests,
      batches: 0,
      doneAgain: 0,
      records: 0,
    });
    const struck = await strikeUntil(startedAt + faultsMs, stack, load, options, async (struck) =>
      options.save?.(resultOf(struck, violationsOfCalls(load.calls, struck))),
    );
    await load.pause();
    await sampler.stop();
    tell("the faults are over; checking");
    const { batches, violations } = await batchLoad.end();
    violations.push(...(await violationsOfSlots(load)));
    await load.stop();
    violations.push(...(await violationsOfGauges(stack, journal)), ...violationsOfCalls(load.calls, struck));
    const records = await settledRecords(stack, load.calls);
    await journal.stop();
    violations.push(...violationsOfLedger(load.calls, records, journal, struck));
    await assertTotals(stack.control(), records).catch((error: Error) => violations.push(error.message));
    violations.push(
      ...(await violationsOfBudget(stack)),
      ...violationsOfKeys(before.keys, await keptKeys(stack)),
      ...(await violationsOfProcesses(stack, before.sample)),
    );
    return {
      ...resultOf(struck, violations),
      isWhole: true,
      batches,
      doneAgain: doneAgain(records, journal),
      records: records.length,
    };
  } finally {
    await rm(directory, { recursive: true, force: true, maxRetries: 10 });
  }
}

interface StruckAndHealed extends Struck {
  /** Epoch milliseconds. */
  healedAt: number;
  /** Violations that no fault explains. */
  mishaps: readonly Violation[];
}

function violationsOfFaults(struck: readonly StruckAndHealed[]): Violation[] {
  const slow = struck.filter(({ healedAt, healthyAt }) => healthyAt - healedAt > recoveryMsMax);
  return [
    ...struck.flatMap(({ mishaps }) => mishaps),
    ...slow.map(({ name, healedAt, healthyAt }) => `${name}: healthy only after ${seconds(healthyAt - healedAt)}`),
  ];
}

/** Strikes with one fault after the other, until a time in epoch milliseconds. */
async function strikeUntil(
  until: number,
  stack: Stack,
  load: Load,
  { seed, topology, only = "", tell, signal }: ChaosOptions,
  save: (struck: readonly StruckAndHealed[]) => Promise<void>,
): Promise<StruckAndHealed[]> {
  const struck: StruckAndHealed[] = [];
  const random = randomOf(seed);
  const faults = faultsOf(topology).filter(({ name }) => name.includes(only));
  while (Date.now() + faultMs < until && signal?.aborted !== true) {
    await delay(random.integer(pauseMs.min, pauseMs.max));
    const fault = random.pick(faults);
    tell(fault.name);
    const one = await strike(fault, stack, load, random);
    struck.push(one);
    const [lasted, recovered] = [one.healedAt - one.startedAt, one.healthyAt - one.healedAt];
    tell(`  over after ${seconds(lasted)}, healthy ${seconds(recovered)} later`);
    await save(struck);
  }
  return struck;
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`;

/** One call of each kind, at each ingress. */
async function warmUp(stack: Stack, load: Load): Promise<void> {
  const all = kinds.flatMap((kind) => stack.urls.map((_, ingress) => load.send(kind, ingress)));
  for (const call of await Promise.all(all))
    if (call.outcome !== "complete" && call.outcome !== "left")
      throw new Error(`before any fault: ${call.kind}: ${call.outcome}, ${call.detail}`);
}

async function strike(fault: Fault, stack: Stack, load: Load, random: Random): Promise<StruckAndHealed> {
  const ingresses: number[] = [];
  const all = stack.members.filter(({ kind }) => kind === "ingress");
  const mishaps: string[] = [];
  const startedAt = Date.now();
  await fault
    .run({ stack, random, disturb: (ingress) => ingresses.push(all.indexOf(ingress)) })
    .catch((error: Error) => mishaps.push(`${fault.name} did not end as it should: ${error.message}`));
  for (const member of stack.members)
    if (member.role?.hasEnded) {
      mishaps.push(`${member.name} ended by itself: ${member.role.complaints().slice(-500)}`);
      await member.start();
    }
  const healedAt = Date.now();
  await healthy(stack, load);
  return { name: fault.name, startedAt, healedAt, healthyAt: Date.now(), ingresses, mishaps };
}

const isReady = ({ role }: Member): Promise<boolean> =>
  fetch(`${role?.urls.operations}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  );

/** Resolves when every ingress serves both queues, and every process says that it is ready. */
async function healthy(stack: Stack, load: Load): Promise<void> {
  const deadline = performance.now() + unhealthyMsMax;
  while (performance.now() < deadline) {
    const probes = stack.urls.flatMap((_, ingress) => [load.send(probe, ingress), load.send(probePicture, ingress)]);
    const ready = stack.members.map(isReady);
    const [calls, answers] = await Promise.all([Promise.all(probes), Promise.all(ready)]);
    if (calls.every(({ outcome }) => outcome === "complete") && answers.every(Boolean)) return;
    await delay(50);
  }
}
