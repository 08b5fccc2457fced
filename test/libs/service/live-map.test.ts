import assert from "node:assert/strict";
import { test } from "node:test";
import { LiveMap } from "#service/live-map.ts";
import { fullCollections } from "../../support/collections.ts";

const filled = (...keys: number[]) => {
  const map = new LiveMap<number, string>();
  for (const key of keys) map.set(key, `value ${key}`);
  return map;
};

test("values are found by their keys until they are deleted", () => {
  const map = filled(1, 2);
  assert.equal(map.get(1), "value 1");
  map.set(1, "another");
  assert.deepEqual([map.get(1), map.size], ["another", 2]);
  assert.deepEqual([map.delete(1), map.delete(1), map.get(1), map.size], [true, false, undefined, 1]);
});

test("values come in the order in which their keys were set, without those deleted meanwhile", () => {
  const map = filled(3, 1, 2);
  map.set(3, "again");
  const seen: string[] = [];
  for (const value of map.values()) {
    seen.push(value);
    map.delete(1);
    if (seen.length === 1) map.set(4, "late");
  }
  assert.deepEqual(seen, ["again", "value 2", "late"]);
});

test("shift removes the first value", () => {
  const map = filled(2, 1);
  assert.deepEqual([map.shift(), map.shift(), map.shift(), map.size], ["value 2", "value 1", undefined, 0]);
});

/** Holders of values for a while, of which 64 are there at a time; each comes and goes. */
const holders = {
  "a plain map": `const map = new Map(); const add = (count, value) => map.set(count, value), remove = (count) => map.delete(count);`,
  "a live map": `const { LiveMap } = await import("#service/live-map.ts");
    const map = new LiveMap(); const add = (count, value) => map.set(count, value), remove = (count) => map.delete(count);`,
  "generations that no worker has taken": `const { UntakenGenerations } = await import("#relay/redis/untaken-generations.ts");
    const untaken = new UntakenGenerations(async () => true), all = [];
    const add = (count, value) => { const queued = { id: String(count), value }; all[count % 128] = queued; untaken.add(queued); };
    const remove = (count) => { if (count >= 0) untaken.remove(all[count % 128]); };`,
  "batches of calls": `const { Batches } = await import("#access/batches.ts");
    const starts = [], batches = new Batches(async (subject, items) => items, (start) => starts.push(start)), subjects = Array.from({ length: 64 }, () => ({}));
    const add = (count, value) => void batches.add(subjects[count % 64], value), remove = (count) => { if (count % 64 === 0) for (const start of starts.splice(0)) start(); };`,
};

test("what is removed is freed by the next minor collection, where a plain map keeps it until a full one", () => {
  const { "a plain map": plain, ...live } = Object.fromEntries(
    Object.entries(holders).map(([holder, source]) => [holder, fullCollections(source)]),
  );
  for (const [holder, full] of Object.entries(live))
    assert.ok(full * 3 < (plain as number), `${holder}: ${full} full collections, and ${plain} of a plain map`);
});
