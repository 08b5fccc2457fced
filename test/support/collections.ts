/** Counts the full collections of V8 while values come and go, which show what outlives its use. */
import { execFileSync } from "node:child_process";

const root = new URL("../../", import.meta.url);

/**
 * How often V8 collects everything in a process in which many values come and go, of which 64 are
 * there at a time. `holder` is the source of `add(count, value)` and `remove(count)`, with whatever
 * they need.
 */
export function fullCollections(holder: string): number {
  const churn = `${holder}
    add(0, {});
    remove(0);
    let junk;
    for (let count = 0; count < 300_000; count++) junk = new Array(100).fill(count);
    for (let count = 1; count < 200_000; count++) {
      add(count, new Array(200).fill(count));
      if (count > 64) remove(count - 64);
      if (count % 64 === 0) await undefined;
    }
    process.exit();`;
  const flags = ["--max-semi-space-size=4", "--no-allocation-site-pretenuring"];
  // So that V8 collects by what was allocated, and not by the clock or by how busy the machine is.
  const collector = ["--trace-gc", ...flags, "--single-threaded-gc", "--predictable-gc-schedule"];
  const output = execFileSync(process.execPath, [...collector, "--input-type=module", "--eval", churn], {
    encoding: "utf8",
    cwd: root,
  });
  return output.split("Mark-Compact").length - 1;
}
