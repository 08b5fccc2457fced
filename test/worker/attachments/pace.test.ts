import assert from "node:assert/strict";
import { test } from "node:test";
import { Pace } from "../../../apps/worker/attachments/pace.ts";

test("movers of many bytes yield to the event loop, and concurrent movers yield together", async () => {
  const pace = new Pace();
  assert.equal(pace.moved(1_000_000), undefined);
  const turn = pace.moved(1_000_000);
  assert.ok(turn !== undefined);
  assert.equal(pace.moved(1), turn);
  const order: string[] = [];
  setImmediate(() => order.push("another's work"));
  await turn;
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(order, ["another's work"]);
  assert.equal(pace.moved(1), undefined);
});
