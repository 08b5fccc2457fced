/** The machine, the versions and the date of a bench run. */
import { spawnSync } from "node:child_process";
import { cpus, release, totalmem, type } from "node:os";
import { basename, isAbsolute } from "node:path";
import { wrkProgram } from "./load.ts";
import type { Bench } from "./rounds.ts";
import { isPresent } from "./system.ts";

export interface BenchEnvironment {
  command: string;
  /** A day. */
  date: string;
  machine: string;
  versions: string;
  /** Describes each compared system, by name. */
  systems: Record<string, string>;
}

/** Paths of this machine say nothing to readers. */
const withoutPath = (argument: string): string => (isAbsolute(argument) ? basename(argument) : argument);

export function environmentOf({ systems }: Bench, args: readonly string[]): BenchEnvironment {
  const processors = cpus();
  return {
    command: ["npm run bench", ...(args.length > 0 ? ["--", ...args.map(withoutPath)] : [])].join(" "),
    date: new Date().toISOString().slice(0, 10),
    machine: `${processors.length} cores of ${processors[0]?.model.trim()}, ${Math.round(totalmem() / 2 ** 30)} GiB, ${type()} ${release()}`,
    versions: `Node ${process.versions.node}, ${/^wrk \S+/.exec(spawnSync(wrkProgram(), ["-v"], { encoding: "utf8" }).stdout)?.[0] ?? "wrk"}`,
    systems: Object.fromEntries(
      systems.map((system) => [system.name, isPresent(system) ? system.version : system.absent]),
    ),
  };
}
