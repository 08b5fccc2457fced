import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { AttachmentBudget, type Grant } from "../../../apps/worker/attachments/attachment-budget.ts";

const never = new AbortController().signal;

/** A request for bytes, with its grant once there is one. */
function claim(budget: AttachmentBudget, key: string, bytes: number, signal = never) {
  const state: { grant?: Grant; error?: unknown } = {};
  budget.acquire(key, bytes, signal).then(
    (grant) => {
      state.grant = grant;
    },
    (error: unknown) => {
      state.error = error;
    },
  );
  return state;
}
/** Lets pending promise callbacks run. */
const told = () => new Promise((resolve) => setImmediate(resolve));

test("a request that exceeds the free budget waits until others release their bytes", async () => {
  const budget = new AttachmentBudget(100);
  const [first, second, third] = [claim(budget, "a", 60), claim(budget, "b", 30), claim(budget, "c", 30)];
  await told();
  assert.deepEqual(
    [first.grant?.bytes, second.grant?.bytes, third.grant, budget.waiting, budget.reservedBytes],
    [60, 30, undefined, 1, 90],
  );
  first.grant?.release();
  first.grant?.release();
  await told();
  assert.deepEqual([third.grant?.bytes, budget.waiting, budget.reservedBytes], [30, 0, 60]);
});

test("keys take turns, and a key with a reservation gets at most half of the budget", async () => {
  const budget = new AttachmentBudget(100);
  const greedy = Array.from({ length: 5 }, () => claim(budget, "greedy", 25));
  const light = claim(budget, "light", 40);
  await told();
  assert.deepEqual([greedy.filter(({ grant }) => grant).length, light.grant?.bytes], [2, 40]);
  const other = claim(budget, "other", 20);
  for (const { grant } of greedy.slice(0, 2)) grant?.release();
  await told();
  assert.deepEqual([greedy.filter(({ grant }) => grant).length, other.grant?.bytes, budget.waiting], [3, 20, 2]);
  const alone = new AttachmentBudget(100);
  const large = claim(alone, "large", 100);
  await told();
  assert.equal(large.grant?.bytes, 100);
});

test("a small request does not overtake a large one, and no reservation grows while a request waits for the bytes", async () => {
  const budget = new AttachmentBudget(100);
  const holder = claim(budget, "holder", 40);
  const large = claim(budget, "large", 80);
  const small = claim(budget, "small", 10);
  await told();
  assert.deepEqual([large.grant, small.grant], [undefined, undefined]);
  assert.equal(holder.grant?.tryResize(45), false);
  holder.grant?.release();
  await told();
  assert.deepEqual([large.grant?.bytes, small.grant?.bytes], [80, 10]);
  assert.deepEqual(
    [20, 21].map((bytes) => small.grant?.tryResize(bytes)),
    [true, false],
  );
});

test("a request that stops waiting does not block those behind it", async () => {
  const budget = new AttachmentBudget(100);
  const holder = claim(budget, "holder", 60);
  const left = new AbortController();
  const leaver = claim(budget, "leaver", 90, left.signal);
  const next = claim(budget, "next", 40);
  await told();
  assert.deepEqual([next.grant], [undefined]);
  left.abort(new Error("left"));
  await told();
  assert.deepEqual([leaver.error, next.grant?.bytes, holder.grant?.bytes], [left.signal.reason, 40, 60]);
  assert.ok(claim(budget, "late", 1, left.signal).error === undefined);
  await told();
  assert.equal(budget.reservedBytes, 100);
});

test("for any sequence of requests, releases and aborts the budget is kept and everyone is served", async () => {
  const step = fc.record({
    key: fc.constantFrom("a", "b", "c"),
    bytes: fc.integer({ min: 1, max: 100 }),
    leaves: fc.boolean(),
    releases: fc.nat(20),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const budget = new AttachmentBudget(100);
      const all: { state: ReturnType<typeof claim>; left: AbortController }[] = [];
      for (const { key, bytes, leaves, releases } of steps) {
        const left = new AbortController();
        all.push({ state: claim(budget, key, bytes, left.signal), left });
        if (leaves) left.abort();
        await told();
        all[releases]?.state.grant?.release();
        assert.ok(budget.reservedBytes <= 100);
      }
      for (let round = 0; round <= steps.length; round++) {
        await told();
        for (const { state } of all) state.grant?.release();
      }
      assert.ok(
        all.every(({ state, left }) => state.grant !== undefined || (left.signal.aborted && state.error !== undefined)),
      );
      assert.deepEqual([budget.reservedBytes, budget.waiting], [0, 0]);
    }),
    { numRuns: 50 },
  );
});
