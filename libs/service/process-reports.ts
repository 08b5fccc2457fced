/**
 * The report of each process of the gateway about itself, for operators: in one hash in Redis,
 * written every second. A process that has ended removes its report; the report of one that was
 * killed grows old, and readers drop it.
 */

import { hostname } from "node:os";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Logger } from "pino";
import type { Clock } from "./clock.ts";
import type { Keyspace } from "./keyspace.ts";
import type { Redis } from "./redis.ts";
import { build } from "./version.ts";

const reportEveryMs = 1_000;
/** A report that is older than this is of a process that vanished. */
const forgottenMs = 60_000;
/**
 * A report that is older than this is late: the process is stuck, killed, or cut off from Redis.
 */
export const lateReportMs = 5_000;
const resolutionMs = 10;

export interface ProcessReport {
  id: string;
  role: "ingress" | "worker" | "control";
  /** With its commit. */
  version: string;
  host: string;
  pid: number;
  /** Epoch milliseconds. */
  startedAt: number;
  at: number;
  /** Why the process accepts no work; absent while it does. */
  notReady?: string;
  memoryBytes: number;
  /** Cores in use since the last report: 1 is a whole core. */
  cores: number;
  /** The 99th percentile since the last report. */
  eventLoopDelayMs: number;
  /** As at /status of its operations port. */
  status: object;
}

export interface ProcessReporterOptions extends Pick<ProcessReport, "id" | "role"> {
  redis: Redis;
  keyspace: Keyspace;
  notReady(): string | undefined;
  status(): object;
  /** An operator asked the process to finish its work and end. */
  drain(): void;
  clock: Clock;
  log: Logger;
}

/**
 * Reports until the returned function is called. Errors of Redis are skipped: the next report comes
 * soon.
 */
export function startProcessReports(options: ProcessReporterOptions): () => Promise<void> {
  const { redis, keyspace, id, role, clock, log } = options;
  const startedAt = clock.epoch();
  const delay = monitorEventLoopDelay({ resolution: resolutionMs });
  delay.enable();
  let usage = process.cpuUsage();
  let since = clock.now();
  let isBusy = false;
  const take = (): ProcessReport => {
    const now = clock.now();
    const used = process.cpuUsage(usage);
    const reason = options.notReady();
    const report: ProcessReport = {
      id,
      role,
      version: build,
      host: hostname(),
      pid: process.pid,
      startedAt,
      at: clock.epoch(),
      ...(reason !== undefined && { notReady: reason }),
      memoryBytes: process.memoryUsage.rss(),
      cores: (used.user + used.system) / 1_000 / Math.max(1, now - since),
      eventLoopDelayMs: Math.max(0, delay.percentile(99) / 1e6 - resolutionMs) || 0,
      status: options.status(),
    };
    usage = process.cpuUsage();
    since = now;
    delay.reset();
    return report;
  };
  const send = async () => {
    if (isBusy || redis.status !== "ready") return;
    isBusy = true;
    try {
      // Not a transaction, which would be twice as many commands.
      const results = await redis
        .pipeline()
        .hset(keyspace.processes, id, JSON.stringify(take()))
        .hdel(keyspace.drains, id)
        .exec();
      if (results?.[1]?.[1] === 1) {
        log.info("an operator asked this process to drain");
        options.drain();
      }
    } catch {
      // The next report comes soon.
    } finally {
      isBusy = false;
    }
  };
  const timer = setInterval(() => void send(), reportEveryMs);
  void send();
  return async () => {
    clearInterval(timer);
    delay.disable();
    if (redis.status === "ready") await redis.hdel(keyspace.processes, id).catch(() => undefined);
  };
}

/**
 * The reports of all processes, by role and start. Drops those of processes that vanished a while
 * ago.
 */
export async function readProcessReports(redis: Redis, keyspace: Keyspace, now: number): Promise<ProcessReport[]> {
  const reports = Object.values(await redis.hgetall(keyspace.processes)).map(
    (text) => JSON.parse(text) as ProcessReport,
  );
  const forgotten = reports.filter(({ at }) => now - at > forgottenMs).map(({ id }) => id);
  if (forgotten.length > 0) await redis.hdel(keyspace.processes, ...forgotten);
  return reports
    .filter(({ id }) => !forgotten.includes(id))
    .sort((a, b) => a.role.localeCompare(b.role) || a.startedAt - b.startedAt);
}

/**
 * Asks a process to finish its work and end: its supervisor starts it anew. It follows within about
 * a second.
 */
export async function requestDrain(redis: Redis, keyspace: Keyspace, id: string): Promise<void> {
  await redis.hset(keyspace.drains, id, "1");
}

/** The name of a worker that takes calls; undefined if none does. `now` in epoch milliseconds. */
export const readyWorkerIn = (reports: readonly ProcessReport[], now: number): string | undefined =>
  reports.find(({ role, at, notReady }) => role === "worker" && now - at <= lateReportMs && notReady === undefined)?.id;
