/** A short run with kills; kills.long.ts has those of every kind of process. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { concurrency, runWithKills } from "./kills.ts";

test("each line has one result and one record after kills of an ingress and of Redis", async () => {
  const lines = 600;
  const result = await runWithKills({ seed: 7, lines, kills: 2, victims: ["ingress", "redis"], pauseMsMax: 400 });
  assert.deepEqual([result.kills, result.resultsInOrder, result.records], [2, lines, lines]);
  assert.ok(result.additionalCalls <= result.kills * concurrency, `${result.additionalCalls} additional calls`);
});
