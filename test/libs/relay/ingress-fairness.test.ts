import assert from "node:assert/strict";
import { test } from "node:test";
import { keySlotsIn, textOfKeySlots } from "#relay/key-slots.ts";
import { sharesOf, skewed } from "./ingress-fairness.ts";

test("keys with skewed load at three ingresses have equal parts of the workers' time, within 10 %", () => {
  for (const [name, backlogs] of Object.entries(skewed))
    for (const [slots, meanMs] of [
      [60, 2_000],
      [200, 5_000],
      [60, 400],
    ] as const)
      for (const seed of [1, 2, 3]) {
        const shares = sharesOf({ seed, slots, meanMs, backlogs, tellsSlots: true });
        const fair = 1 / Object.keys(shares).length;
        for (const [key, share] of Object.entries(shares))
          assert.ok(Math.abs(share / fair - 1) <= 0.1, `${name}, ${slots} slots, ${meanMs} ms: ${key} has ${share}`);
      }
});

test("announcements of slots are added up, and bounded, and one that cannot be read counts nothing", () => {
  const announcement = textOfKeySlots({
    lightest: 2,
    slots: new Map([
      ["key_a", 3],
      ["key_b", 5],
    ]),
  });
  assert.equal(announcement, "2 key_b:5 key_a:3");
  assert.equal(textOfKeySlots({ lightest: 1, slots: new Map() }), "");
  const { lightest, slots } = keySlotsIn([announcement, "1 key_a:4", "", "x key_c:-1 key_d: :5"]);
  assert.equal(lightest, 1);
  assert.deepEqual(
    [...slots],
    [
      ["key_b", 6],
      ["key_a", 9],
    ],
  );
  const many = new Map(Array.from({ length: 1_000 }, (_, index): [string, number] => [`key_${index}`, index]));
  const text = textOfKeySlots({ lightest: 1, slots: many });
  assert.equal(text.split(" ").length, 101);
  assert.match(text, /^1 key_999:999 /);
});
