import assert from "node:assert/strict";
import { test } from "node:test";
import { textMatching } from "../../../apps/simulator/answer/pattern.ts";

const patterns = [
  "abc",
  "^abc$",
  "^a?b*c+$",
  "^\\d{4}-\\d{2}-\\d{2}$",
  "^[a-zA-Z_][a-zA-Z0-9_]*$",
  "^(?:red|green)-(?<shade>\\d+)$",
  "^#[0-9a-f]{6}$",
  "^[^0-9]+$",
  "^[\\w.-]+$",
  "^.{3,}$",
  "^\\+[1-9]\\d{1,14}$",
  "^[\\]x]$",
  "^(a(b(c){2}){2}){2}$",
  "^\\$\\{[A-Z_]+\\}$",
  "x{2,3}y",
  "^\\S+\\s\\S+$",
];

for (const pattern of patterns) {
  test(`a text matches ${pattern}`, () => {
    for (const lengthMin of [0, 12]) {
      const text = textMatching(pattern, lengthMin);
      assert.ok(text !== undefined);
      assert.match(text, new RegExp(pattern, "u"));
    }
  });
}

test("unbounded patterns grow to the requested length", () => {
  assert.equal((textMatching("^\\w+$", 40) ?? "").length >= 40, true);
});

test("unsupported or too large patterns have no text", () => {
  for (const pattern of [
    "(?=a)b",
    "(?<!a)b",
    "(a)\\1",
    "\\p{L}",
    "(",
    "[a",
    "(a{1000}){1000}",
    "+a",
    "(".repeat(50) + ")".repeat(50),
  ])
    assert.equal(textMatching(pattern, 0), undefined, pattern);
});
