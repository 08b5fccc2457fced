import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import fc from "fast-check";
import { createKey, hashOf, looksLikeKey } from "#access/key.ts";

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

test("a key has a prefix, 32 random characters and a checksum, and comes with its hash and last four characters", () => {
  const { key, hash, hint } = createKey();
  assert.match(key, /^sk-sluice-[0-9A-Za-z]{38}$/);
  assert.ok(looksLikeKey(key));
  assert.equal(hash, createHash("sha256").update(key).digest("hex"));
  assert.equal(hash, hashOf(key));
  assert.equal(hint, key.slice(-4));
});

test("the format still accepts keys that were issued earlier", () => {
  assert.ok(looksLikeKey("sk-sluice-0123456789ABCDEFGHIJKLMNOPQRSTUV0NPot4"));
});

test("ten thousand keys are all different and use every character equally often", () => {
  const counts = new Map<string, number>();
  const keys = new Set(Array.from({ length: 10_000 }, () => createKey().key));
  assert.equal(keys.size, 10_000);
  for (const key of keys)
    for (const character of key.slice(10, 42)) counts.set(character, (counts.get(character) ?? 0) + 1);
  const expected = 320_000 / 62;
  assert.equal(counts.size, 62);
  for (const [character, count] of counts)
    assert.ok(Math.abs(count - expected) < expected * 0.1, `${character} came up ${count} times`);
});

test("the checksum detects any single changed character", () => {
  const anyCharacter = fc.oneof(fc.constantFrom(...base62), fc.string({ minLength: 1, maxLength: 1, unit: "binary" }));
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 47 }), anyCharacter, (place, character) => {
      const { key } = createKey();
      const changed = key.slice(0, place) + character + key.slice(place + 1);
      assert.equal(looksLikeKey(changed), changed === key);
    }),
    { numRuns: 3_000 },
  );
});

test("the checksum detects two swapped neighbours", () => {
  fc.assert(
    fc.property(fc.integer({ min: 10, max: 46 }), (place) => {
      const { key } = createKey();
      const exchanged = key.slice(0, place) + key[place + 1] + key[place] + key.slice(place + 2);
      assert.equal(looksLikeKey(exchanged), exchanged === key);
    }),
  );
});

test("a text that is not a key is recognized quickly, whatever its length", () => {
  const { key } = createKey();
  for (const text of [
    "",
    "sk-",
    "sk-sluice-",
    key.slice(1),
    key.slice(0, -1),
    `${key}a`,
    ` ${key}`,
    `${key}\n`,
    key.toLowerCase(),
    "sk-proj-abc",
  ]) {
    assert.equal(looksLikeKey(text), false, JSON.stringify(text));
  }
  const long = `sk-sluice-${"a".repeat(10_000_000)}`;
  const start = performance.now();
  for (let round = 0; round < 1_000; round++) looksLikeKey(long);
  assert.ok(performance.now() - start < 500);
  fc.assert(fc.property(fc.string(), (text) => !looksLikeKey(text)));
});
