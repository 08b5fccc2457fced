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

/** The number after the slash. */
const costOf = (item: string) => Number(item.slice(item.indexOf("/") + 1));
const queueOfCosts = () => new FairQueue<string>(costOf);

test("the key with the fewest tokens for its group's weight is next, and real tokens replace the estimate", () => {
  const queue = queueOfCosts();
  for (let index = 0; index < 40; index++) {
    queue.add(`a${index}/100`, share("light", 1, "a"));
    queue.add(`b${index}/300`, share("light", 1, "b"));
    queue.add(`h${index}/400`, share("heavy", 2, "h"));
  }
  const first = taken(queue, 24);
  const tokens = (key: string) => first.reduce((sum, item) => sum + (item.startsWith(key) ? costOf(item) : 0), 0);
  const [a, b, h] = ["a", "b", "h"].map(tokens) as [number, number, number];
  assert.ok(Math.abs(a - b) <= 300 && Math.abs(h - 2 * (a + b)) <= 800, `${a}, ${b}, ${h}`);
  queue.charge(share("light", 1, "a"), 900);
  assert.equal(countOf(taken(queue, 6), "a"), 0);
});

test("a key that returns has no credit for its absence", () => {
  const queue = queueOfCosts();
  queue.add("rare0/100", share("default", 1, "rare"));
  for (let index = 0; index < 50; index++) queue.add(`busy${index}/100`, share("default", 1, "busy"));
  taken(queue, 31);
  for (let index = 1; index < 20; index++) queue.add(`rare${index}/100`, share("default", 1, "rare"));
  const rare = countOf(taken(queue, 10), "rare");
  assert.ok(rare >= 5 && rare <= 6, String(rare));
});

test("tokens that others served count, and a key that is ahead of one that waits gets a part of its share", () => {
  const queue = queueOfCosts();
  const elsewhere = { group: "default", weight: 1 };
  for (let index = 0; index < 10; index++)
    for (const key of ["a", "b"]) queue.add(`${key}${index}/100000`, share("default", 1, key));
  queue.setElsewhere([{ ...elsewhere, key: "a", tokens: 500_000, waits: true }]);
  assert.deepEqual(taken(queue, 5), ["b0/100000", "b1/100000", "b2/100000", "b3/100000", "b4/100000"]);
  const parts = new Map<string, number>();
  const look = (key: string, _: number, part: number) => {
    parts.set(key, part);
    return false;
  };
  queue.take(look);
  assert.ok(parts.get("b") === 1 && Number(parts.get("a")) < 0.1, JSON.stringify([...parts]));
  // Without the others' tokens, the key that waits with the fewest is the first one again.
  queue.setElsewhere([]);
  queue.take(look);
  assert.ok(parts.get("a") === 1 && Number(parts.get("b")) < 0.1, JSON.stringify([...parts]));
  assert.equal(queue.take(), "a0/100000");
  // A key that begins to wait elsewhere has no credit either: it starts like the one served last.
  taken(queue, 8);
  queue.setElsewhere([{ ...elsewhere, key: "new", tokens: 0, waits: true }]);
  queue.take(look);
  assert.ok(Number(parts.get("b")) > 0.03);
});

test("the tokens of idle keys are forgotten once they are few", () => {
  const queue = queueOfCosts();
  queue.add("a/100", share("default", 1, "a"));
  taken(queue);
  assert.deepEqual([...queue.usage()], [{ group: "default", weight: 1, key: "a", tokens: 100, waits: false }]);
  queue.decay(0.5);
  assert.equal([...queue.usage()][0]?.tokens, 50);
  queue.decay(0.01);
  assert.deepEqual([...queue.usage()], []);
});

test("of very many keys each has its turn, also behind keys that may not go", () => {
  const queue = new FairQueue<string>();
  for (let round = 0; round < 2; round++)
    for (let key = 0; key < 2_000; key++) queue.add(`${key} ${round}`, share("default", 1, `${key}`));
  assert.equal(new Set(taken(queue, 2_000).map((item) => item.split(" ")[0])).size, 2_000);
  assert.equal(
    queue.take((key) => key === "1999"),
    "1999 1",
  );
});
