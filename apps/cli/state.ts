/**
 * The directory `.sluice`, which contains all files outside the repository. Only its owner can read
 * it.
 */
import { createHash, randomBytes } from "node:crypto";
import { chmodSync, lstatSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { StartupFault } from "#service/startup.ts";

/** The checkout that contains this file. */
export const checkout = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** The path of a Unix socket can have 107 bytes on Linux and 103 on macOS. */
const socketPathBytesMax = 103;

export interface State {
  directory: string;
  logs: string;
  redis: string;
  redisSocket: string;
  /** Control listens here for the ingress. */
  controlSocket: string;
  /** Builds of the console. */
  consoles: string;
  /** The running supervisor holds this lock. */
  lockFile: string;
  /** Describes the running gateway for scripts. Exists only while the gateway runs. */
  readyFile: string;
  /** The key of the first start, which the banner shows. */
  firstKeyFile: string;
  /** The token with which the command line calls control. */
  operatorTokenFile: string;
  /** The secret that ingress and control share. */
  internalSecretFile: string;
  /** The secret that seals stored credentials. */
  credentialsSecretFile: string;
}

/** Creates the directories. Throws a StartupFault when they are not writable. */
export function openState(root: string): State {
  const state = stateOf(root);
  try {
    for (const directory of [state.directory, state.logs, state.redis, state.consoles])
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
  const socketIn = (name: string) => {
    const path = join(redis, name);
    return Buffer.byteLength(path) <= socketPathBytesMax ? path : join(shortDirectoryOf(root), name);
  };
  return {
    directory,
    logs: join(directory, "log"),
    consoles: join(directory, "console"),
    redis,
    redisSocket: socketIn("redis.sock"),
    controlSocket: socketIn("control.sock"),
    lockFile: join(directory, "start.lock"),
    readyFile: join(directory, "ready.json"),
    firstKeyFile: join(directory, "first-key"),
    operatorTokenFile: join(directory, "operator-token"),
    internalSecretFile: join(directory, "internal-secret"),
    credentialsSecretFile: join(directory, "credentials-secret"),
  };
}

/** A short directory for a checkout with a long path: always the same one, owned by this user. */
function shortDirectoryOf(root: string): string {
  const directory = join(
    tmpdir(),
    `sluice-${process.getuid?.() ?? 0}-${createHash("sha256").update(root).digest("hex").slice(0, 12)}`,
  );
  mkdirSync(directory, { recursive: true, mode: 0o700 });
  const { uid, mode } = lstatSync(directory);
  const isOurs = lstatSync(directory).isDirectory() && uid === (process.getuid?.() ?? 0) && (mode & 0o077) === 0;
  if (!isOurs) throw new StartupFault(`${directory} belongs to another user or is accessible to others; remove it`);
  return directory;
}

/** The content of `.sluice/ready.json`. */
export interface Ready {
  /** The base URL for OpenAI clients, which ends in `/v1`. */
  baseUrl: string;
  /** The same without `/v1`. */
  address: string;
  key: string;
  /** Absent for a gateway without control. */
  controlUrl?: string;
  /** The console in a browser. */
  consoleUrl?: string;
  operationsUrls: { ingress: string; worker: string; control?: string };
  simulatorUrl: string;
  redisUrl: string;
  /** By role, with `sluice` for the supervisor and `redis` for a private Redis. */
  pids: Record<string, number>;
}

/** Undefined without a readable file. */
export function readReady({ readyFile }: State): Ready | undefined {
  try {
    return JSON.parse(readFileSync(readyFile, "utf8")) as Ready;
  } catch {
    return undefined;
  }
}

/** Writes a file atomically, readable only by its owner. */
export function writePrivately(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** The token of the first start with control; undefined before it. */
export function readOperatorToken({ operatorTokenFile }: State): string | undefined {
  return readTrimmed(operatorTokenFile);
}

/** The secret in a file: a new random one at the first start, and the same one later. */
export function ensureSecret(file: string): string {
  const present = readTrimmed(file);
  if (present !== undefined) return present;
  const secret = randomBytes(32).toString("base64url");
  writePrivately(file, `${secret}\n`);
  return secret;
}

/** Undefined without a readable file, and for an empty one. */
export function readTrimmed(file: string): string | undefined {
  try {
    return readFileSync(file, "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}
