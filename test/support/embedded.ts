/**
 * A new embedded database for a test. Making one takes seconds, so it is made once for each version
 * of PGlite and copied.
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openEmbedded } from "../../apps/control/database/embedded.ts";

const root = join(import.meta.dirname, "..", "..");
const { version } = JSON.parse(
  readFileSync(join(root, "node_modules", "@electric-sql", "pglite", "package.json"), "utf8"),
) as { version: string };
const cache = join(root, "node_modules", ".cache", "pglite");
const template = join(cache, version);

/**
 * Puts an empty database into a directory as `DATABASE_DIRECTORY` expects it; returns the
 * directory.
 */
export async function embeddedDirectory(directory: string): Promise<string> {
  if (!existsSync(template)) await makeTemplate();
  mkdirSync(directory, { recursive: true });
  cpSync(template, join(directory, "data"), { recursive: true });
  return directory;
}

/** Another process may do the same at the same time; the first one to finish wins. */
async function makeTemplate(): Promise<void> {
  mkdirSync(cache, { recursive: true });
  const making = mkdtempSync(join(cache, "making-"));
  await (await openEmbedded(join(making, "data"))).close();
  try {
    renameSync(join(making, "data"), template);
  } catch (error) {
    if (!existsSync(template)) throw error;
  }
  rmSync(making, { recursive: true, force: true });
}
