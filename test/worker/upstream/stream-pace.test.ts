import assert from "node:assert/strict";
import { test } from "node:test";
import { paceTickMs } from "../../../apps/worker/bounds.ts";
import { StreamPace } from "../../../apps/worker/upstream/stream-pace.ts";

test("each waits for its own interval; those that are due within a tick act together, with one timer for all", (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  const tick = (ms: number) => {
    now += ms;
    t.mock.timers.tick(ms);
  };
  const pace = new StreamPace({ now: () => now, epoch: () => 0 });
  const acted: string[] = [];
  const wait = (name: string) => pace.later(() => acted.push(`${name} ${now}`));
  pace.intervalMs = 40;
  wait("a");
  tick(paceTickMs);
  wait("b");
  tick(20);
  wait("c");
  tick(40 - 20 - paceTickMs);
  assert.deepEqual(acted, ["a 40", "b 40"]);
  pace.intervalMs = 20;
  pace.later(() => wait("again"));
  tick(20 + paceTickMs);
  assert.deepEqual(acted.slice(2), ["c 75"], "a shorter interval waits for those before it");
  tick(19);
  assert.deepEqual(acted.slice(3), []);
  tick(1);
  assert.deepEqual(acted.slice(3), ["again 95"]);
});
