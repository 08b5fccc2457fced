import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { createWheel, createWheelEntry, type Wheel, type WheelEntry } from "../../apps/simulator/wheel.ts";

/** A wheel on a clock that the test turns, with its timers. */
function wheelOf(t: TestContext): { wheel: Wheel; pass(ms: number): void } {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let nowMs = 1_000.25;
  return {
    wheel: createWheel(() => nowMs),
    pass(ms) {
      for (let passed = 0; passed < ms; passed++) {
        nowMs++;
        t.mock.timers.tick(1);
      }
    },
  };
}

test("entries run in the order of their times, never early, near and far", (t) => {
  const { wheel, pass } = wheelOf(t);
  const ran: { dueMs: number; atMs: number }[] = [];
  const dues = [0, 1, 2.5, 20, 63, 64, 65, 4_095, 4_096, 4_097, 9_000, 20_000].map((ms) => wheel.now() + ms);
  for (const dueMs of dues.toReversed())
    wheel.set(
      createWheelEntry((atMs) => ran.push({ dueMs, atMs })),
      dueMs,
    );
  pass(20_010);
  assert.deepEqual(
    ran.map(({ dueMs }) => dueMs),
    dues,
  );
  for (const { dueMs, atMs } of ran) assert.ok(atMs >= dueMs && atMs - dueMs < 3, `${dueMs} ran at ${atMs}`);
});

test("a removed entry does not run, and one that is set again runs once, at the later time", (t) => {
  const { wheel, pass } = wheelOf(t);
  const ran: string[] = [];
  const removed = createWheelEntry(() => ran.push("removed"));
  const moved = createWheelEntry(() => ran.push("moved"));
  wheel.set(removed, wheel.now() + 5);
  wheel.set(moved, wheel.now() + 5);
  wheel.set(moved, wheel.now() + 50);
  wheel.remove(removed);
  wheel.remove(removed);
  pass(40);
  assert.deepEqual(ran, []);
  pass(20);
  assert.deepEqual(ran, ["moved"]);
});

test("without an entry there is no timer, so the process can end", (t) => {
  const { wheel } = wheelOf(t);
  const cleared = t.mock.method(globalThis, "clearTimeout");
  const entry = createWheelEntry(() => assert.fail("it was removed"));
  wheel.set(entry, wheel.now() + 3_600_000);
  cleared.mock.resetCalls();
  wheel.remove(entry);
  assert.equal(cleared.mock.callCount(), 1);
});

test("a run may set and remove any entry, including its own", (t) => {
  const { wheel, pass } = wheelOf(t);
  let runs = 0;
  const entries: WheelEntry[] = [];
  const victim = createWheelEntry(() => assert.fail("it was removed by an entry of its own slot"));
  const pacer = createWheelEntry(() => {
    wheel.remove(victim);
    if (++runs < 100) wheel.set(pacer, pacer.dueMs + 20);
  });
  entries.push(pacer, victim);
  for (const entry of entries) wheel.set(entry, wheel.now() + 20);
  pass(2_010);
  assert.equal(runs, 100);
});

test("thousands of entries at random times all run, each once", (t) => {
  const { wheel, pass } = wheelOf(t);
  let seed = 7;
  const random = (below: number) => {
    seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
    return seed % below;
  };
  const runs = new Array<number>(3_000).fill(0);
  for (const [index] of runs.entries()) {
    const entry = createWheelEntry((nowMs) => {
      runs[index] = (runs[index] ?? 0) + 1;
      if (runs[index] === 1 && index % 3 === 0) wheel.set(entry, nowMs + random(6_000));
    });
    wheel.set(entry, wheel.now() + random(6_000));
  }
  pass(12_100);
  assert.ok(runs.every((count, index) => count === (index % 3 === 0 ? 2 : 1)));
});
