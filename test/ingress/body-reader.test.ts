import assert from "node:assert/strict";
import { after, test } from "node:test";
import { BodyReader } from "../../apps/ingress/body-reader.ts";
import { endpoints } from "../../apps/ingress/endpoints.ts";

const reader = new BodyReader();
after(() => reader.close());
const endpoint = endpoints["/v1/chat/completions"] as (typeof endpoints)[string];
const large = (content: string) => Buffer.from(JSON.stringify({ model: content, messages: [{ role: "user", content: "x".repeat(200_000) }] }));

test("large bodies of one key, however many, hold up another key's by three at most", async () => {
  const order: string[] = [];
  const read = async (keyId: string, name: string) => {
    const answer = await reader.read(endpoint, large(name), keyId);
    assert.equal(answer.kind === "read" && answer.value.model, name);
    order.push(name);
  };
  const many = Array.from({ length: 20 }, (_, index) => read("greedy", `greedy${index}`));
  await Promise.all([...many, read("other", "other"), read("third", "third")]);
  assert.deepEqual(order.slice(0, 5), ["greedy0", "greedy1", "greedy2", "other", "third"]);
  assert.deepEqual(
    order.slice(5),
    Array.from({ length: 17 }, (_, index) => `greedy${index + 3}`),
  );
});
