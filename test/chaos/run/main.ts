/**
 * `npm run chaos`: reads its options, runs, writes the report, and exits with 1 if a promise was
 * broken. SIGINT or SIGTERM ends the faults, and a second one the run: the report then has what was
 * known after the last fault.
 */
import { parseArgs } from "node:util";
import { runChaos } from "./chaos.ts";
import { writeReport } from "./report.ts";
import { type TopologyName, topologyNames } from "./stack.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: "1" },
    minutes: { type: "string", default: "5" },
    topology: { type: "string", default: "single" },
    callers: { type: "string", default: "24" },
    only: { type: "string" },
    report: { type: "string", default: "chaos-report" },
  },
});
const topology = topologyNames.find((name) => name === values.topology) as TopologyName | undefined;
const [seed, minutes, callers] = [values.seed, values.minutes, values.callers].map(Number) as [number, number, number];
if (topology === undefined || !Number.isSafeInteger(seed) || !(minutes > 0) || !(callers > 0)) {
  console.error("usage: npm run chaos -- --seed 1 --minutes 5 [--topology single|sentinel|cluster] [--callers 24]");
  process.exit(2);
}
const began = performance.now();
const tell = (line: string) =>
  console.log(`${((performance.now() - began) / 1_000).toFixed(0).padStart(5)} s  ${line}`);
const ending = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => {
    if (ending.signal.aborted) process.exit(130);
    tell(`${signal}: no more faults; checking`);
    ending.abort();
  });
const result = await runChaos({
  seed,
  minutes,
  topology,
  callers,
  only: values.only,
  tell,
  save: (report) => writeReport(values.report, report),
  signal: ending.signal,
});
await writeReport(values.report, result);
for (const violation of result.violations.slice(0, 50)) console.log(`broken: ${violation}`);
console.log(
  `${result.calls.length} calls, ${result.struck.length} faults, ${result.violations.length} broken promises; the report is in ${values.report}`,
);
process.exit(result.violations.length === 0 ? 0 : 1);
