import assert from "node:assert/strict";
import { test } from "node:test";
import { callerOf, TokenBuckets } from "#service/token-buckets.ts";

test("an empty bucket says how long to wait, fills with time, and is nobody else's", () => {
  let now = 0;
  const buckets = new TokenBuckets({ max: 2, everyMs: 3_000, keysMax: 2, clock: () => now });
  assert.deepEqual(
    ["a", "a", "a", "b"].map((key) => buckets.take(key)),
    [0, 0, 3, 0],
  );
  now = 1_500;
  assert.equal(buckets.take("a"), 2);
  now = 3_000;
  assert.deepEqual([buckets.take("a"), buckets.take("a")], [0, 3]);
  buckets.giveBack("a");
  assert.equal(buckets.take("a"), 0);
  buckets.reset("a");
  assert.deepEqual([buckets.take("a"), buckets.take("a"), buckets.take("a")], [0, 0, 3]);
});

test("of too many keys the one used longest ago is forgotten", () => {
  const buckets = new TokenBuckets({ max: 1, everyMs: 1_000, keysMax: 2, clock: () => 0 });
  for (const key of ["a", "b", "a", "c"]) buckets.take(key);
  assert.deepEqual([buckets.take("b"), buckets.take("c")], [0, 1]);
});

test("addresses of one network of 64 bits are one caller, and so are the spellings of one address", () => {
  assert.equal(callerOf("2001:db8::1"), callerOf("2001:db8:0:0:ffff::2"));
  assert.equal(callerOf("::ffff:10.0.0.1"), callerOf("10.0.0.1"));
  assert.notEqual(callerOf("10.0.0.1"), callerOf("10.0.0.2"));
});
