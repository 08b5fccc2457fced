/**
 * `npm run tests`: every file of groups.ts in processes of their own, a few at a time. The tests
 * fail if one of them fails.
 */
import { execFileSync } from "node:child_process";
import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { testFiles } from "./groups.ts";

const root = join(import.meta.dirname, "..");
/**
 * More than the cores of a small machine, because many tests wait; few enough that a process of the
 * gateway answers in time.
 */
const processes = 4;

/** A file that takes longer hangs: it fails, and the run goes on. */
const fileMsMax = 300_000;
const runMsMax = 20 * 60_000;

/** Databases of tests are many small files, which are fast in memory. Linux has this directory. */
const memory = "/dev/shm";
const memoryBytesMin = 4 * 2 ** 30;

function hasMemory(): boolean {
  if (!existsSync(memory)) return false;
  const { bavail, bsize } = statfsSync(memory);
  return bavail * bsize >= memoryBytesMin;
}

if (hasMemory()) {
  const directory = mkdtempSync(`${memory}/sluice-tests-`);
  // Postgres runs as a user of its own.
  chmodSync(directory, 0o711);
  process.env.TMPDIR = directory;
  process.on("exit", () => rmSync(directory, { recursive: true, force: true }));
}
// Node compiles each source once: the first process fills the cache, and all others read it.
process.env.NODE_COMPILE_CACHE = join(root, "node_modules", ".cache", "compile");
execFileSync(process.execPath, ["-e", 'import("./test/support/gateway.ts"); import("./test/control/api.ts")'], {
  cwd: root,
  stdio: "inherit",
});
const files = testFiles();
const preloaded = [
  "support/unfollowed-promises.ts",
  "support/properties.ts",
  "support/quick-passwords.ts",
  "support/exit-watch.ts",
];
const results = run({
  files,
  concurrency: processes,
  timeout: fileMsMax,
  execArgv: preloaded.flatMap((file) => ["--import", new URL(file, import.meta.url).href]),
});
const unfinished = new Set(files);
results.on("test:fail", () => {
  process.exitCode = 1;
});
results.on("test:complete", ({ name }) => unfinished.delete(name));
// Programs that a killed test left keep its output open, so its end may never be told.
setTimeout(() => {
  console.error(`Not over after ${runMsMax / 60_000} minutes: ${[...unfinished].join(", ")}`);
  process.exit(1);
}, runMsMax).unref();
results.compose(spec).pipe(process.stdout);
