import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { contentBytesMax, dataLengthMin } from "#content/bounds.ts";
import { ContentText } from "../../../apps/ingress/response/content-text.ts";

function textOf(chunks: readonly (string | Buffer)[], hold: (bytes: number) => boolean = () => true) {
  const text = new ContentText(hold);
  for (const chunk of chunks) text.push(Buffer.from(chunk as Buffer));
  return text.result();
}

test("text stays as it is, and data in base64 becomes its size", () => {
  const data = "iVBORw0KGgo".repeat(500);
  const body = JSON.stringify({ text: "你好, \u202e Hello", url: `data:image/png;base64,${data}`, after: "end" });
  assert.deepEqual(textOf([body]), {
    text: body.replace(data, `[${(data.length * 3) / 4} bytes]`),
    bytes: Buffer.byteLength(body),
    isCut: false,
  });
  const short = "a".repeat(dataLengthMin - 1);
  assert.equal(textOf([short]).text, short);
  assert.equal(textOf([`${short}a`]).text, `[${(dataLengthMin * 3) / 4} bytes]`);
});

test("where chunks end changes nothing", () => {
  const token = fc.oneof(
    fc.string({ maxLength: 30 }),
    fc.integer({ min: dataLengthMin - 3, max: dataLengthMin + 300 }).map((length) => "A".repeat(length)),
    fc.constantFrom('"', " ", '","'),
  );
  fc.assert(
    fc.property(fc.array(token, { maxLength: 12 }), fc.array(fc.nat(3_000), { maxLength: 10 }), (tokens, cuts) => {
      const whole = Buffer.from(tokens.join(""));
      const places = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length];
      const chunks = places.slice(1).map((end, index) => whole.subarray(places[index], end));
      assert.deepEqual(textOf(chunks), textOf([whole]));
    }),
  );
});

test("what is longer than the bound, or than the memory for it, is cut and says so", () => {
  const word = "word ".repeat(300_000);
  assert.deepEqual(textOf([word]), { text: word.slice(0, contentBytesMax), bytes: word.length, isCut: true });
  const exact = word.slice(0, contentBytesMax);
  assert.deepEqual(textOf([exact]), { text: exact, bytes: exact.length, isCut: false });
  const scarce = textOf(["one ", "two ", "three "], (bytes) => bytes <= 8);
  assert.deepEqual(scarce, { text: "one two ", bytes: 14, isCut: true });
});

test("data of 32 MB costs its size in memory searches, not in characters", () => {
  const body = Buffer.concat([Buffer.from('{"image":"'), Buffer.alloc(32 << 20, "A"), Buffer.from('","text":"seen"}')]);
  assert.equal(textOf([body]).text, `{"image":"[${24 << 20} bytes]","text":"seen"}`);
});
