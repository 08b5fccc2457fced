/**
 * The fault suite: every fault, whole and streamed, for callers of every dialect, with one target
 * and with two, at shortened timeouts.
 */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { type Pace, rows, someCells } from "./cases.ts";
import { complaintsOf } from "./check.ts";
import { type Play, type Played, play } from "./play.ts";

/** So far apart that what is some seconds late is not taken for something else. */
const pace: Pace = {
  connectMs: 2_500,
  quietMs: { patient: 9_000, hasty: 500 },
  beginMs: { patient: 12_000, hasty: 3_000 },
  totalMs: { patient: 40_000, hasty: 20_000 },
  keepAliveMs: 7_000,
  isDefault: false,
};

let seen: Play;
before(async () => {
  seen = await play(someCells, pace);
});

for (const [place, row] of rows.entries())
  test(`${row.section}: ${row.says}`, () => {
    const ours = someCells.filter((cell) => cell.place === place);
    assert.ok(ours.length > 0);
    const complaints = ours.flatMap((cell) =>
      complaintsOf(cell, seen.played.get(cell) as Played, pace, seen.secrets).map((one) => `${cell.id}: ${one}`),
    );
    assert.deepEqual(complaints, []);
  });
