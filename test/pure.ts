/** Runs the tests of pure code in one process: they share no state, and loading a process for each file takes longer than its tests. */
import { globSync } from "node:fs";

const folders = "{libs/dialects,libs/operations,simulator/dialects,simulator/answer}";
for (const file of globSync(`${folders}/**/*.test.ts`, { cwd: import.meta.dirname })) await import(`./${file}`);
