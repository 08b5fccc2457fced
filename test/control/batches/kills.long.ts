/**
 * Kills of every kind of process while a batch runs. Every line has one result, in the order of the
 * file, and one record in the ledger; a line is called again only if it ran when a process was
 * killed, or if control had not stored its result yet. `SEED` repeats a run. The output is the
 * table in docs/batches.md.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { segmentEveryMs } from "../../../apps/control/bounds.ts";
import { callMs, concurrency, dialectNames, runWithKills, victims } from "./kills.ts";

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e9));
const lines = Number(process.env.LINES ?? 3_000);
const kills = Number(process.env.KILLS ?? 6);

for (const killed of [...victims.map((victim) => [victim]), victims])
  test(`kills of ${killed.join(", ")}, seed ${seed}`, { timeout: 300_000 }, async (context) => {
    const result = await runWithKills({ seed, lines, kills, victims: killed });
    const what = killed.length === 1 ? killed[0] : "all of them, at random";
    const row = [what, lines, result.kills, result.resultsInOrder, result.records, result.additionalCalls];
    context.diagnostic(`| ${row.join(" | ")} |`);
    assert.equal(result.records, lines);
    const unstored = killed.includes("control") ? concurrency * Math.ceil(segmentEveryMs / callMs) : 0;
    assert.ok(
      result.additionalCalls <= result.kills * (concurrency + unstored),
      `${result.additionalCalls} additional calls`,
    );
  });

/** Lines of one chunk, which is one batch of the vendor. */
const chunkLines = 200;

for (const dialect of dialectNames)
  test(`kills of all, with batches of the vendor, ${dialect}, seed ${seed}`, { timeout: 600_000 }, async (context) => {
    const result = await runWithKills({ seed, lines, kills, victims, batchApi: true, dialect });
    const row = [`all, with batches of ${dialect}`, lines, result.kills, result.resultsInOrder, result.records];
    context.diagnostic(`| ${[...row, result.additionalCalls].join(" | ")} |`);
    assert.equal(result.records, lines);
    assert.ok(result.additionalCalls <= result.kills * concurrency * chunkLines, `${result.additionalCalls}`);
  });
