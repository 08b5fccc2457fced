/** A short chaos run on each topology; `npm run chaos` runs longer ones. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { runChaos } from "./run/chaos.ts";
import { topologyNames } from "./run/stack.ts";

for (const topology of topologyNames)
  test(`two minutes of faults, ${topology}: no promise is broken`, async (context) => {
    const { violations, calls, struck } = await runChaos({
      seed: 1,
      minutes: 2,
      topology,
      callers: 16,
      tell: (line) => context.diagnostic(line),
    });
    context.diagnostic(`${calls.length} calls, ${struck.length} faults`);
    assert.deepEqual(violations, []);
    assert.ok(struck.length > 0 && calls.some(({ outcome }) => outcome === "complete"));
  });
