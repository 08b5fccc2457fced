/** Finds a Redis or Valkey server program that is new enough, or has one installed. */
import { execFile } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";
import { StartupFault } from "#service/startup.ts";
import { installRedisPackage } from "./apt.ts";
import type { State } from "./state.ts";

type Environment = Readonly<Record<string, string | undefined>>;

const run = promisify(execFile);

/** The oldest versions that the service is made for. */
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
 * The program on PATH; else, on Debian and Ubuntu as root, the one of a package that is installed now (its output goes to
 * `install.log`; `signal` ends it).
 * A StartupFault that says what to install when there is none.
 */
export async function ensureRedisProgram(
  environment: Environment,
  { logs }: State,
  signal: AbortSignal,
): Promise<RedisProgram> {
  const present = await findRedisProgram(environment.PATH ?? "");
  if (present.kind === "found") return present.program;
  if (present.kind === "tooOld") throw new StartupFault(`${present.path} is ${present.version}; ${advice}`);
  if (!existsSync("/usr/bin/apt-get") || process.getuid?.() !== 0)
    throw new StartupFault(`there is no redis-server or valkey-server on PATH; ${advice}`);
  await installRedisPackage(join(logs, "install.log"), signal);
  const installed = await findRedisProgram(`${environment.PATH ?? ""}${delimiter}/usr/bin`);
  if (installed.kind === "found") return installed.program;
  throw new StartupFault(
    `this system's redis-server is ${installed.kind === "tooOld" ? installed.version : "not there after its installation"}; ${advice}`,
  );
}

const advice =
  "install Redis 7 or Valkey 8, or newer (on Debian and Ubuntu: apt-get install redis-server), or set REDIS_URL";

/** Looks along a PATH. Of several the first that is new enough. */
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
