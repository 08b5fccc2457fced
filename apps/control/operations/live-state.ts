/**
 * Reads what the gateway does right now: the reports of its processes, the queues in Redis, and the
 * ledger.
 */

import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Clock } from "#service/clock.ts";
import { type Keyspace, readablePartsOf } from "#service/keyspace.ts";
import { type OperatorControl, readControls } from "#service/operator-controls.ts";
import { lateReportMs, type ProcessReport, readProcessReports } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import { seenMs, seenMsMin } from "../bounds.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { conditionsOf, type LiveState, type Seen } from "./conditions.ts";
import { readRedisState } from "./redis-state.ts";

export interface LiveStateOptions {
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "queues" | "models" | "wildcards">;
  /** Why the catalogue's last change is not in force; undefined while it is. */
  catalogueFault(): string | undefined;
  ledger: Pick<Ledger, "counts" | "budgets" | "lagSeconds" | "invalidRecords">;
  /** The kind of the database. */
  database: string;
  clock: Clock;
}

/**
 * The reports of ingresses and workers, besides the fields of all processes. Fields of other
 * versions may be absent.
 */
interface Status {
  catalogue?: string;
  generations?: number;
  counts?: Counts;
  queues?: QueueStatus[];
  targets?: { target: string; state: Target["state"] }[];
  targetLoad?: {
    target: string;
    calls: number;
    failed: number;
    running?: number;
    oldestMs?: number;
    firstTokens: number;
    firstTokenMs: number;
  }[];
  coolingCredentials?: string[];
  vendorLimits?: { target: string; limit: string; max: number; remaining: number; waitMs: number }[];
}

interface QueueStatus {
  queue: string;
  waiting?: number;
  capacity?: number;
  usedSlots?: number;
  oldestWaitMs?: number;
  groups?: { group: string; waiting: number }[];
  otherGroups?: number;
}

type Queue = LiveState["queues"][number];
type Target = LiveState["targets"][number];

type Counts = Record<"requests" | "failed" | "refused" | "chunks", number>;
const countNames = ["requests", "failed", "refused", "chunks"] as const satisfies (keyof Counts)[];

/** Groups of a queue that are shown by name. */
const groupsMax = 10;

/** A reading of the state, for comparison with later ones. */
interface Sample {
  at: number;
  counts: ReadonlyMap<string, Counts>;
  waiting: ReadonlyMap<string, number>;
}

/** Readers within this time share one reading. */
const sharedMs = 900;

export class LiveStates {
  readonly #options: LiveStateOptions;
  #last: { at: number; state: Promise<LiveState> } | undefined;
  /** The previous reading: the counts of each ingress, and when it reported them. */
  #counted = new Map<string, { at: number; counts: Counts }>();
  /** The readings of the last minute, oldest first. */
  #samples: Sample[] = [];

  constructor(options: LiveStateOptions) {
    this.#options = options;
  }

