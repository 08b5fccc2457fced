import assert from "node:assert/strict";
import { after, test } from "node:test";
import { endpoints } from "../../../apps/ingress/common/endpoints.ts";
import { Refusal } from "../../../apps/ingress/common/refusal.ts";
import { BodyReader, isReadAtOnce } from "../../../apps/ingress/request/body-reader.ts";

const reader = new BodyReader();
after(() => reader.close());
const endpoint = endpoints.get("/v1/chat/completions");
assert.ok(endpoint !== undefined);

const bodyOf = (text: string, more: object = {}) => {
  const part = { type: "image_url", image_url: { url: "https://example.com/a.png" } };
  const content = [...new Array<object>(20).fill(part), { type: "text", text }];
  return Buffer.from(
    JSON.stringify({ model: "m", n: 2, max_tokens: 7, messages: [{ role: "user", content }], ...more }),
  );
};

test("the demand of a large body equals that of a small one with the same content, attachments included", async () => {
  const [small, large] = [bodyOf("x"), bodyOf("x".repeat(200_000))];
  assert.deepEqual([isReadAtOnce(small), isReadAtOnce(large)], [true, false]);
  const [one, other] = [
    await reader.read(endpoint, small, { key: "k" }),
    await reader.read(endpoint, large, { key: "k" }),
  ];
  assert.ok(!(one instanceof Refusal) && !(other instanceof Refusal));
  assert.equal(one.demand.attachedTokens, 40_000);
  assert.deepEqual(other.demand, one.demand);
});

test("the thread returns only the settings of a large body, a thousand members at most", async () => {
  const metadata = Object.fromEntries(Array.from({ length: 900 }, (_, place) => [`key_${place}`, "value"]));
  const read = await reader.read(endpoint, bodyOf("x".repeat(200_000), { a: metadata, b: metadata, stream: true }), {
    key: "k",
  });
  assert.ok(!(read instanceof Refusal));
  assert.deepEqual(read.body, { model: "m", n: 2, max_tokens: 7, a: metadata, stream: true });
});

test("the thread keeps no copy of a body that it has read", async () => {
  const bytes = bodyOf("x".repeat(30_000_000));
  const { arrayBuffers } = process.memoryUsage();
  const read = await reader.read(endpoint, bytes, { key: "k" });
  assert.ok(!(read instanceof Refusal));
  const kept = process.memoryUsage().arrayBuffers - arrayBuffers;
  assert.ok(kept < 10_000_000, String(kept));
});
