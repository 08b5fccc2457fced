/**
 * A test's own Redis: a real server on a Unix socket in its own directory, which can die, freeze
 * and lose its data. The tests of a process use one after the other.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { connectRedis, type Redis, type RedisPurpose } from "#service/redis.ts";
import { answersPing } from "../../apps/cli/private-redis.ts";
import { findRedisProgram } from "../../apps/cli/redis-program.ts";

/** How long a server may take to answer its first PING. */
const startMsMax = 10_000;

export interface TestRedis extends AsyncDisposable {
  /** `unix:///…`, the same through kills and restarts. */
  url: string;
  /** Ends it in an orderly way; the data is gone, for it keeps none on disk. */
  stop(): Promise<void>;
  /** Ends it at once. */
  kill(): Promise<void>;
  /** Freezes it: connections stay open, nothing answers. */
  pause(): void;
  resume(): void;
  /** Ends it at once if it runs, and starts another one, empty, at the same address. */
  restartEmpty(): Promise<void>;
  /** Ends it at once, and starts it again with its data. Only for a durable one. */
  restart(): Promise<void>;
}

const alive = new Set<ChildProcess>();
const directories = new Set<string>();
/** For tests that end before they dispose. */
process.on("exit", () => {
  for (const server of alive) server.kill("SIGKILL");
  for (const directory of directories) rmSync(directory, { recursive: true, force: true });
});

interface RunningServer {
  directory: string;
  socket: string;
  server: ChildProcess;
}

/** Servers that earlier tests of this process have disposed of. */
const idle: RunningServer[] = [];

/**
 * An empty Redis for the caller alone. Dispose of it, and the next caller of this process gets the
 * same server, empty again. A durable one writes every command to disk, and is never used again.
 */
export async function startRedis({ isDurable = false } = {}): Promise<TestRedis> {
  const { directory, socket, ...running } = (isDurable ? undefined : idle.pop()) ?? (await openServer(isDurable));
  let { server } = running;
  server.ref();

  const end = async (signal: NodeJS.Signals) => {
    if (server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, "exit");
    server.kill("SIGCONT");
    server.kill(signal);
    await ended;
  };
  return {
    url: `unix://${socket}`,
    stop: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
    pause: () => void server.kill("SIGSTOP"),
    resume: () => void server.kill("SIGCONT"),
    restartEmpty: async () => {
      await end("SIGKILL");
      server = await startServer(directory, socket, isDurable);
    },
    restart: async () => {
      await end("SIGKILL");
      server = await startServer(directory, socket, isDurable);
    },
    [Symbol.asyncDispose]: async () => {
      if (!isDurable && (await isReset(socket, server))) {
        server.unref();
        idle.push({ directory, socket, server });
        return;
      }
      await end("SIGKILL");
      // A rewrite of its file runs in a process of its own, which ends a moment later.
      await rm(directory, { recursive: true, force: true, maxRetries: 10 });
      directories.delete(directory);
    },
  };
}

async function openServer(isDurable: boolean): Promise<RunningServer> {
  const directory = await temporaryDirectory("redis-");
  const socket = join(directory, "redis.sock");
  return { directory, socket, server: await startServer(directory, socket, isDurable) };
}

/** Settings that tests change, with their values at the start. */
const settings = { maxmemory: "0", "maxmemory-policy": "noeviction", appendonly: "no" };

/** Makes a server as it was at its start. False if it does not run, or does not answer. */
async function isReset(socket: string, server: ChildProcess): Promise<boolean> {
  if (server.exitCode !== null || server.signalCode !== null) return false;
  const redis = await connectRedis(`unix://${socket}`, "request").catch(() => undefined);
  try {
    if (redis === undefined) return false;
    for (const [name, value] of Object.entries(settings)) await redis.config("SET", name, value);
    await redis.call("CLIENT", "KILL", "SKIPME", "yes");
    await redis.flushall();
    await redis.script("FLUSH");
    await redis.config("RESETSTAT");
    return true;
  } catch {
    return false;
  } finally {
    redis?.disconnect();
  }
}

async function startServer(directory: string, socket: string, isDurable: boolean): Promise<ChildProcess> {
  const settings = [
    ["--port", "0"],
    ["--unixsocket", socket],
    ["--dir", directory],
    ["--appendonly", isDurable ? "yes" : "no"],
    ["--appendfsync", "always"],
  ];
  return startProgram(settings.flat(), () => answersPing(socket));
}

async function programOnPath(): Promise<string> {
  const program = await findRedisProgram(process.env.PATH ?? "");
  if (program.kind !== "found") throw new Error("no redis-server or valkey-server on PATH that is new enough");
  return program.program.path;
}

/** A connection to an empty Redis until the tests of the calling file are over. */
export async function connectTestRedis(purpose: RedisPurpose): Promise<Redis> {
  const server = await startRedis();
  const redis = await connectRedis(server.url, purpose);
  after(async () => {
    redis.disconnect();
    await server[Symbol.asyncDispose]();
  });
  return redis;
}

/**
 * Starts a server, which keeps no snapshots, and waits until it answers. It ends with this process.
 */
export async function startProgram(
  settings: readonly string[],
  answers: () => Promise<boolean>,
): Promise<ChildProcess> {
  const server = spawn(
    process.env.TEST_REDIS || (await programOnPath()),
    [...settings, "--save", "", "--loglevel", "warning"],
    {
      stdio: ["ignore", "ignore", "inherit"],
    },
  );
  alive.add(server);
  server.on("exit", () => alive.delete(server));
  let fault: Error | undefined;
  server.on("error", (error) => {
    fault = error;
    alive.delete(server);
  });
  const deadline = performance.now() + startMsMax;
  while (!(await answers())) {
    if (fault) throw new Error(`redis-server did not start: ${fault.message}`);
    if (server.exitCode !== null) throw new Error(`redis-server ended with ${server.exitCode}`);
    if (performance.now() > deadline) throw new Error(`redis-server did not answer within ${startMsMax} ms`);
    await delay(10);
  }
  return server;
}

/** A directory that is removed when this process ends, if not before. */
export async function temporaryDirectory(prefix: string): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), prefix));
  directories.add(directory);
  return directory;
}
