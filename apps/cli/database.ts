/**
 * `sluice db …`: exports the database of control, or imports an export. The work is a process of
 * control's, which has the database's packages.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import type { Environment } from "#catalogue/environment.ts";

const usage = `Usage:
  sluice db export [--replace] [file]    writes accounts, keys, usage and everything else as lines of JSON; without a file to the standard output
  sluice db import [--replace] [file]    reads such lines into a database that nobody has used yet; without a file from the standard input

  --replace    overwrites the file of an export; deletes what the database has before an import

DATABASE_URL names the Postgres server. Without it, it is the embedded database of this checkout, and the gateway must be stopped.
`;

const replaceOption = "--replace";

/** Resolves to the exit code: 2 for invalid arguments. A relative file starts at `directory`. */
export async function databaseCommand(args: string[], environment: Environment, directory: string): Promise<number> {
  const [command, file = "-", ...rest] = args.filter((argument) => argument !== replaceOption);
  if ((command !== "export" && command !== "import") || rest.length > 0 || file.startsWith("--")) {
    process.stderr.write(usage);
    return 2;
  }
  const options = args.includes(replaceOption) ? [replaceOption] : [];
  const path = file === "-" ? file : resolve(directory, file);
  const child = spawn(process.execPath, ["apps/control/transfer.ts", command, path, ...options], {
    env: environment,
    stdio: "inherit",
  });
  const [code] = (await once(child, "exit")) as [number | null];
  return code ?? 1;
}
