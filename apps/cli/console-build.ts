/**
 * Builds the console when its sources have changed, in a process of its own beside the start of the
 * others.
 */
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { closeSync, existsSync, globSync, openSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";

export interface ConsoleBuild {
  /** Complete once it exists. Each state of the sources has its own. */
  directory: string;
  /** Resolves to a line that says what failed, or to undefined. */
  done: Promise<string | undefined>;
}

/** The files that the build depends on. */
const sources = ["apps/console/**/*.*", "libs/api/*.ts", "libs/access/*.ts", "docs/operations.md", "package-lock.json"];
const buildMsMax = 120_000;

/** A checkout without the sources has no console. */
export function buildConsole(root: string, directories: string, logFile: string): ConsoleBuild {
  const directory = join(directories, hashOf(root));
  const isBuilt = existsSync(directory) || !existsSync(join(root, "apps", "console"));
  if (isBuilt) return { directory, done: Promise.resolve(undefined) };
  return { directory, done: build(root, directories, directory, logFile) };
}

function hashOf(root: string): string {
  const hash = createHash("sha256");
  for (const file of globSync(sources, { cwd: root }).sort())
    hash.update(`${file}\n`).update(readFileSync(join(root, file)));
  return hash.digest("hex").slice(0, 16);
}

async function build(
  root: string,
  directories: string,
  directory: string,
  logFile: string,
): Promise<string | undefined> {
  const log = openSync(logFile, "a", 0o600);
  const failed = (why: string) =>
    `the console could not be built: ${why} (log: ${logFile}); the gateway runs without it`;
  try {
    const child = spawn(process.execPath, ["apps/console/build.ts", directory], {
      cwd: root,
      env: { PATH: process.env.PATH, NODE_ENV: "production" },
      stdio: ["ignore", log, log],
      timeout: buildMsMax,
    });
    const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
    if (code !== 0) return failed(`the build ended with ${code ?? signal}`);
    for (const other of readdirSync(directories))
      if (join(directories, other) !== directory) rmSync(join(directories, other), { recursive: true, force: true });
    return undefined;
  } catch (error) {
    return failed((error as Error).message);
  } finally {
    closeSync(log);
  }
}
