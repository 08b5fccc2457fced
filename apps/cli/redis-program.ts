/** Finds or installs a Redis or Valkey server program of a supported version. */
import { execFile } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import type { Environment } from "#catalogue/environment.ts";
import { StartupFault } from "#service/startup.ts";
import { canInstall, installPackage } from "./apt.ts";
import type { State } from "./state.ts";

const run = promisify(execFile);

/** The oldest supported major versions. */
const versionsMin: Record<string, number> = { redis: 7, valkey: 8 };

export interface RedisProgram {
  path: string;
  /** "Redis 7.0.15" */
  version: string;
}

type Found =
  | { kind: "found"; program: RedisProgram }
  | { kind: "none" }
  | { kind: "tooOld"; path: string; version: string };

/**
 * Returns the program on PATH. Without one, installs the package on Debian and Ubuntu as root, with
 * its output in `install.log`; `signal` cancels that. Otherwise throws a StartupFault that says
 * what to install.
 */
export async function ensureRedisProgram(
  environment: Environment,
  { logs }: State,
  signal: AbortSignal,
): Promise<RedisProgram> {
  const present = await findRedisProgram(environment.PATH ?? "");
  if (present.kind === "found") return present.program;
  if (present.kind === "tooOld") throw new StartupFault(`${present.path} is ${present.version}; ${advice}`);
  if (!canInstall()) throw new StartupFault(`redis-server and valkey-server are not on PATH; ${advice}`);
  const redis = { program: "Redis", packageName: "redis-server" };
  await installPackage(redis, join(logs, "install.log"), signal).catch((error: StartupFault) => {
    throw new StartupFault(`${error.message}; install Redis yourself, or set REDIS_URL`);
  });
  const installed = await findRedisProgram(`${environment.PATH ?? ""}${delimiter}/usr/bin`);
  if (installed.kind === "found") return installed.program;
  throw new StartupFault(
    `the installed redis-server is ${installed.kind === "tooOld" ? `too old (${installed.version})` : "not on PATH"}; ${advice}`,
  );
}

const advice =
  "install Redis 7 or Valkey 8, or newer (on Debian and Ubuntu: apt-get install redis-server), or set REDIS_URL";

/** Searches a PATH for the first program of a supported version. */
export async function findRedisProgram(path: string): Promise<Found> {
  let tooOld: Found | undefined;
  for (const name of ["redis-server", "valkey-server"]) {
    for (const directory of path.split(delimiter)) {
      const file = join(directory || ".", name);
      if (!isExecutable(file)) continue;
      const version = await versionOf(file);
      if (!version) continue;
      if (version.major >= (versionsMin[version.kind] ?? 0))
        return { kind: "found", program: { path: file, version: version.text } };
      tooOld ??= { kind: "tooOld", path: file, version: version.text };
    }
  }
  return tooOld ?? { kind: "none" };
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function versionOf(file: string): Promise<{ kind: string; major: number; text: string } | undefined> {
  const output = await run(file, ["--version"], { timeout: 5_000 }).catch(() => undefined);
  const [, kind, version, major] = /(redis|valkey) server v=((\d+)[\d.]*)/i.exec(output?.stdout ?? "") ?? [];
  if (kind === undefined || version === undefined) return undefined;
  return { kind: kind.toLowerCase(), major: Number(major), text: `${kind} ${version}` };
}
