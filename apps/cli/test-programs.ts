/** The programs that the tests start: Redis as for `npm start`, PostgreSQL and Chromium. */
import { existsSync, globSync } from "node:fs";
import { delimiter, join } from "node:path";
import type { Environment } from "#catalogue/environment.ts";
import { StartupFault } from "#service/startup.ts";
import { canInstall, installPackage, type Package } from "./apt.ts";
import { ensureRedisProgram } from "./redis-program.ts";
import type { State } from "./state.ts";

interface TestProgram extends Package {
  /** The path of what is installed. */
  find(path: readonly string[]): string | undefined;
}

/** Found by the directory of the newest server's programs, which Debian keeps out of PATH. */
export const postgres: TestProgram = {
  program: "PostgreSQL 15 or newer",
  packageName: "postgresql",
  find: (path) =>
    [...path, ...globSync("/usr/lib/postgresql/*/bin").sort().reverse()].find((directory) =>
      existsSync(join(directory, "initdb")),
    ),
};

export const chromium: TestProgram = {
  program: "Chromium",
  packageName: "chromium",
  find: (path) => [...path, "/usr/bin"].map((directory) => join(directory, "chromium")).find(existsSync),
};

/** Where the program is. Throws an Error that says what to install. */
export function programFor(
  { find, program, packageName }: TestProgram,
  { PATH = "" }: Environment = process.env,
): string {
  const path = find(PATH.split(delimiter));
  if (path === undefined)
    throw new Error(`this test needs ${program}; install it (on Debian: apt-get install ${packageName})`);
  return path;
}

/**
 * Installs what is missing, on Debian and Ubuntu as root. Throws a StartupFault without Redis,
 * which most tests need. Without one of the others, only the tests that need it fail.
 */
export async function ensureTestPrograms(environment: Environment, state: State, signal: AbortSignal): Promise<void> {
  await ensureRedisProgram(environment, state, signal);
  const missing = [postgres, chromium].filter(({ find }) => !find((environment.PATH ?? "").split(delimiter)));
  for (const program of canInstall() ? missing : []) {
    try {
      await installPackage(program, join(state.logs, "install.log"), signal);
    } catch (error) {
      if (!(error instanceof StartupFault) || signal.aborted) throw error;
      process.stderr.write(`sluice: ${error.message}; the tests that need it will fail\n`);
    }
  }
}
