import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { LiveMap } from "#relay/live-map.ts";

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

/**
 * Counts full collections while many values come and go of a map that has been there for a while;
 * of each 64 are there at a time.
 */
const churn = `
const map = process.argv[1] === "Map" ? new Map() : new (await import(process.argv[1])).LiveMap();
map.set(0, {});
map.delete(0);
let junk;
for (let count = 0; count < 300_000; count++) junk = new Array(100).fill(count);
for (let count = 0; count < 200_000; count++) {
  map.set(count, new Array(200).fill(count));
  map.delete(count - 64);
}
`;
/**
 * So that V8 collects by what was allocated, and not by the clock or by how busy the machine is.
 */
const collector = ["--trace-gc", "--max-semi-space-size=4", "--single-threaded-gc", "--predictable-gc-schedule"];
const fullCollections = (map: string) =>
  execFileSync(process.execPath, [...collector, "--input-type=module", "--eval", churn, map], {
    encoding: "utf8",
  }).split("Mark-Compact").length - 1;

test("a deleted value is freed by the next minor collection, where a plain map keeps it until a full one", () => {
  const live = fullCollections(new URL("../../../libs/relay/live-map.ts", import.meta.url).href);
  const plain = fullCollections("Map");
  assert.ok(live * 3 < plain, `${live} full collections, and ${plain} with a plain map`);
});
