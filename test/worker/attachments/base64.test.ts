import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Base64Writer, BlockPool, base64BytesOf, partsOf } from "../../../apps/worker/attachments/base64.ts";

const written = (chunks: Buffer[]) => {
  const writer = new Base64Writer(new BlockPool());
  for (const chunk of chunks) writer.push(chunk);
  return Buffer.concat([...partsOf(writer.end())]);
};

test("chunks of any size encode to the base64 of the whole", () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 10 })), (parts) => {
      const chunks = parts.map((part) => Buffer.from(part));
      assert.equal(written(chunks).toString(), Buffer.concat(chunks).toString("base64"));
    }),
  );
});

test("bytes that fill several blocks encode to the base64 of the whole", () => {
  const bytes = Buffer.from(Array.from({ length: 1_000_001 }, (_, place) => (place * 7) % 251));
  const expected = bytes.toString("base64");
  assert.equal(base64BytesOf(bytes.length), expected.length);
  for (const size of [1_000_001, 65_536, 1_460, 100_003]) {
    const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, place) =>
      bytes.subarray(place * size, (place + 1) * size),
    );
    assert.ok(written(chunks).toString() === expected, String(size));
  }
});
