/** A new embedded database for a test. */
import { cpSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { openDatabase } from "../../apps/control/database/database.ts";
import { cacheFor } from "./cache.ts";

const pglite = join(import.meta.dirname, "..", "..", "node_modules", "@electric-sql", "pglite");
const cache = cacheFor("pglite", () => readFileSync(join(pglite, "package.json"), "utf8"));

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
  const template = await cache.of(async (making) => {
    await (await openDatabase({ url: undefined, directory: making }))[Symbol.asyncDispose]();
  });
  mkdirSync(directory, { recursive: true });
  cpSync(join(template, "data"), join(directory, "data"), { recursive: true });
  return directory;
}
