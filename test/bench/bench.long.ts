import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { promisify } from "node:util";
import { programOf } from "./processes.ts";

const run = promisify(execFile);

/** No figure is asserted: how fast it is depends on what else the machine does. */
test("the bench measures short answers of two systems and reports its figures", {
  skip: programOf("wrk") === undefined && "wrk is not installed (apt-get install wrk)",
}, async () => {
  const args = [join(import.meta.dirname, "bench.ts"), "--quick", "--only", "short", "--systems", "direct,sluice"];
  const { stdout } = await run(process.execPath, args, { timeout: 300_000 });
  for (const title of ["# Performance", "## Short answers", "## Short answers: CPU by process"])
    assert.ok(stdout.includes(`${title}\n`), stdout);
  const rows = stdout.split("\n").filter((line) => /^\|.*\| (direct|sluice) +\|/.test(line));
  assert.ok(rows.length >= 4, stdout);
  assert.ok(
    rows.every((row) => /\d/.test(row)),
    stdout,
  );
});
