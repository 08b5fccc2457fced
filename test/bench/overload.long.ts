import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { OpenCallers } from "./load.ts";
import { answerMs, capacityOf, startCallers, startSmall } from "./overload.ts";
import { startUpstream } from "./peers.ts";

const slots = 50;
const capacity = capacityOf(slots);
let callers: OpenCallers;
const resources = new AsyncDisposableStack();

before(async () => {
  const upstream = await startUpstream();
  resources.defer(() => upstream.stop());
  const sluice = await startSmall(upstream.url, slots);
  resources.defer(() => sluice.stop());
  callers = await startCallers(sluice, slots);
  resources.defer(() => callers.stop());
});
after(() => resources.disposeAsync());

const watchAt = (load: number, ms: number) => {
  callers.offer(load * capacity);
  return callers.watch(() => delay(ms));
};

test("at ten times the capacity answers keep coming, refusals are quick, and both end with the overload", async () => {
  await watchAt(1, 4_000);
  await watchAt(10, 2_000);
  const over = await watchAt(10, 5_000);
  const after = await watchAt(0.5, 1_000);
  assert.deepEqual([...over.errors, ...after.errors], []);
  assert.ok(over.complete / over.seconds > 0.9 * capacity, `${over.complete / over.seconds} answers a second`);
  assert.ok(over.refusalP99 < 50, `refusals took ${over.refusalP99} ms`);
  assert.ok(over.servedP99 < 1.2 * answerMs, `answers took ${over.servedP99} ms`);
  assert.ok(over.waitMax < 3_000, `a request waited ${over.waitMax} ms behind a second's work`);
  assert.ok(over.retryAfterMax <= 3_000, `Retry-After was ${over.retryAfterMax} ms for a second's work`);
  assert.ok(after.lastRefusedMs < 100, `refusals went on for ${after.lastRefusedMs} ms`);
  callers.offer(0);
});

test("callers of a burst who follow Retry-After are all answered in about the time that the work takes", async () => {
  const seconds = 6;
  const window = await callers.watch(() =>
    callers.burst(seconds * capacity, { overMs: 0, follows: true, msMax: 60_000 }),
  );
  assert.deepEqual([window.errors, window.complete], [[], seconds * capacity]);
  assert.ok(window.seconds < 2 * seconds, `it took ${window.seconds} s`);
});
