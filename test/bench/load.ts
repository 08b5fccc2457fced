/**
 * The callers, each kind in its own process: wrk for short answers, stream-load.ts for consecutive
 * streams, open-load.ts for requests that are due whatever was answered.
 */
import { type ChildProcess, execFile, fork } from "node:child_process";
import { on } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { OpenOrder, OpenReport, OpenWindow } from "./open-messages.ts";
import { end, programOf } from "./processes.ts";
import type { StreamOrder, StreamReport, StreamWindow } from "./stream-messages.ts";
import type { System } from "./system.ts";

const run = promisify(execFile);
const flowMsMax = 60_000;
const windowMsMax = 30_000;

interface Target {
  system: System;
  path: string;
}

export interface ShortLoad extends Target {
  /** Sent in turn. */
  bodies: string[];
  /** Authorizations in turn, in place of the system's own. */
  keys?: string[];
  connections: number;
  seconds: number;
}

export interface ShortResult {
  requests: number;
  seconds: number;
  p50Ms: number;
  p99Ms: number;
  /** The errors, as text. */
  errors: string[];
}

export const chatPath = "/v1/chat/completions";
export const chatBodyOf = (model: string, more: object = {}): string =>
  JSON.stringify({
    model,
    ...more,
    messages: [{ role: "user", content: "Say in one sentence how things are at the other end of the wire." }],
  });

/** The program, or an error that says what to install. */
export function wrkProgram(): string {
  const program = programOf("wrk");
  if (program === undefined)
    throw new Error("wrk is not installed, the load generator for short answers: apt-get install wrk");
  return program;
}

