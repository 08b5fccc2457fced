import assert from "node:assert/strict";
import { test } from "node:test";
import { startPeriodicTasks } from "../../apps/ingress/periodic-tasks.ts";

test("each task runs at its own interval with the clock's time, until all are stopped", (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let now = 0;
  const runs: string[] = [];
  const stop = startPeriodicTasks({ now: () => now, epoch: () => 0 }, [
    [100, (at) => runs.push(`fast ${at}`)],
    [250, (at) => runs.push(`slow ${at}`)],
  ]);
  const advance = (ms: number) => {
    now += ms;
    t.mock.timers.tick(ms);
  };
  for (let step = 0; step < 6; step++) advance(50);
  assert.deepEqual(runs, ["fast 100", "fast 200", "slow 250", "fast 300"]);
  stop();
  advance(1_000);
  assert.equal(runs.length, 4);
});
