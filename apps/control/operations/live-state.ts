/** Reads what the gateway does right now: the reports of its processes, the queues in Redis, and the ledger. */
import type { liveOperations } from "#api/live.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { lateReportMs, type ProcessReport, readProcessReports } from "#service/process-reports.ts";
import type { Redis } from "#service/redis.ts";
import type { Ledger } from "../ledger/ledger.ts";

export type LiveState = AnswerOf<(typeof liveOperations)["readOperations"]>;

export interface LiveStateOptions {
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "queues">;
  ledger: Pick<Ledger, "counts" | "budgets" | "lagSeconds">;
  /** Of the database. */
  database: string;
}

/** What ingresses and workers report besides what all processes do. Fields of other versions may be absent. */
interface Status {
  catalogue?: string;
  generations?: number;
  counts?: Counts;
  queues?: { queue: string; waiting?: number; capacity?: number; held?: number; oldestWaitMs?: number }[];
  targets?: { target: string; state: string }[];
}

type Counts = Record<"requests" | "failed" | "refused" | "chunks", number>;
const countNames = ["requests", "failed", "refused", "chunks"] as const satisfies (keyof Counts)[];

/** Readers within this time share one reading. */
const sharedMs = 900;

export class LiveStates {
  readonly #options: LiveStateOptions;
  #last: { at: number; state: Promise<LiveState> } | undefined;
  /** Of the reading before: the counts of each ingress, and when it reported them. */
  #counted = new Map<string, { at: number; counts: Counts }>();

  constructor(options: LiveStateOptions) {
    this.#options = options;
  }

  /** Rejects while Redis is away. */
  read(): Promise<LiveState> {
    const now = Date.now();
    if (this.#last === undefined || now - this.#last.at >= sharedMs) this.#last = { at: now, state: this.#read(now) };
    return this.#last.state;
  }

  async #read(now: number): Promise<LiveState> {
    const { redis, keyspace, catalogue, ledger, database } = this.#options;
    const names = [...catalogue().queues.keys()];
    const [reports, waiting, info, lagSeconds] = await Promise.all([
      readProcessReports(redis, keyspace, now),
      Promise.all(names.map((name) => redis.zcard(`${keyspace.queuePrefix(name)}:${name}:prioritized`))),
      redis.info("all"),
      ledger.lagSeconds(),
    ]);
    const live = reports.filter((report) => !isLate(report, now));
    return {
      at: new Date(now).toISOString(),
      rates: this.#rates(live),
      queues: names.map((name, index) => queueOf(name, waiting[index] ?? 0, live)),
      processes: reports.map((report) => processOf(report, now)),
      targets: targetsOf(live),
      redis: redisOf(info),
      ledger: {
        lagSeconds: Math.max(0, lagSeconds),
        records: ledger.counts.inserted,
        invalid: ledger.counts.invalid,
        budgetDifferences: ledger.budgets.differences,
      },
      database,
    };
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

function queueOf(name: string, waiting: number, reports: readonly ProcessReport[]): LiveState["queues"][number] {
  const of = (role: string) =>
    reports.flatMap(({ role: own, status }) =>
      own === role ? ((status as Status).queues ?? []).filter(({ queue }) => queue === name) : [],
    );
  const [ingresses, workers] = [of("ingress"), of("worker")];
  const sum = (values: (number | undefined)[]) => values.reduce<number>((total, value) => total + (value ?? 0), 0);
  return {
    name,
    queued: sum(ingresses.map(({ waiting: queued }) => queued)),
    waiting,
    running: sum(workers.map(({ held }) => held)),
    capacity: sum(workers.map(({ capacity }) => capacity)),
    workers: workers.length,
    oldestWaitMs: Math.round(Math.max(0, ...ingresses.map(({ oldestWaitMs = 0 }) => oldestWaitMs))),
  };
}

function processOf(report: ProcessReport, now: number): LiveState["processes"][number] {
  const { startedAt, at, notReady, status, memoryBytes, cores, eventLoopDelayMs, id, role, version, host, pid } =
    report;
  const { catalogue, generations, queues } = status as Status;
  const held = queues?.reduce((total, { held = 0 }) => total + held, 0) ?? 0;
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
    generations: generations ?? held,
    catalogue: catalogue ?? null,
  };
}

/** A target that any worker has blocked is shown as that worker sees it. */
function targetsOf(reports: readonly ProcessReport[]): LiveState["targets"] {
  const states = new Map<string, string>();
  for (const { role, status } of reports) {
    if (role !== "worker") continue;
    for (const { target, state } of (status as Status).targets ?? [])
      if (states.get(target) === undefined || state !== "closed") states.set(target, state);
  }
  return [...states].map(([target, state]) => ({ target, state })).sort((a, b) => a.target.localeCompare(b.target));
}

function redisOf(info: string): LiveState["redis"] {
  const field = (name: string) => new RegExp(`^${name}:(.*)$`, "m").exec(info)?.[1]?.trim();
  const number = (name: string) => Number(field(name) ?? 0);
  const valkey = field("valkey_version");
  return {
    version: valkey === undefined ? `Redis ${field("redis_version") ?? ""}` : `Valkey ${valkey}`,
    memoryBytes: number("used_memory"),
    memoryMaxBytes: number("maxmemory"),
    clients: number("connected_clients"),
    commandsPerSecond: number("instantaneous_ops_per_sec"),
  };
}
