import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Capacity, type Claim, largestClaimOf } from "../../../apps/ingress/common/capacity.ts";

/** How much this key gets in claims of `step` until one is refused. */
function takeAll(capacity: Capacity, key: string, step = 1): number {
  let taken = 0;
  while (capacity.claim(key).hold(step) === undefined) taken += step;
  return taken;
}

test("one key gets four fifths, two keys get four ninths each, and some is left for the next key", () => {
  assert.equal(takeAll(new Capacity(100), "a"), 80);
  const capacity = new Capacity(900);
  let more = true;
  while (more) more = ["a", "b"].map((key) => capacity.claim(key).hold(1)).includes(undefined);
  assert.equal(capacity.used, 800);
  assert.ok(takeAll(capacity, "c") >= 80);
  assert.equal(capacity.keys, 3);
});

test("a key that took its maximum while it was alone leaves space for others, and gets its share again when they are done", () => {
  const capacity = new Capacity(1_000);
  assert.equal(takeAll(capacity, "greedy"), 800);
  const others = Array.from({ length: 20 }, (_, index) => capacity.claim(`other${index}`));
  for (const other of others) assert.equal(other.hold(5), undefined);
  assert.equal(capacity.claim("greedy").hold(1), "key");
  for (const other of others) other.end();
  assert.equal(capacity.claim("greedy").hold(1), "key");
  assert.equal(capacity.used, 800);
});

test("a shortage is the key's while the key holds more than an equal part, and the ingress's when all keys hold about the same", () => {
  const alone = new Capacity(100);
  takeAll(alone, "a");
  assert.equal(alone.claim("a").shortageFor(1), "key");
  assert.equal(alone.claim("b").shortageFor(1), undefined);
  const even = new Capacity(1_000);
  for (let more = true; more; )
    more = Array.from({ length: 10 }, (_, key) => even.claim(String(key)).hold(1)).includes(undefined);
  for (let key = 0; key < 10; key++) assert.equal(even.claim(String(key)).shortageFor(1), "ingress");
});

test("a capacity below six is first come, first served", () => {
  for (let max = 0; max < 6; max++) {
    const capacity = new Capacity(max);
    assert.equal(takeAll(capacity, "a"), max);
    for (const key of ["a", "b"]) assert.equal(capacity.claim(key).hold(1), "ingress");
  }
});

test("a capacity with places of their own gives every key one, also when others have filled it, up to twice its size", () => {
  for (const max of [1, 2, 5, 6, 20]) {
    const capacity = new Capacity(max, { own: 1 });
    for (const key of ["a", "b", "c"]) takeAll(capacity, key);
    const filled = capacity.used;
    assert.ok(filled >= Math.min(max, 3) && filled <= max + 2, `${max}: ${filled}`);
    for (let key = 0; capacity.used < 2 * max; key++) assert.equal(takeAll(capacity, `other${key}`), 1);
    assert.notEqual(capacity.claim("last").hold(1), undefined);
    assert.notEqual(capacity.claim("a").hold(1), undefined);
  }
  assert.equal(new Capacity(0, { own: 1 }).claim("a").hold(1), "ingress");
});

test("large claims leave an eighth to small ones", () => {
  const capacity = new Capacity(8_000, { smallMax: 10 });
  for (const key of ["a", "b", "c", "d", "e", "f"]) takeAll(capacity, key, 20);
  assert.ok(capacity.used <= 7_000);
  assert.ok(takeAll(capacity, "small", 10) >= 500);
  assert.equal(capacity.claim("large").hold(200), "ingress");
});

test("a growing claim counts as large once it passes the bound", () => {
  const capacity = new Capacity(1_000, { smallMax: 10 });
  const claim = capacity.claim("a");
  assert.equal(claim.hold(10), undefined);
  const largest = largestClaimOf(1_000, 10);
  assert.equal(claim.hold(largest), undefined);
  assert.equal(claim.hold(largest + 1), "key");
  assert.equal(claim.amount, largest);
});

