import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { decodeClose, encodeClose, encodeMessage, type MessageChunk, MessageReader } from "#relay/session-messages.ts";

const kinds = ["text", "binary"] as const;

/** The messages in chunks, each as the kinds and bytes of its parts. */
function joined(chunks: readonly MessageChunk[]): string[] {
  const messages: string[] = [];
  let current = "";
  for (const { kind, bytes, isLast } of chunks) {
    current += kind === "model" ? "<model>" : bytes.toString("latin1");
    if (!isLast) continue;
    messages.push(`${kind} ${current}`);
    current = "";
  }
  return messages;
}

test("messages arrive as they were sent, wherever the frames end", () => {
  const message = fc.record({
    kind: fc.constantFrom(...kinds),
    bytes: fc.uint8Array({ maxLength: 40 }),
    naming: fc.boolean(),
  });
  fc.assert(
    fc.property(
      fc.array(message, { maxLength: 8 }),
      fc.array(fc.integer({ min: 1, max: 30 }), { minLength: 1 }),
      (all, sizes) => {
        const stream = Buffer.concat(
          all.flatMap(({ kind, bytes, naming }) => {
            const part = { kind, bytes: Buffer.from(bytes) };
            return encodeMessage(naming ? [part, { kind: "model", bytes: Buffer.alloc(0) }, part] : [part]);
          }),
        );
        const reader = new MessageReader();
        const chunks: MessageChunk[] = [];
        for (let at = 0, next = 0; at < stream.length; next++) {
          const size = sizes[next % sizes.length] as number;
          chunks.push(...reader.push(stream.subarray(at, at + size)));
          at += size;
        }
        const expected = all.map(({ kind, bytes, naming }) => {
          const text = Buffer.from(bytes).toString("latin1");
          return `${kind} ${naming ? `${text}<model>${text}` : text}`;
        });
        assert.deepEqual(joined(chunks), expected);
        assert.ok(reader.isBetweenMessages);
      },
    ),
  );
});

test("a close frame keeps its code and its reason, and may have none", () => {
  for (const close of [
    { code: 4000, reason: "über" },
    { code: undefined, reason: "" },
  ]) {
    const encoded = Buffer.concat(encodeMessage([{ kind: "close", bytes: encodeClose(close) }]));
    const reader = new MessageReader();
    const chunks = [...encoded].flatMap((byte) => reader.push(Buffer.from([byte])));
    assert.equal(chunks.length, 1);
    assert.deepEqual(decodeClose((chunks[0] as MessageChunk).bytes), close);
  }
});

test("bytes that are no messages are not read", () => {
  assert.throws(() => new MessageReader().push(Buffer.from([9, 0, 0, 0, 0])));
  assert.throws(() => new MessageReader().push(Buffer.from([3, 0, 0, 1, 0])));
});

test("in the middle of a message nothing else may be sent", () => {
  const reader = new MessageReader();
  const [head, bytes] = encodeMessage([{ kind: "text", bytes: Buffer.from("hello") }]) as [Buffer, Buffer];
  reader.push(Buffer.concat([head, bytes.subarray(0, 2)]));
  assert.ok(!reader.isBetweenMessages);
  reader.push(bytes.subarray(2));
  assert.ok(reader.isBetweenMessages);
});
