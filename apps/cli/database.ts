/**
 * `sluice db …`: exports the database of control, or imports an export. The work is a process of
 * control's, which has the database's packages.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import type { Environment } from "#catalogue/environment.ts";

const usage = `Usage:
  sluice db export [file]    writes accounts, keys, usage and everything else as lines of JSON; without a file to the standard output
  sluice db import [file]    reads such lines into an empty database; without a file from the standard input

DATABASE_URL names the Postgres server. Without it, it is the embedded database of this checkout, and the gateway must be stopped.
`;

/** Resolves to the exit code: 2 for invalid arguments. A relative file starts at `directory`. */
export async function databaseCommand(
  [command, file = "-", ...rest]: string[],
  environment: Environment,
  directory: string,
): Promise<number> {
  if ((command !== "export" && command !== "import") || rest.length > 0 || file.startsWith("--")) {
    process.stderr.write(usage);
    return 2;
  }
  const path = file === "-" ? file : resolve(directory, file);
  const child = spawn(process.execPath, ["apps/control/transfer.ts", command, path], {
    env: environment,
    stdio: "inherit",
  });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}
