import assert from "node:assert/strict";
import { test } from "node:test";
import { Intake } from "../../apps/worker/intake.ts";

const idle = { eventLoop: 0.02, turnMs: 0.1, memory: 0.1, filesLeft: Number.POSITIVE_INFINITY };

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
  intake.measured({ ...idle, eventLoop: 0.6 }, 600);
  assert.equal(intake.limit, 800);
  intake.measured({ ...idle, eventLoop: 0.79 }, 800);
  assert.equal(intake.limit, 1_000, "as many as a busy one takes");
  assert.equal(intake.isBusy, false);
});

test("a busy event loop leaves to others what they can take, and goes on while its turns are short", () => {
  const intake = new Intake();
  intake.measured({ ...idle, eventLoop: 0.85, turnMs: 2 }, 400);
  assert.deepEqual([intake.limit, intake.isBusy, intake.saturated], [500, true, undefined]);
  intake.measured({ ...idle, eventLoop: 0.95, turnMs: 30 }, 480);
  assert.deepEqual([intake.limit, intake.isBusy, intake.saturated], [600, true, undefined]);
});

test("streams are read in intervals that grow while the event loop has no time left, and shrink while it has some", () => {
  const intake = new Intake();
  const paceAt = (eventLoop: number, steps: number) =>
    Array.from({ length: steps }, () => {
      intake.measured({ ...idle, eventLoop }, 400);
      return intake.paceMs;
    });
  assert.deepEqual(paceAt(0.85, 3), [0, 0, 0]);
  assert.deepEqual(paceAt(0.95, 4), [0, 20, 30, 40], "one measurement alone changes nothing");
  assert.deepEqual(paceAt(0.8, 3), [40, 40, 40], "between the shares it stays");
  assert.deepEqual(paceAt(0.95, 7), [50, 60, 70, 80, 90, 100, 100]);
  assert.deepEqual(paceAt(0.55, 11), [90, 80, 70, 60, 50, 40, 30, 20, 0, 0, 0]);
});

test("a process with long turns or without memory takes no more, says why, and goes on when it has room", () => {
  const intake = new Intake();
  intake.measured({ ...idle, eventLoop: 0.99, turnMs: 41 }, 500);
  assert.deepEqual([intake.limit, intake.saturated, intake.isBusy], [500, "event loop", true]);
  intake.measured({ ...idle, eventLoop: 0.5, memory: 0.85 }, 480);
  assert.deepEqual([intake.limit, intake.saturated, intake.isBusy], [480, "memory", true]);
  intake.measured({ ...idle, eventLoop: 0.4, memory: 0.4 }, 400);
  assert.deepEqual([intake.limit, intake.saturated, intake.isBusy], [600, undefined, false]);
});

test("a process takes no more generations than it can open sockets for", () => {
  assert.deepEqual(
    [70, 5, 1_000].map((left) => new Intake(left).limit),
    [70, 32, 256],
  );
  const intake = new Intake();
  intake.measured({ ...idle, filesLeft: 300 }, 200);
  assert.deepEqual([intake.limit, intake.saturated], [300, undefined], "the growth of one step");
  intake.measured({ ...idle, filesLeft: 40 }, 300);
  assert.deepEqual([intake.limit, intake.saturated], [340, undefined]);
  intake.measured({ ...idle, filesLeft: -5 }, 340);
  assert.deepEqual([intake.limit, intake.saturated, intake.isBusy], [335, "open files", true]);
  intake.measured({ ...idle, filesLeft: 0 }, 0);
  assert.equal(intake.limit, 32, "idle sockets of upstreams are used again");
});

test("a process that something else keeps busy still takes a few", () => {
  const intake = new Intake();
  intake.measured({ ...idle, eventLoop: 1, turnMs: 100 }, 0);
  assert.equal(intake.limit, 32);
  intake.measured({ ...idle, eventLoop: 0.1 }, 3);
  assert.equal(intake.limit, 256);
});

test("the capacity is what the process can bear at the average of those that run, and unknown while these are few", () => {
  const intake = new Intake();
  const settle = (usage: Parameters<Intake["measured"]>[0], running: number) => {
    for (let step = 0; step < 60; step++) intake.measured(usage, running);
    return intake.capacity;
  };
  assert.equal(settle({ ...idle, memory: 0.3 }, 31), Number.POSITIVE_INFINITY);
  const near = (capacity: number, expected: number) =>
    assert.ok(Math.abs(capacity / expected - 1) < 0.01, `${capacity}, not ${expected}`);
  near(settle({ ...idle, eventLoop: 0.2, turnMs: 1, memory: 0.3 }, 100), 400);
  near(settle({ ...idle, eventLoop: 0.02, turnMs: 0.1, memory: 0.4 }, 100), 500);
  near(settle({ ...idle, eventLoop: 0.8, turnMs: 4, memory: 0.4 }, 900), 900);
  near(settle({ ...idle, eventLoop: 1, turnMs: 30, memory: 0.4 }, 900), 720);
  near(settle({ ...idle, eventLoop: 0.7, turnMs: 80, memory: 0.4 }, 900), 450);
});

test("one measurement among many changes the capacity by a tenth of the difference", () => {
  const intake = new Intake();
  for (let step = 0; step < 60; step++) intake.measured({ ...idle, eventLoop: 0.4 }, 100);
  intake.measured({ ...idle, eventLoop: 0.8 }, 100);
  assert.equal(intake.capacity, Math.round(100 / 0.55));
});
