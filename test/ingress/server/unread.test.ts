import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { Capacity } from "../../../apps/ingress/common/capacity.ts";
import { type Unread, UnreadAnswers } from "../../../apps/ingress/server/unread.ts";
import { within } from "../../support/time.ts";

class Connection {
  waiting = 0;
  isCut = false;
  readonly #unread: Unread;

  constructor(answers: UnreadAnswers, key: string) {
    this.#unread = answers.of(key, {
      bytes: () => this.waiting,
      cut: () => {
        this.isCut = true;
      },
    });
  }

  /** Writes bytes that the caller does not take. */
  write(bytes: number): void {
    this.waiting += bytes;
    this.#unread.wrote();
  }

  close(): void {
    this.#unread.end();
  }

  get isWaiting(): boolean {
    return this.#unread.isWaiting;
  }
}

function setUp(max = 100) {
  const capacity = new Capacity(max);
  const shortages: string[] = [];
  const answers = new UnreadAnswers(capacity, (shortage) => shortages.push(shortage));
  return { capacity, shortages, connect: (key: string) => new Connection(answers, key) };
}

test("bytes that a socket takes at once are not counted", async () => {
  const { capacity, shortages, connect } = setUp();
  const connection = connect("key");
  connection.write(1_000);
  connection.waiting = 0;
  await setImmediate();
  assert.deepEqual([capacity.used, connection.isWaiting, shortages], [0, false, []]);
});

test("waiting bytes are counted until the caller takes them or the connection is closed", async () => {
  const { capacity, connect } = setUp();
  const [one, two] = [connect("key"), connect("key")];
  one.write(10);
  one.write(10);
  two.write(5);
  await setImmediate();
  assert.deepEqual([capacity.used, one.isWaiting], [25, true]);
  one.waiting = 7;
  await within(2_000, "some of it is given back", () => capacity.used === 12);
  one.waiting = 0;
  await within(2_000, "all of it is given back", () => capacity.used === 5);
  assert.equal(one.isWaiting, false);
  two.write(5);
  two.close();
  await setImmediate();
  assert.deepEqual([capacity.used, capacity.keys, two.isCut], [0, 0, false]);
});

test("a key that gets no more loses the connections whose callers have taken nothing for longest, and no other key loses any", async () => {
  const { capacity, shortages, connect } = setUp();
  const [other, oldest, reader, newest] = [connect("other"), connect("key"), connect("key"), connect("key")];
  other.write(4);
  oldest.write(40);
  reader.write(20);
  await setImmediate();
  reader.waiting = 0;
  newest.write(30);
  await setImmediate();
  assert.deepEqual([oldest.isCut, reader.isCut, newest.isCut, other.isCut], [true, false, false, false]);
  assert.deepEqual([capacity.used, shortages], [54, ["key"]]);
  reader.write(1);
  await setImmediate();
  newest.write(100);
  await setImmediate();
  assert.deepEqual([newest.isCut, reader.isCut, other.isCut], [true, false, false]);
  assert.deepEqual([capacity.used, shortages], [5, ["key", "key"]]);
});

test("a connection that alone exceeds its key's share is broken", async () => {
  const { capacity, shortages, connect } = setUp();
  const connection = connect("key");
  connection.write(81);
  await setImmediate();
  assert.deepEqual([connection.isCut, capacity.used, shortages], [true, 0, ["key"]]);
});

test("many connections never hold more than the capacity, whatever their order", async () => {
  const { capacity, connect } = setUp(1_000);
  const connections = Array.from({ length: 60 }, (_, place) => connect(`key${place % 7}`));
  for (let round = 0; round < 50; round++) {
    for (const [place, connection] of connections.entries()) {
      if ((place * 31 + round * 17) % 5 === 0) connection.waiting = 0;
      else if (!connection.isCut) connection.write(((place * 13 + round * 7) % 23) + 1);
    }
    await setImmediate();
    assert.ok(capacity.used <= 1_000);
  }
  assert.ok(connections.some(({ isCut }) => isCut));
  for (const connection of connections) connection.close();
  assert.deepEqual([capacity.used, capacity.keys], [0, 0]);
});
