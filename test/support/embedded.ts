/**
 * A new embedded database for a test. Making one takes seconds, so it is made once for each version
 * of PGlite and of the tables, and copied.
 */
import { createHash } from "node:crypto";
import { cpSync, existsSync, globSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { openDatabase } from "../../apps/control/database/database.ts";

const root = join(import.meta.dirname, "..", "..");
const pglite = join(root, "node_modules", "@electric-sql", "pglite");
const { version } = JSON.parse(readFileSync(join(pglite, "package.json"), "utf8")) as { version: string };
const cache = join(root, "node_modules", ".cache", "pglite");
const sources = globSync("apps/control/database/**/*.ts", { cwd: root }).toSorted();
const tables = createHash("sha256");
for (const source of sources) tables.update(readFileSync(join(root, source)));
const template = join(cache, `${version}-${tables.digest("hex").slice(0, 16)}`);

/** The types of Node lack it. */
declare const WebAssembly: { compile(bytes: Uint8Array): Promise<object> };

/**
 * The engine compiles a WebAssembly module once for all threads while one of them has it: further
 * databases of a process start in half the time.
 */
let compiled: Promise<object> | undefined;

/**
 * Puts a database with empty tables into a directory as `DATABASE_DIRECTORY` expects it; returns
 * the directory.
 */
export async function embeddedDirectory(directory: string): Promise<string> {
  compiled ??= WebAssembly.compile(readFileSync(join(pglite, "dist", "pglite.wasm")));
  await compiled;
  if (!existsSync(template)) await makeTemplate();
  mkdirSync(directory, { recursive: true });
  cpSync(template, join(directory, "data"), { recursive: true });
  return directory;
}

/** Another process may do the same at the same time; the first one to finish wins. */
async function makeTemplate(): Promise<void> {
  mkdirSync(cache, { recursive: true });
  const making = mkdtempSync(join(cache, "making-"));
  await (await openDatabase({ url: undefined, directory: making }))[Symbol.asyncDispose]();
  try {
    renameSync(join(making, "data"), template);
  } catch (error) {
    if (!existsSync(template)) throw error;
  }
  rmSync(making, { recursive: true, force: true });
}
