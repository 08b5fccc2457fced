/** Where the checkout keeps what is not in the repository: `.sluice`, readable by its owner only. */
import { createHash } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { StartupFault } from "#service/startup.ts";

/** The checkout this file is in. */
export const checkout = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** The address of a Unix socket has room for 107 bytes on Linux and for 103 on macOS. */
const socketPathBytesMax = 103;

export interface State {
  directory: string;
  logs: string;
  redis: string;
  redisSocket: string;
  /** Held by the supervisor for as long as it runs. */
  lockFile: string;
  /** What a script needs to know of a running gateway; there only while it runs. */
  readyFile: string;
  /** The first run's key, which the banner shows again. */
  firstKeyFile: string;
}

/** Makes the directories; a StartupFault when they cannot be written. */
export function openState(root: string): State {
  const state = stateOf(root);
  try {
    for (const directory of [state.directory, state.logs, state.redis])
      mkdirSync(directory, { recursive: true, mode: 0o700 });
    chmodSync(state.directory, 0o700);
    writeFileSync(join(state.directory, ".writable"), "");
    rmSync(join(state.directory, ".writable"));
  } catch (error) {
    throw new StartupFault(
      `cannot write ${state.directory}: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`,
    );
  }
  return state;
}

export function stateOf(root: string): State {
  const directory = join(root, ".sluice");
  const redis = join(directory, "redis");
  const socket = join(redis, "redis.sock");
  return {
    directory,
    logs: join(directory, "log"),
    redis,
    redisSocket: Buffer.byteLength(socket) <= socketPathBytesMax ? socket : join(shortDirectoryOf(root), "redis.sock"),
    lockFile: join(directory, "start.lock"),
    readyFile: join(directory, "ready.json"),
    firstKeyFile: join(directory, "first-key"),
  };
}

/** A short path for a checkout with a long one: always the same, and nobody else's. */
function shortDirectoryOf(root: string): string {
  const directory = join(
    tmpdir(),
    `sluice-${process.getuid?.() ?? 0}-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`,
  );
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(directory);
  const isOurs = lstatSync(directory).isDirectory() && uid === (process.getuid?.() ?? 0) && (mode & 0o077) === 0;
  if (!isOurs) throw new StartupFault(`${directory} is not this user's own; remove it`);
  return directory;
}

/** What stands in `.sluice/ready.json`. */
export interface Ready {
  /** What an OpenAI client takes as its base address: it ends in `/v1`. */
  baseUrl: string;
  /** The same without `/v1`. */
  address: string;
  key: string;
  operationsUrls: { ingress: string; worker: string };
  simulatorUrl: string;
  redisUrl: string;
  /** By role; of the supervisor itself under `sluice`, and of Redis when it is a private one. */
  pids: Record<string, number>;
}

/** Undefined when there is none that can be read. */
export function readReady({ readyFile }: State): Ready | undefined {
  try {
    return JSON.parse(readFileSync(readyFile, "utf8")) as Ready;
  } catch {
    return undefined;
  }
}

/** Whoever reads the file finds all of it; only its owner can. */
export function writePrivately(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}
