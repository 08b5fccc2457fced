import assert from "node:assert/strict";
import { test } from "node:test";
import { Pace } from "../../../apps/worker/attachments/pace.ts";

test("whoever moves many bytes lets the event loop turn, and all who do so together take one turn", async () => {
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
