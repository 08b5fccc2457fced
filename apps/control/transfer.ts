/**
 * `sluice db export|import`: runs as a process of its own, because the command line does not load a
 * database. Writes or reads lines of JSON.
 */

import { createReadStream, createWriteStream, existsSync } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { PassThrough } from "node:stream";
import { pipeline } from "node:stream/promises";
import { systemClock } from "#service/clock.ts";
import { withSecrets } from "#service/secret-files.ts";
import { StartupFault } from "#service/startup.ts";
import { controlConfigOf } from "./config.ts";
import { openDatabase } from "./database/database.ts";
import { exportDatabase, importDatabase, linesOf, TransferFault } from "./database/transfer.ts";

const [command, file = "-", option] = process.argv.slice(2);
const replaces = option === "--replace";
try {
  const { databaseUrl: url, databaseDirectory: directory } = controlConfigOf(withSecrets(process.env, "DATABASE_URL"));
  await using opened = await openDatabase({ url, directory });
  const rows = command === "export" ? await exportTo(file) : await importFrom(file);
  process.stderr.write(`${rows} rows\n`);
  if (command === "import") process.stderr.write("Restart control if it runs, so that it reads them.\n");

  async function exportTo(path: string): Promise<number> {
    const output = new PassThrough();
    const isStandard = path === "-";
    if (!(isStandard || replaces) && existsSync(path))
      throw new TransferFault(`${path} exists; name another file, or overwrite it with --replace`);
    const written = pipeline(output, isStandard ? process.stdout : createWriteStream(`${path}.new`, { mode: 0o600 }), {
      end: !isStandard,
    });
    // Its failure ends the export, which reports it.
    written.catch(() => undefined);
    try {
      const count = await exportDatabase(opened.database, output);
      output.end();
      await written;
      if (!isStandard) await rename(`${path}.new`, path);
      return count;
    } catch (error) {
      output.destroy(error as Error);
      await written.catch(() => undefined);
      if (!isStandard) await rm(`${path}.new`, { force: true });
      throw error;
    }
  }

  function importFrom(path: string): Promise<number> {
    const input = path === "-" ? process.stdin : createReadStream(path);
    return importDatabase(opened.database, linesOf(input), { clock: systemClock, replaces });
  }
} catch (error) {
  const { code } = error as NodeJS.ErrnoException;
  if (!(error instanceof StartupFault || error instanceof TransferFault || code !== undefined)) throw error;
  process.stderr.write(`sluice db ${command}: ${(error as Error).message}\n`);
  process.exitCode = 1;
}
