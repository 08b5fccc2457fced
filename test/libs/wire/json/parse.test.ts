import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { jsonOf, parseExact, parseJson } from "#wire/json/parse.ts";

test("ASCII, non-ASCII and large texts parse alike", () => {
  const parsesAlike = (content: string) =>
    assert.deepEqual(parseJson(Buffer.from(JSON.stringify({ content }))), { content: content.toWellFormed() });
  fc.assert(fc.property(fc.oneof(fc.string({ unit: "binary-ascii" }), fc.string({ unit: "binary" })), parsesAlike));
  parsesAlike("x".repeat(2 << 20));
  parsesAlike("ÿ".repeat(1 << 20));
  assert.throws(() => parseJson(Buffer.from('{"content":')), SyntaxError);
});

test("numbers beyond a double stay as they are written, others are numbers", () => {
  const text =
    '{"id":1234567890123456789,"minus":-12345678901234567890,"huge":1e400,"float":0.12345678901234567890,"one":1.0,"safe":9007199254740991,"text":"1234567890123456789"}';
  const value = parseExact(text) as Record<string, unknown>;
  assert.equal(
    JSON.stringify(value),
    '{"id":1234567890123456789,"minus":-12345678901234567890,"huge":1e400,"float":0.12345678901234568,"one":1,"safe":9007199254740991,"text":"1234567890123456789"}',
  );
  assert.deepEqual([typeof value.float, typeof value.one, typeof value.safe], ["number", "number", "number"]);
});

test("the two line separators are escaped and everything else stays", () => {
  for (const text of ["a", "\u2028", "\u2029\u2028\u2028", "\\u2028 \u2027\u2028\u202a", "😀\u2029"]) {
    assert.equal(JSON.parse(jsonOf(text)), text);
    assert.doesNotMatch(jsonOf(text), /[\u2028\u2029]/);
  }
});
