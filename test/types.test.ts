import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";

const cwd = join(import.meta.dirname, "..");
const run = promisify(execFile);
/** Go's garbage collector takes a fifth of the work, and frees a tenth of the two gigabytes. */
const env = { ...process.env, GOGC: "off" };

for (const project of [".", "apps/console"])
  test(`the types of ${project} are right`, async () => {
    // Further checkers would repeat a part of its work, and other tests need the cores.
    const options = ["--no", "tsc", "--", "--noEmit", "--checkers", "1", "--project", project];
    const faults = await run("npm", ["exec", ...options], { cwd, env }).then(
      () => "",
      ({ stdout, stderr }: { stdout: string; stderr: string }) => `${stdout}${stderr}`,
    );
    assert.equal(faults, "");
  });
