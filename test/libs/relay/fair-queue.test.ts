import assert from "node:assert/strict";
import { test } from "node:test";
import { FairQueue } from "#relay/fair-queue.ts";

const share = (group: string, weight: number, key: string) => ({ group, weight, key });

/** Takes out all there is, or as many. */
function taken(queue: FairQueue<string>, count = Number.POSITIVE_INFINITY): string[] {
  const items: string[] = [];
  for (
    let item = items.length < count ? queue.take() : undefined;
    item !== undefined;
    item = items.length < count ? queue.take() : undefined
  )
    items.push(item);
  return items;
}

const addMany = (queue: FairQueue<string>, count: number, group: string, weight: number, key: string) => {
  for (let index = 0; index < count; index++) queue.add(`${key}${index}`, share(group, weight, key));
};

const countOf = (items: string[], key: string) => items.filter((item) => item.startsWith(key)).length;

test("one key's items leave in order", () => {
  const queue = new FairQueue<string>();
  addMany(queue, 4, "default", 1, "a");
  assert.equal(queue.size, 4);
  assert.deepEqual(taken(queue), ["a0", "a1", "a2", "a3"]);
  assert.equal(queue.take(), undefined);
});

test("the keys of a group take turns, and a new key goes before those that had their turn", () => {
  const queue = new FairQueue<string>();
  addMany(queue, 1_000, "default", 1, "a");
  addMany(queue, 3, "default", 1, "b");
  assert.deepEqual(taken(queue, 3), ["a0", "b0", "a1"]);
  queue.add("late", share("default", 1, "c"));
  assert.deepEqual(taken(queue, 5), ["b1", "late", "a2", "b2", "a3"]);
  queue.add("later", share("default", 1, "d"));
  assert.equal(queue.take(), "later");
});

test("a key with many items gets its turn, however many other keys ask for one", () => {
  const queue = new FairQueue<string>();
  addMany(queue, 100, "default", 1, "a");
  const singles = ["b", "c", "d"];
  const served: string[] = [];
  for (let count = 0; count < 40; count++) {
    for (const key of singles) if (!queue.has(key)) queue.add(key, share("default", 1, key));
    served.push(queue.take() as string);
  }
  assert.equal(countOf(served, "a"), 10);
});

test("groups share by weight, whatever their number of keys and items", () => {
  const queue = new FairQueue<string>();
  for (const key of ["a", "b", "c", "d"]) addMany(queue, 100, "light", 1, key);
  addMany(queue, 200, "heavy", 3, "h");
  const first = taken(queue, 100);
  assert.equal(countOf(first, "h"), 75);
  for (const key of ["a", "b", "c", "d"]) assert.ok(Math.abs(countOf(first, key) - 6) <= 1, key);
});

test("the lightest group is not starved by the heaviest", () => {
  const queue = new FairQueue<string>();
  addMany(queue, 3_000, "heavy", 1_000, "h");
  queue.add("light", share("light", 1, "l"));
  assert.ok(taken(queue, 1_002).includes("light"));
});

test("an idle group gains no credit, and leaving and returning gains nothing", () => {
  const queue = new FairQueue<string>();
  addMany(queue, 500, "busy", 1, "b");
  taken(queue, 100);
  addMany(queue, 100, "late", 1, "l");
  assert.equal(countOf(taken(queue, 20), "l"), 10);
  const returning = new FairQueue<string>();
  addMany(returning, 100, "busy", 1, "b");
  let served = 0;
  for (let round = 0; round < 20; round++) {
    if (!returning.has("once")) returning.add("once", share("sly", 1, "s"));
    if (returning.take() === "once") served++;
  }
  assert.equal(served, 10);
});

test("a removed item does not count as served and does not change the turns of others", () => {
  const queue = new FairQueue<string>();
  addMany(queue, 3, "default", 1, "a");
  addMany(queue, 3, "default", 1, "b");
  assert.equal(queue.remove("a0"), true);
  assert.equal(queue.remove("a0"), false);
  assert.equal(queue.remove("b2"), true);
  assert.equal(queue.has("a0"), false);
  assert.deepEqual(taken(queue), ["a1", "b0", "a2", "b1"]);
  assert.equal(queue.size, 0);
});
