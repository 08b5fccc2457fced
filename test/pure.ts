/**
 * Runs the tests of pure code in one process: they share no state, and loading a process for each file takes longer than its tests. With `--others` it prints the
 * other test files instead, which have a process each.
 */
import { globSync } from "node:fs";
import { join, relative } from "node:path";

const pure = [
  "*.test.ts",
  "chaos/run/*.test.ts",
  "ingress/{admission,generation}/*.test.ts",
  "ingress/trace-subscriber.test.ts",
  "libs/{dialects,events,operations}/**/*.test.ts",
  "libs/relay/*.test.ts",
  "libs/tracing/{sampling,trace-context}.test.ts",
  "libs/catalogue/load.test.ts",
  "mutation/*.test.ts",
  "simulator/{answer,dialects}/*.test.ts",
  "simulator/settings.test.ts",
  "worker/{answer,attempt,observability}/*.test.ts",
];
const cwd = import.meta.dirname;

if (process.argv.includes("--others")) {
  for (const file of globSync("**/*.test.ts", { cwd, exclude: pure })) console.log(relative(".", join(cwd, file)));
} else {
  for (const file of globSync(pure, { cwd })) await import(`./${file}`);
}
