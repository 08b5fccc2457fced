import assert from "node:assert/strict";
import { test } from "node:test";
import { Intake } from "../../apps/worker/intake.ts";

const idle = { eventLoop: 0.02, memory: 0.1 };

test("an idle process takes many generations in a few measurements, each more than the last", () => {
  const intake = new Intake();
  const limits = [intake.limit];
  for (let step = 0; step < 6; step++) {
    intake.measured(idle, intake.limit);
    limits.push(intake.limit);
  }
  assert.deepEqual(limits, [256, 384, 576, 864, 1296, 1944, 2916]);
  assert.equal(intake.saturated, undefined);
});

test("the limit is what the event loop can afford, as far as the generations that run cost alike", () => {
  const intake = new Intake();
  intake.measured({ eventLoop: 0.6, memory: 0.1 }, 600);
  assert.equal(intake.limit, 800);
  intake.measured({ eventLoop: 0.79, memory: 0.1 }, 790);
  assert.equal(intake.limit, 800);
});

test("a process whose event loop or memory is used up takes no more, says why, and goes on when it has room", () => {
  const intake = new Intake();
  intake.measured({ eventLoop: 0.9, memory: 0.1 }, 500);
  assert.deepEqual([intake.limit, intake.saturated], [500, "event loop"]);
  intake.measured({ eventLoop: 0.5, memory: 0.85 }, 480);
  assert.deepEqual([intake.limit, intake.saturated], [480, "memory"]);
  intake.measured({ eventLoop: 0.4, memory: 0.4 }, 400);
  assert.deepEqual([intake.limit, intake.saturated], [600, undefined]);
});

test("a process that something else keeps busy still takes a few", () => {
  const intake = new Intake();
  intake.measured({ eventLoop: 1, memory: 0.1 }, 0);
  assert.equal(intake.limit, 32);
  intake.measured({ eventLoop: 0.1, memory: 0.1 }, 3);
  assert.equal(intake.limit, 256);
});