/** A whole request, as it goes over the wire; `headers` in place of the system's own. */
export function requestOf(system: System, path: string, body: string, headers: Record<string, string> = {}): string {
  const { host } = new URL(system.urls[0] as string);
  const all = {
    host,
    "content-type": "application/json",
    "content-length": String(Buffer.byteLength(body)),
    ...system.headers,
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `POST ${system.pathPrefix ?? ""}${path} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
}

/** As many requests as the system answers in so many seconds. */
export async function runShort({ system, path, bodies, keys, connections, seconds }: ShortLoad): Promise<ShortResult> {
  const directory = await mkdtemp(join(tmpdir(), "sluice-bench-wrk-"));
  try {
    const addresses = system.urls.map((url) => new URL(url).host);
    const authorizations = keys?.map((key) => ({ authorization: `Bearer ${key}` })) ?? [{}];
    const length = Math.max(bodies.length, authorizations.length);
    const requests = Array.from({ length }, (_, place) =>
      requestOf(system, path, bodies[place % bodies.length] as string, authorizations[place % authorizations.length]),
    );
    const file = join(directory, "requests");
    await writeFile(file, requests.join("\0"));
    const threads = Math.min(connections, addresses.length);
    const { stdout } = await run(
      wrkProgram(),
      [
        "--threads",
        String(threads),
        "--connections",
        String(connections),
        "--duration",
        `${seconds}s`,
        "--timeout",
        "30s",
        "--script",
        join(import.meta.dirname, "short.lua"),
        system.urls[0] as string,
      ],
      { env: { ...process.env, BENCH_REQUESTS: file, BENCH_ADDRESSES: addresses.join(",") }, maxBuffer: 1 << 20 },
    );
    const { refused, broken, ...result } = JSON.parse(stdout.trim().split("\n").at(-1) as string) as ShortResult & {
      refused: number;
      broken: number;
    };
    const errors = [
      ...(refused > 0 ? [`${refused} answers were not 200`] : []),
      ...(broken > 0 ? [`${broken} connections failed`] : []),
    ];
    return { ...result, errors: result.requests === 0 ? [...errors, "no answer came"] : errors };
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

export interface StreamLoad extends Target {
  body: string;
  callers: number;
  /** The time over which the callers start. */
  rampMs: number;
  /** Chunks in each answer. */
  chunks: number;
  terminator?: string;
}

export interface Streams {
  pid: number;
  /**
   * The callers' observations during this many milliseconds; `during` runs meanwhile, and the
   * window ends with it if it takes longer.
   */
  watch(ms: number, during?: () => Promise<unknown>): Promise<StreamWindow>;
  stop(): Promise<void>;
}

/** Callers with consecutive streams; resolves when each has had its first chunk. */
export async function startStreams({
  system,
  path,
  body,
  callers,
  rampMs,
  chunks,
  terminator = "[DONE]",
}: StreamLoad): Promise<Streams> {
  const child = forkLoad("stream-load.ts");
  const order = (message: StreamOrder) => child.send(message);
  try {
    order({
      type: "begin",
      options: { urls: system.urls, request: requestOf(system, path, body), callers, rampMs, chunks, terminator },
    });
    await reportOf<StreamReport, "flowing">(child, "flowing", rampMs + flowMsMax);
  } catch (error) {
    await end(child);
    throw error;
  }
  return {
    pid: child.pid as number,
    async watch(ms, during) {
      order({ type: "open-window" });
      await Promise.all([new Promise((resolve) => setTimeout(resolve, ms)), during?.()]);
      order({ type: "close-window" });
      return (await reportOf<StreamReport, "window">(child, "window", windowMsMax)).window;
    },
    stop: () => end(child),
  };
}

/** Awaits a load generator's next message of this type. */
async function reportOf<Report extends { type: string }, Type extends Report["type"]>(
  child: ChildProcess,
  type: Type,
  msMax: number,
): Promise<Extract<Report, { type: Type }>> {
  const signal = AbortSignal.timeout(msMax);
  try {
    for await (const [report] of on(child, "message", { signal }) as AsyncIterable<[Report]>)
      if (report.type === type) return report as Extract<Report, { type: Type }>;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  throw new Error(`callers: not ${type} within ${msMax / 1_000} s`);
}

export interface OpenLoad extends Target {
  body: string;
  /** Authorizations in turn, in place of the system's own. */
  keys?: string[];
  connections: number;
  chunks: number;
}

export interface OpenCallers {
  pid: number;
  /** From now on, so many requests a second; 0 for none. */
  offer(perSecond: number): void;
  /** Settles when all of these requests are answered. */
  burst(count: number, options: { overMs: number; follows: boolean; msMax: number }): Promise<void>;
  /** The callers' observations while `during` runs. */
  watch(during: () => Promise<unknown>): Promise<OpenWindow>;
  stop(): Promise<void>;
}

/**
 * Callers that do not wait for each other, of streams; resolves when their connections are open.
 */
export async function startOpenCallers({
  system,
  path,
  body,
  keys,
  connections,
  chunks,
}: OpenLoad): Promise<OpenCallers> {
  const child = forkLoad("open-load.ts");
  const order = (message: OpenOrder) => child.send(message);
  const authorizations = keys?.map((key) => ({ authorization: `Bearer ${key}` })) ?? [{}];
  const requests = authorizations.map((authorization) => requestOf(system, path, body, authorization));
  try {
    order({ type: "begin", options: { urls: system.urls, requests, connections, chunks, terminator: "[DONE]" } });
    await reportOf<OpenReport, "ready">(child, "ready", flowMsMax);
  } catch (error) {
    await end(child);
    throw error;
  }
  return {
    pid: child.pid as number,
    offer: (perSecond) => void order({ type: "offer", perSecond }),
    async burst(count, { overMs, follows, msMax }) {
      order({ type: "burst", count, overMs, follows });
      await reportOf<OpenReport, "settled">(child, "settled", msMax);
    },
    async watch(during) {
      order({ type: "open-window" });
      await during();
      order({ type: "close-window" });
      return (await reportOf<OpenReport, "window">(child, "window", windowMsMax)).window;
    },
    stop: () => end(child),
  };
}

const forkLoad = (script: string): ChildProcess =>
  fork(join(import.meta.dirname, script), { serialization: "advanced", stdio: ["ignore", "ignore", "inherit", "ipc"] });
