/**
 * The private Redis of a checkout: on a Unix socket, with its data under `.sluice/redis`. It ends
 * with the last process that uses it.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import type { Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { isAlive } from "#service/lock.js";
import { StartupFault } from "#service/startup.ts";
import type { State } from "./state.ts";
import type { Plan } from "./supervise.ts";

const stopMsMax = 10_000;
const pollMs = 10;
/** Characters of the log that a start writes at most before it fails. */
const lastLogLength = 2_000;

export function privateRedisUrlOf({ redisSocket }: State): string {
  return `unix://${pathToFileURL(redisSocket).pathname}`;
}

/**
 * A separate file for each supervisor, so that the guard of an earlier Redis cannot stop a later
 * one.
 */
const pidFileOf = ({ redis }: State, supervisor: number) => join(redis, `redis-${supervisor}.pid`);

/**
 * How to run the program at `path`. Redis passes every write to the kernel before it replies, and
 * to the disk within a second.
 */
export function privateRedisPlan(path: string, state: State): Plan {
  const logFile = join(state.logs, "redis.log");
  const settings: Record<string, string[]> = {
    port: ["0"],
    unixsocket: [state.redisSocket],
    unixsocketperm: ["700"],
    dir: [state.redis],
    pidfile: [pidFileOf(state, process.pid)],
    logfile: [logFile],
    appendonly: ["yes"],
    appendfsync: ["everysec"],
    save: [""],
    maxmemory: ["1gb"],
    "maxmemory-policy": ["noeviction"],
    "client-output-buffer-limit": ["pubsub", "64mb", "32mb", "60"],
  };
  const args = Object.entries(settings).flatMap(([name, values]) => [`--${name}`, ...values]);
  return {
    name: "redis",
    spawn: () => spawn(path, args, { cwd: state.redis, detached: true, stdio: ["ignore", "ignore", "pipe"] }),
    whenServing: async (_child: ChildProcess, signal: AbortSignal) => {
      while (!(await answersPing(state.redisSocket))) await delay(pollMs, undefined, { signal });
      return { redis: privateRedisUrlOf(state) };
    },
    attemptsMax: 1,
    stopMsMax,
    logFile,
  };
}

/** Whether a Redis answers on this socket within a second. */
export function answersPing(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const finish = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(1_000, () => finish(false));
    socket.on("error", () => finish(false));
    socket.on("close", () => finish(false));
    socket.on("data", (data) => finish(data.toString().startsWith("+PONG")));
    socket.write("PING\r\n");
  });
}

/**
 * Ends the Redis of a supervisor that was killed. Two Redis processes in one directory would
 * corrupt its data.
 */
export async function endOrphanedRedis(state: State): Promise<void> {
  for (const name of readdirSync(state.redis)) {
    if (!/^redis-\d+\.pid$/.test(name)) continue;
    const file = join(state.redis, name);
    const pid = Number(readFileSync(file, "utf8"));
    if (pid > 0 && commandLineOf(pid).includes(state.redisSocket)) await end(pid);
    rmSync(file, { force: true });
  }
}

async function end(pid: number): Promise<void> {
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    const deadline = performance.now() + stopMsMax;
    if (isAlive(pid)) process.kill(pid, signal);
    while (performance.now() < deadline) {
      if (!isAlive(pid)) return;
      await delay(pollMs);
    }
  }
  throw new StartupFault(`an earlier Redis of this checkout (process ${pid}) does not end; end it yourself`);
}

const damaged = /Bad file format reading the append only file/;

/**
 * After a power cut the data may end in something else, such as zeros, at which Redis does not
 * start. Cuts it off there and keeps a copy. Returns what was done, in words; undefined if it is
 * not the cause, or does not help.
 */
export async function repairData(program: string, { redis, logs }: State): Promise<string | undefined> {
  const files = join(redis, "appendonlydir");
  const manifest = join(files, "appendonly.aof.manifest");
  const log = join(logs, "redis.log");
  // A Redis that did not get as far as its settings wrote no log.
  if (!existsSync(log) || !existsSync(manifest)) return undefined;
  if (!damaged.test(readFileSync(log, "utf8").slice(-lastLogLength))) return undefined;
  const copy = `${files}.damaged`;
  rmSync(copy, { recursive: true, force: true });
  cpSync(files, copy, { recursive: true, preserveTimestamps: true });
  const before = bytesIn(files);
  // The program is several in one, by the name that it is called with.
  const check = spawn(program, ["--fix", manifest], { argv0: "redis-check-aof", stdio: ["pipe", "ignore", "ignore"] });
  check.on("error", () => {});
  check.stdin.on("error", () => {});
  check.stdin.end("y\n");
  const [code] = await once(check, "close");
  if (code !== 0) return undefined;
  return `the data of Redis was damaged at its end, as by a power cut: ${before - bytesIn(files)} bytes were cut off; a copy of the whole is in ${copy}`;
}

const bytesIn = (directory: string): number =>
  readdirSync(directory).reduce((sum, name) => sum + statSync(join(directory, name)).size, 0);

/** Redis includes its address in its command line. Empty where the system does not show it. */
function commandLineOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

export interface Guard {
  /** A process that inherits this file descriptor keeps Redis alive until it ends. */
  lifeline: Writable;
  dismiss(): void;
}

/**
 * Ends Redis when the supervisor and all its processes have ended, even after a crash: a shell
 * waits for the end of a pipe that all of them keep open.
 */
export function guardRedis(state: State): Guard {
  const script = 'while read -r _; do :; done; [ -s "$0" ] || sleep 1; kill -TERM "$(cat "$0")"';
  const shell = spawn("/bin/sh", ["-c", script, pidFileOf(state, process.pid)], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });
  shell.on("error", () => {});
  shell.stdin.on("error", () => {});
  return { lifeline: shell.stdin, dismiss: () => void shell.kill("SIGKILL") };
}