test("largestClaimOf is the most that an empty capacity serves", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 10_000 }), fc.integer({ min: 0, max: 10_000 }), (max, smallMax) => {
      const capacity = new Capacity(max, { smallMax });
      const largest = largestClaimOf(max, smallMax);
      assert.equal(capacity.claim("a").shortageFor(largest), undefined);
      for (const more of [1, 2, max])
        if (largest + more > smallMax) assert.notEqual(capacity.claim("a").shortageFor(largest + more), undefined);
    }),
  );
});

test("a forced amount counts, and no claim gets more until all fits again", () => {
  const capacity = new Capacity(10);
  const forced = capacity.claim("a");
  forced.force(12);
  assert.equal(capacity.used, 12);
  assert.equal(capacity.claim("b").hold(1), "ingress");
  forced.end();
  assert.equal(capacity.claim("b").hold(1), undefined);
});

test("a claim that ends during work is released when the work is done", async () => {
  const capacity = new Capacity(10);
  const claim = capacity.claim("a");
  claim.hold(3);
  const work = Promise.withResolvers<void>();
  const other = Promise.withResolvers<void>();
  const [done, failed] = [claim.during(work.promise), claim.during(other.promise)];
  claim.end();
  claim.hold(5);
  assert.equal(capacity.used, 3);
  work.resolve();
  await done;
  assert.equal(capacity.used, 3);
  other.reject(new Error("failed"));
  await assert.rejects(failed);
  assert.equal(capacity.used, 0);
});

type Step = { claim: number; act: "hold" | "force" | "end" | "move" | "replace"; amount: number };
const steps = fc.array(
  fc.record({
    claim: fc.nat(11),
    act: fc.constantFrom<Step["act"]>("hold", "hold", "hold", "force", "end", "move", "replace"),
    amount: fc.nat(400),
  }),
  { maxLength: 200 },
);

test("for any sequence of claims: nothing is lost or released twice, a key that holds less is never refused what a key that holds more would get, and some stays free", () => {
  fc.assert(
    fc.property(steps, fc.integer({ min: 6, max: 1_000 }), fc.nat(400), (played, max, smallMax) => {
      const capacity = new Capacity(max, { smallMax });
      const keyOf = (index: number) => String(index % 4);
      const claims: Claim[] = Array.from({ length: 12 }, (_, index) => capacity.claim(keyOf(index)));
      const ended = new Set<Claim>();
      const heldBy = (key: string) =>
        claims.filter((_, index) => keyOf(index) === key).reduce((sum, { amount }) => sum + amount, 0);
      for (const { claim: index, act, amount } of played) {
        const claim = claims[index] as Claim;
        const key = keyOf(index);
        const before = claim.amount;
        switch (act) {
          case "hold": {
            const shortage = claim.shortageFor(amount);
            assert.equal(claim.hold(amount), shortage);
            assert.equal(claim.amount, ended.has(claim) ? 0 : shortage === undefined ? amount : before);
            if (claim.amount > before) assert.ok(heldBy(key) <= 4 * (max - capacity.used) && capacity.used < max);
            break;
          }
          case "force":
            claim.force(amount);
            break;
          case "end":
            claim.end();
            ended.add(claim);
            break;
          case "move":
            claims[index] = claim.move();
            assert.equal(claims[index].amount, before);
            claim.end();
            break;
          case "replace":
            claim.end();
            claims[index] = capacity.claim(key);
            break;
        }
        const keys = ["0", "1", "2", "3"];
        assert.equal(
          capacity.used,
          keys.reduce((sum, one) => sum + heldBy(one), 0),
        );
        assert.equal(capacity.keys, keys.filter((one) => heldBy(one) > 0).length);
        const keysByUse = keys.toSorted((one, other) => heldBy(one) - heldBy(other));
        const refusals = keysByUse.map((one) => capacity.claim(one).shortageFor(amount) !== undefined);
        assert.deepEqual(refusals, refusals.toSorted());
      }
      for (const claim of claims) claim.end();
      for (const claim of claims) claim.end();
      assert.deepEqual([capacity.used, capacity.keys], [0, 0]);
    }),
  );
});
