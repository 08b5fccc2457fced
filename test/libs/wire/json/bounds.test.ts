import assert from "node:assert/strict";
import { test } from "node:test";
import { exceedsBounds, membersWithin, parseWithin, requestBounds } from "#wire/json/bounds.ts";

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
  ] as const) {
    const measured = membersWithin(Buffer.from(json), bounds);
    assert.equal(typeof measured === "string" ? measured : undefined, broken, json);
  }
});

test("a member that one object has twice is found at any depth, however its name is spelled", () => {
  for (const [json, repeated] of [
    ['{"a":1,"b":{"a":1},"c":[{"a":1},{"a":1}]}', undefined],
    ['{"":"","a":"a","b":"\\"a\\":1,\\"a\\":2"}', undefined],
    ['{"__proto__":1,"constructor":2,"1":3,"01":4}', undefined],
    ["[1,[],{},null]", undefined],
    ['{"a":1,"b":2,"a":3}', "a"],
    ['{"a":1, "\\u0061" : 1}', "a"],
    ['{"b":[1,{"c":{"x":[],"x":[]}}]}', "x"],
    ['{"__proto__":1,"__proto__":2}', "__proto__"],
    ['{"":1,"":2}', ""],
  ] as const) {
    const read = parseWithin(Buffer.from(json), requestBounds);
    assert.deepEqual(read, repeated === undefined ? { value: JSON.parse(json) } : { repeated }, json);
  }
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
