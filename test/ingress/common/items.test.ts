import assert from "node:assert/strict";
import { test } from "node:test";
import { itemOf, shownOf } from "../../../apps/ingress/common/items.ts";

const shown = (item: object) => JSON.parse(shownOf(itemOf(Buffer.from(JSON.stringify(item)))).toString());

test("a message is shown with its type, status and parts, whatever of them its request left out", () => {
  const parts = [{ type: "input_text", text: "hi" }];
  const whole = { id: "msg_1", type: "message", role: "user", content: parts, status: "completed" };
  const { type, status, ...bare } = whole;
  for (const item of [
    whole,
    bare,
    { ...bare, type },
    { ...bare, status },
    { ...bare, status: null },
    { ...bare, content: "hi" },
    { ...whole, content: "hi" },
    { ...whole, status: null, content: "hi" },
  ])
    assert.deepEqual(shown(item), whole, JSON.stringify(item));
  const answer = [{ type: "output_text", text: 'a "b"\n', annotations: [], logprobs: [] }];
  assert.deepEqual(shown({ ...bare, role: "assistant", content: 'a "b"\n' }), {
    ...whole,
    role: "assistant",
    content: answer,
  });
  assert.match(shown({ role: "user", content: "hi" }).id, /^msg_item_/);
  assert.equal(shown({ ...whole, status: "incomplete" }).status, "incomplete");
});

test("an item that is no message is shown as it was sent", () => {
  for (const item of [
    { id: "fc_1", type: "function_call", call_id: "c", name: "f", arguments: "{}" },
    { id: "fco_1", type: "function_call_output", call_id: "c", output: "x" },
    { id: "rs_1", type: "reasoning", summary: [], content: "x", status: null },
  ])
    assert.deepEqual(shown(item), item);
});
