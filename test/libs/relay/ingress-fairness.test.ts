import assert from "node:assert/strict";
import { test } from "node:test";
import { keySlotsIn, textOfKeySlots } from "#relay/key-slots.ts";
import { isLong } from "../../support/long.ts";
import { alike, partsOf, skewed, unfairnessOf, unlike } from "./ingress-fairness.ts";

test("keys with skewed load at three ingresses have equal parts of the workers' time, within 10 %", () => {
  for (const [name, backlogs] of Object.entries(skewed))
    for (const [slots, meanMs] of [
      [60, 2_000],
      [200, 5_000],
      [60, 400],
    ] as const)
      for (const seed of isLong ? [1, 2, 3] : [1]) {
        const shares = partsOf({ seed, slots, keys: alike(backlogs, meanMs), tells: "tokens" }).time;
        const fair = 1 / Object.keys(shares).length;
        for (const [key, share] of Object.entries(shares))
          assert.ok(Math.abs(share / fair - 1) <= 0.1, `${name}, ${slots} slots, ${meanMs} ms: ${key} has ${share}`);
      }
});

test("keys whose requests differ have their weighted parts of the tokens of each minute, within 10 %", () => {
  for (const [name, keys] of Object.entries(unlike))
    for (const slots of [60, 200])
      for (const seed of isLong ? [1, 2] : [1]) {
        const run = { seed, slots, keys, seconds: 240, warmSeconds: 60 };
        const { minutes, usedSlots } = partsOf({ ...run, tells: "tokens" });
        const place = `${name}, ${slots} slots, seed ${seed}`;
        assert.equal(minutes.length, 3);
        for (const parts of minutes) assert.ok(unfairnessOf(parts, keys) <= 0.1, `${place}: ${JSON.stringify(parts)}`);
        assert.ok(usedSlots > 0.85, `${place}: ${usedSlots} of the slots are in use`);
      }
});

test("tokens of announcements keep their group, weight and priority; the keys with the most go, and the sum of the rest", () => {
  const used = { group: "a team: 1 %", weight: 2.5, key: "key_a", tokens: 1_234.4, waits: true, priority: 2 };
  const text = textOfKeySlots({ lightest: 2.5, slots: new Map([["key_a", 3]]), tokens: [used] });
  assert.equal(text, "2.5 key_a:3 2:a%20team%3A%201%20%25:2.5:key_a:1234:1");
  const unreadable = ["3:g:1:key_a:5:1", "1:%E0:1:key_a:5:1", "1:g:0:key_a:5:1", "1:g:1:key_a:x:1", "1:g:1:key_a:5"];
  const { slots, tokens } = keySlotsIn([`${text} ${unreadable.join(" ")}`]);
  assert.deepEqual([[...slots], tokens], [[["key_a", 4]], [{ ...used, tokens: 1_234 }]]);
  const many = Array.from({ length: 1_000 }, (_, index) => ({
    ...{ group: "g", weight: 1, key: `key_${index}`, tokens: 1_000 + index, waits: index === 0, priority: 1 },
  }));
  const read = keySlotsIn([textOfKeySlots({ lightest: 1, slots: new Map(), tokens: many })]).tokens;
  assert.equal(read.length, 101);
  assert.deepEqual(
    [read[0], read[100]],
    [many[999], { group: "g", weight: 1, key: "", tokens: 900 * 1_000 + (899 * 900) / 2, waits: true, priority: 1 }],
  );
});

test("announcements of slots are added up, and bounded, and one that cannot be read counts nothing", () => {
  const announcement = textOfKeySlots({
    lightest: 2,
    slots: new Map([
      ["key_a", 3],
      ["key_b", 5],
    ]),
    tokens: [],
  });
  assert.equal(announcement, "2 key_b:5 key_a:3");
  assert.equal(textOfKeySlots({ lightest: 1, slots: new Map(), tokens: [] }), "");
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
  const text = textOfKeySlots({ lightest: 1, slots: many, tokens: [] });
  assert.equal(text.split(" ").length, 101);
  assert.match(text, /^1 key_999:999 /);
});