  /** Rejects while Redis is away. */
  read(): Promise<LiveState> {
    const now = this.#options.clock.epoch();
    if (this.#last === undefined || now - this.#last.at >= sharedMs) this.#last = { at: now, state: this.#read(now) };
    return this.#last.state;
  }

  async #read(now: number): Promise<LiveState> {
    const { redis, keyspace, catalogue, catalogueFault, ledger, database } = this.#options;
    const { queues: catalogueQueues, models, wildcards } = catalogue();
    const names = [...catalogueQueues.keys()];
    const [reports, controls, waiting, redisState, lagSeconds, invalid] = await Promise.all([
      readProcessReports(redis, keyspace, now),
      readControls(redis, keyspace, now),
      Promise.all([...catalogueQueues].map(([name, { parts }]) => this.#waiting(name, parts))),
      readRedisState(redis),
      ledger.lagSeconds(),
      ledger.invalidRecords(),
    ]);
    const live = reports.filter((report) => !isLate(report, now));
    const state = {
      at: new Date(now).toISOString(),
      rates: this.#rates(live),
      queues: names.map((name, index) => queueOf(name, waiting[index] ?? 0, live, controls)),
      processes: reports.map((report) => processOf(report, now)),
      targets: targetsOf(
        [...models, ...wildcards].flatMap(({ route }) => route.map(({ upstream, model }) => `${upstream}/${model}`)),
        live,
        controls,
      ),
      redis: redisState,
      ledger: {
        lagSeconds: Math.max(0, lagSeconds),
        records: ledger.counts.inserted,
        invalid,
        budgetDifferences: ledger.budgets.differences,
      },
      database,
    };
    return {
      ...state,
      conditions: conditionsOf(
        state,
        { queues: catalogueQueues, isRefused: catalogueFault() !== undefined },
        this.#seen(state.queues, now),
      ),
    };
  }

  /** The difference to the oldest reading of the last minute; undefined if that is too young. */
  #seen(queues: readonly Queue[], now: number): Seen | undefined {
    const counts = new Map([...this.#counted].map(([id, { counts: own }]) => [id, own]));
    const waiting = new Map(queues.map(({ name, queued }) => [name, queued]));
    this.#samples = [...this.#samples.filter(({ at }) => at > now - seenMs), { at: now, counts, waiting }];
    const [oldest] = this.#samples;
    if (oldest === undefined || now - oldest.at < seenMsMin) return undefined;
    const seen = { requests: 0, failed: 0, refused: 0, waiting: oldest.waiting };
    for (const [id, own] of counts) {
      const before = oldest.counts.get(id);
      if (before === undefined || own.requests < before.requests) continue;
      for (const name of ["requests", "failed", "refused"] as const) seen[name] += own[name] - before[name];
    }
    return seen;
  }

  async #waiting(queue: string, parts: number): Promise<number> {
    const { redis, keyspace } = this.#options;
    const names = readablePartsOf(queue, parts, keyspace.protocols);
    const sizes = await Promise.all(
      names.map((name) => redis.zcard(`${keyspace.queuePrefix(name)}:${name}:prioritized`)),
    );
    return sizes.reduce((sum, size) => sum + size, 0);
  }

  /** Over the time between the last two reports of each ingress. */
  #rates(reports: readonly ProcessReport[]): LiveState["rates"] {
    const before = this.#counted;
    this.#counted = new Map();
    const rates = { requests: 0, failed: 0, refused: 0, chunks: 0 };
    let isKnown = false;
    for (const { id, role, at, status } of reports) {
      const { counts } = status as Status;
      if (role !== "ingress" || counts === undefined) continue;
      this.#counted.set(id, { at, counts });
      const last = before.get(id);
      if (last === undefined || at <= last.at) continue;
      isKnown = true;
      for (const name of countNames)
        rates[name] += Math.max(0, counts[name] - last.counts[name]) / ((at - last.at) / 1_000);
    }
    return isKnown ? rates : null;
  }
}

const isLate = ({ at }: ProcessReport, now: number): boolean => now - at > lateReportMs;

function queueOf(
  name: string,
  waiting: number,
  reports: readonly ProcessReport[],
  controls: readonly OperatorControl[],
): Queue {
  const of = (role: string) =>
    reports.flatMap(({ role: own, status }) =>
      own === role ? ((status as Status).queues ?? []).filter(({ queue }) => queue === name) : [],
    );
  const [ingresses, workers] = [of("ingress"), of("worker")];
  const sum = (values: (number | undefined)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
  const control = controls.find((each) => each.kind === "queue" && each.name === name);
  return {
    name,
    queued: sum(ingresses.map(({ waiting: queued }) => queued)),
    waiting,
    running: sum(workers.map(({ usedSlots }) => usedSlots)),
    capacity: sum(workers.map(({ capacity }) => capacity)),
    workers: workers.length,
    oldestWaitMs: Math.round(Math.max(0, ...ingresses.map(({ oldestWaitMs = 0 }) => oldestWaitMs))),
    ...groupsOf(ingresses),
    control: control === undefined || control.state === "open" ? null : { state: control.state, ...shownOf(control) },
  };
}

/** Groups that an ingress does not report by name are among the others. */
function groupsOf(ingresses: readonly QueueStatus[]): Pick<Queue, "groups" | "otherGroups"> {
  const counts = new Map<string, number>();
  for (const { groups = [] } of ingresses)
    for (const { group, waiting } of groups) counts.set(group, (counts.get(group) ?? 0) + waiting);
  const byWaiting = [...counts].sort(([, a], [, b]) => b - a).map(([group, waiting]) => ({ group, waiting }));
  const rest = byWaiting.slice(groupsMax).reduce((sum, { waiting }) => sum + waiting, 0);
  return {
    groups: byWaiting.slice(0, groupsMax),
    otherGroups: ingresses.reduce((sum, { otherGroups = 0 }) => sum + otherGroups, rest),
  };
}

const shownOf = ({ reason, by, at, until }: OperatorControl) => ({
  reason,
  by,
  at: new Date(at).toISOString(),
  until: until === undefined ? null : new Date(until).toISOString(),
});

function processOf(report: ProcessReport, now: number): LiveState["processes"][number] {
  const { startedAt, at, notReady, status, memoryBytes, cores, eventLoopDelayMs, id, role, version, host, pid } =
    report;
  const { catalogue, generations, queues } = status as Status;
  const running = queues?.reduce((total, { usedSlots = 0 }) => total + usedSlots, 0) ?? 0;
  return {
    id,
    role,
    version,
    host,
    pid,
    memoryBytes,
    cores,
    eventLoopDelayMs,
    startedAt: new Date(startedAt).toISOString(),
    reportedAt: new Date(at).toISOString(),
    isLate: isLate(report, now),
    notReady: notReady ?? null,
    generations: generations ?? running,
    catalogue: catalogue ?? null,
  };
}

/**
 * A target that any worker has blocked is shown as that worker sees it; one that an operator keeps
 * open is open at once.
 */
function targetsOf(
  catalogueTargets: readonly string[],
  reports: readonly ProcessReport[],
  controls: readonly OperatorControl[],
): Target[] {
  const none = { calls: 0, failed: 0, running: 0, oldestMs: 0, firstTokenMs: null, cooling: 0, vendorLimit: null };
  const idle = { state: "closed", ...none, control: null } as const;
  const targets = new Map<string, Target>();
  const of = (target: string): Target => {
    const state = targets.get(target) ?? { target, ...idle };
    targets.set(target, state);
    return state;
  };
  for (const target of catalogueTargets) of(target);
  const firstTokens = new Map<string, { count: number; ms: number }>();
  const cooling = new Set<string>();
  for (const { role, status } of reports) {
    if (role !== "worker") continue;
    const { targets: states = [], targetLoad = [], coolingCredentials = [], vendorLimits = [] } = status as Status;
    for (const { target, state } of states) if (state !== "closed") of(target).state = state;
    for (const {
      target,
      calls,
      failed,
      firstTokens: count,
      firstTokenMs: ms,
      running = 0,
      oldestMs = 0,
    } of targetLoad) {
      const sum = of(target);
      sum.running += running;
      sum.oldestMs = Math.max(sum.oldestMs, oldestMs);
      sum.calls += calls;
      sum.failed += failed;
      const before = firstTokens.get(target) ?? { count: 0, ms: 0 };
      firstTokens.set(target, { count: before.count + count, ms: before.ms + ms });
    }
    for (const each of coolingCredentials) cooling.add(each);
    for (const { target, ...limit } of vendorLimits) {
      const shown = targets.get(targetNameOf(target));
      if (shown === undefined) continue;
      if (shown.vendorLimit === null || partLeftOf(limit) < partLeftOf(shown.vendorLimit)) shown.vendorLimit = limit;
    }
  }
  for (const [target, { count, ms }] of firstTokens) if (count > 0) of(target).firstTokenMs = Math.round(ms / count);
  for (const each of cooling) of(targetNameOf(each)).cooling++;
  for (const control of controls)
    if (control.kind === "target") Object.assign(of(control.name), { state: "open", control: shownOf(control) });
  return [...targets.values()].sort((a, b) => a.target.localeCompare(b.target));
}

/** Workers name a credential of a target as "<target>: <credential>". */
const targetNameOf = (credential: string): string => credential.slice(0, credential.lastIndexOf(": "));

const partLeftOf = ({ remaining, max }: { remaining: number; max: number }): number => remaining / Math.max(1, max);
