import assert from "node:assert/strict";
import { test } from "node:test";
import { isFairShare, largestShareOf } from "#relay/fair-share.ts";

/**
 * Holders take one at a time in turn, each as long as the rule allows. Returns what each then has.
 */
function sharesOf(capacity: number, holders: number): number[] {
  const shares = new Array<number>(holders).fill(0);
  for (let free = capacity, taken = true; taken; ) {
    taken = false;
    for (const [holder, share] of shares.entries()) {
      if (!isFairShare(share + 1, free - 1)) continue;
      shares[holder] = share + 1;
      free--;
      taken = true;
    }
  }
  return shares;
}

test("a holder alone gets four fifths, two get four ninths each, and some is always left for the next", () => {
  assert.deepEqual(sharesOf(900, 1), [720]);
  assert.deepEqual(sharesOf(900, 2), [400, 400]);
  assert.deepEqual(sharesOf(1_700, 4), [400, 400, 400, 400]);
});

test("the largest share is what a holder alone gets, whatever the capacity", () => {
  for (let capacity = 1; capacity <= 200; capacity++)
    assert.deepEqual(sharesOf(capacity, 1), [largestShareOf(capacity)]);
});

test("where nothing is free a holder may keep nothing more", () => {
  assert.equal(isFairShare(0, 0), true);
  assert.equal(isFairShare(1, 0), false);
});
