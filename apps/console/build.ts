/**
 * Builds the console into a directory: `node apps/console/build.ts <directory>`. A directory that
 * is complete already stays as it is.
 */
import { existsSync, globSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { build } from "vite";
import { viteConfig } from "./vite.config.ts";

/** Builds beside the directory and renames, so that a directory that exists is complete. */
export async function buildConsole(directory: string): Promise<void> {
  if (existsSync(directory)) return;
  const unfinished = `${directory}.${process.pid}`;
  await build({
    ...viteConfig,
    configFile: false,
    logLevel: "error",
    build: { ...viteConfig.build, outDir: unfinished },
  });
  compress(unfinished);
  try {
    renameSync(unfinished, directory);
  } catch (error) {
    rmSync(unfinished, { recursive: true, force: true });
    if (!existsSync(directory)) throw error;
  }
}

/** Beside each file that compresses: control sends the smaller one. */
function compress(directory: string): void {
  for (const file of globSync("**/*.{js,css,svg,html}", { cwd: directory }))
    writeFileSync(join(directory, `${file}.gz`), gzipSync(readFileSync(join(directory, file)), { level: 9 }));
}

const [directory] = process.argv.slice(2);
if (import.meta.main && directory !== undefined) await buildConsole(directory);
