import assert from "node:assert/strict";
import { test } from "node:test";
import { boundBroken, exceedsBounds } from "#wire/json/bounds.ts";

test("levels, containers, members and values are bounded, and strings do not count", () => {
  const bounds = { depthMax: 3, containersMax: 5, membersMax: 4, valuesMax: 9 };
  const nested = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  for (const [json, broken] of [
    ["{}", undefined],
    [nested(3), undefined],
    [nested(4), "depthMax"],
    ["[[],[],[],[]]", undefined],
    ["[[],[],[],[],{}]", "containersMax"],
    ['{"a":1,"b":2,"c":3,"d":4}', undefined],
    ['{"a":1,"b":2,"c":3,"d":4,"e":5}', "membersMax"],
    ['[{"a":1,"b":2},{"c":3,"d":4}]', undefined],
    ['{"a":{"b":{"c":1}},"d":1,"d":1}', "membersMax"],
    ['{":,:,:,":"\\":,:,:,:,:,:,","b":2}', undefined],
    ["[1,2,3,4,5,6,7,8,9]", undefined],
    ["[1,2,3,4,5,6,7,8,9,10]", "valuesMax"],
    ["[[1,2,3],[4,5]]", undefined],
    ["[[1,2,3],[4,5,6,7,8]]", "valuesMax"],
    [`{"[[[[":"{{{{","\\"[[[[":["]]]]"]}`, undefined],
    ["[[[", undefined],
    ['["[[[[[', undefined],
  ] as const)
    assert.equal(boundBroken(Buffer.from(json), bounds), broken, json);
});

test("exceedsBounds measures depth, containers, members and values of a text", () => {
  for (const [text, isDeep] of [
    [`${"[".repeat(100)}${"]".repeat(100)}`, false],
    [`${"[".repeat(101)}${"]".repeat(101)}`, true],
    [`[${'{"a":[1,2]},'.repeat(200)}1]`, false],
    [`["${"[".repeat(300)}"]`, false],
    [`["\\"${"[".repeat(300)}"]`, false],
    [`["\\\\",${"[".repeat(100)}${"]".repeat(100)}]`, true],
  ] as const)
    assert.equal(
      exceedsBounds(text, { depthMax: 100, containersMax: 450, membersMax: 220, valuesMax: 900 }),
      isDeep,
      text.slice(0, 20),
    );
});
