import assert from "node:assert/strict";
import { test } from "node:test";
import { AdmissionQueue } from "#relay/admission-queue.ts";

const burst = { group: "default", weight: 1, key: "burst" };
const single = { group: "default", weight: 1, key: "single" };

/** An admission queue whose items go onto the queue as soon as they may. */
class OpenQueue<Item extends string | number> extends AdmissionQueue<Item> {
  isOpen = true;
  readonly #release: (item: Item) => void;

  constructor(release: (item: Item) => void) {
    super();
    this.#release = release;
  }

  override admit(...call: Parameters<AdmissionQueue<Item>["admit"]>): void {
    super.admit(...call);
    this.pump(call[2]);
  }

  override taken(item: Item, now: number): void {
    super.taken(item, now);
    this.pump(now);
  }

  override over(item: Item, ranMs: number | undefined, now: number): void {
    super.over(item, ranMs, now);
    this.pump(now);
  }

  pump(now: number): void {
    if (!this.isOpen) return;
    for (let item = this.next(now); item !== undefined; item = this.next(now)) this.#release(item);
  }
}

/**
 * A queue in virtual time: workers with this many slots, jobs of this duration, a dispatch of two
 * milliseconds.
 */
class QueueSettings {
  now = 1_000;
  readonly jobs: { item: string; admissionQueue: AdmissionQueue<string> }[] = [];
  readonly startedAt = new Map<string, number>();
  readonly #running: { endsAt: number; item: string; admissionQueue: AdmissionQueue<string> }[] = [];
  readonly #travelling: { at: number; item: string; admissionQueue: AdmissionQueue<string> }[] = [];
  readonly #admissionQueues: AdmissionQueue<string>[] = [];
  readonly #slots: number;
  readonly #serviceMs: number;

  constructor(slots: number, serviceMs: number) {
    this.#slots = slots;
    this.#serviceMs = serviceMs;
  }

  admissionQueue(): OpenQueue<string> {
    const admissionQueue: OpenQueue<string> = new OpenQueue<string>((item) => this.jobs.push({ item, admissionQueue }));
    this.#admissionQueues.push(admissionQueue);
    return admissionQueue;
  }

  /** Every second each ingress learns what the others run. */
  #share(): void {
    const running = this.#admissionQueues.reduce((sum, admissionQueue) => sum + admissionQueue.runningSize, 0);
    for (const admissionQueue of this.#admissionQueues)
      admissionQueue.slots = this.#slots - running + admissionQueue.runningSize;
  }

  play(ms: number): void {
    for (const until = this.now + ms; this.now < until; this.now++) {
      if (this.now % 1_000 === 0) this.#share();
      for (let index = this.#running.length - 1; index >= 0; index--) {
        const { endsAt, item, admissionQueue } = this.#running[index] as {
          endsAt: number;
          item: string;
          admissionQueue: AdmissionQueue<string>;
        };
        if (endsAt > this.now) continue;
        this.#running.splice(index, 1);
        admissionQueue.over(item, this.#serviceMs, this.now);
      }
      while (this.#running.length < this.#slots && this.jobs.length > 0) {
        const job = this.jobs.shift() as { item: string; admissionQueue: AdmissionQueue<string> };
        this.#running.push({ endsAt: this.now + 2 + this.#serviceMs, ...job });
        this.#travelling.push({ at: this.now + 2, ...job });
      }
      while ((this.#travelling[0]?.at ?? Number.POSITIVE_INFINITY) <= this.now) {
        const { item, admissionQueue } = this.#travelling.shift() as {
          item: string;
          admissionQueue: AdmissionQueue<string>;
        };
        this.startedAt.set(item, this.now);
        admissionQueue.taken(item, this.now);
      }
    }
  }
}

test("behind another key's thousand requests at two ingresses, a single request waits for about one service time", () => {
  for (const [slots, serviceMs, servicesMax] of [
    [3, 200, 2],
    [6, 200, 2],
    [64, 1_000, 1.2],
    [512, 3_000, 1.2],
  ] as const)
    for (const afterMs of [5, 50, 700, 2_100]) {
      const queue = new QueueSettings(slots, serviceMs);
      const admissionQueues = [queue.admissionQueue(), queue.admissionQueue()] as const;
      for (let index = 0; index < 1_000; index++)
        for (const [number, admissionQueue] of admissionQueues.entries())
          admissionQueue.admit(`${number}-${index}`, burst, queue.now);
      queue.play(afterMs);
      const askedAt = queue.now;
      admissionQueues[0].admit("single", single, askedAt);
      queue.play(3 * serviceMs);
      const waitedMs = (queue.startedAt.get("single") as number) - askedAt;
      assert.ok(
        waitedMs <= servicesMax * serviceMs,
        `${waitedMs} ms with ${slots} places, ${afterMs} ms after the burst`,
      );
    }
});

test("long requests leave slots for other keys, at one ingress and at several", () => {
  for (const [slots, ingressesMax] of [
    [8, 1],
    [64, 2],
    [512, 3],
  ] as const)
    for (let ingresses = 1; ingresses <= ingressesMax; ingresses++) {
      const queue = new QueueSettings(slots, 60_000);
      const admissionQueues = Array.from({ length: ingresses }, () => queue.admissionQueue());
      for (const [number, admissionQueue] of admissionQueues.entries()) {
        for (let index = 0; index < 2 * slots; index++) admissionQueue.admit(`${number}-${index}`, burst, queue.now);
        queue.play(2_000);
      }
      const started = queue.startedAt.size;
      assert.ok(
        started >= Math.floor((4 * slots) / 5) && started < slots,
        `${started} of ${slots} places with ${ingresses} ingresses`,
      );
      const askedAt = queue.now;
      (admissionQueues.at(-1) as AdmissionQueue<string>).admit("single", single, askedAt);
      queue.play(100);
      const waitedMs = (queue.startedAt.get("single") ?? Number.POSITIVE_INFINITY) - askedAt;
      assert.ok(waitedMs <= 10, `${waitedMs} ms with ${slots} places and ${ingresses} ingresses`);
    }
});

test("two keys share the slots, and slots that one leaves go to the other", () => {
  const queue = new QueueSettings(90, 60_000);
  const admissionQueue = queue.admissionQueue();
  const runningOf = (key: string) => [...queue.startedAt.keys()].filter((item) => item.startsWith(key)).length;
  for (let index = 0; index < 200; index++) admissionQueue.admit(`burst-${index}`, burst, queue.now);
  queue.play(5_000);
  assert.equal(runningOf("burst"), 73);
  for (let index = 0; index < 200; index++) admissionQueue.admit(`single-${index}`, single, queue.now);
  queue.play(5_000);
  const before = runningOf("single");
  assert.ok(before >= 10 && before < 17, String(before));
  queue.play(52_000);
  assert.ok(runningOf("single") - before > 20, "as the first key's requests end, the second one's take their places");
});

test("groups share the slots by weight", () => {
  const queue = new QueueSettings(100, 2_000);
  const admissionQueue = queue.admissionQueue();
  const running = (key: string) =>
    [...queue.startedAt].filter(([item, at]) => item.startsWith(key) && at > queue.now - 2_000).length;
  for (let index = 0; index < 1_000; index++) {
    admissionQueue.admit(`light-${index}`, { group: "light", weight: 0.5, key: "light" }, queue.now);
    admissionQueue.admit(`heavy-${index}`, { group: "heavy", weight: 1.5, key: "heavy" }, queue.now);
  }
  queue.play(15_000);
  const ratio = running("heavy") / running("light");
  assert.ok(ratio > 2.5 && ratio < 3.5, String(ratio));
});

test("holding requests back costs no throughput, for long jobs and short ones", () => {
  for (const [slots, serviceMs, leastServed] of [
    [3, 200, 73],
    [64, 50, 5_900],
    [512, 1_000, 2_400],
    [8, 1, 13_000],
  ] as const) {
    const queue = new QueueSettings(slots, serviceMs);
    const admissionQueue = queue.admissionQueue();
    for (let index = 0; index < 20_000; index++)
      admissionQueue.admit(String(index), { ...burst, key: `burst ${index % 10}` }, queue.now);
    queue.play(5_000);
    assert.ok(queue.startedAt.size >= leastServed, `${queue.startedAt.size} with ${slots} places of ${serviceMs} ms`);
  }
});

test("a request that leaves makes capacity, wherever it waited, and nothing is released while the queue is closed", () => {
  const queue = new QueueSettings(0, 1);
  const admissionQueue = queue.admissionQueue();
  for (const item of ["a", "b", "c", "d"]) admissionQueue.admit(item, burst, 0);
  assert.deepEqual([queue.jobs.length, admissionQueue.waitingSize, admissionQueue.holds("b")], [1, 3, true]);
  admissionQueue.over("b", undefined, 1);
  admissionQueue.over("b", undefined, 1);
  assert.deepEqual([queue.jobs.length, admissionQueue.waitingSize], [1, 2]);
  admissionQueue.isOpen = false;
  admissionQueue.over("a", undefined, 2);
  assert.deepEqual([queue.jobs.length, admissionQueue.waitingSize], [1, 2]);
  admissionQueue.isOpen = true;
  admissionQueue.pump(3);
  admissionQueue.pump(3);
  assert.deepEqual([queue.jobs.map(({ item }) => item), admissionQueue.waitingSize], [["a", "c"], 1]);
  admissionQueue.gone("c");
  admissionQueue.pump(3);
  assert.deepEqual([queue.jobs.map(({ item }) => item), admissionQueue.waitingSize], [["a", "c", "d"], 0]);
  admissionQueue.admit("e", burst, 3);
  admissionQueue.again("c");
  admissionQueue.over("d", undefined, 4);
  assert.equal(admissionQueue.waitingSize, 1, "the one that is back on the queue takes up its room");
  admissionQueue.taken("c", 5);
  assert.equal(admissionQueue.waitingSize, 0);
});

test("Retry-After follows how fast the queue drains", () => {
  const admissionQueue = new OpenQueue<number>(() => undefined);
  let now = 50_000;
  admissionQueue.admit(-1, burst, now);
  assert.equal(admissionQueue.retryAfterSeconds(1, now), 1);
  for (let index = 0; index < 200; index++) admissionQueue.admit(index, burst, now);
  for (let index = 0; index < 100; index++) {
    now += 100;
    admissionQueue.taken(index - 1, now);
    admissionQueue.over(index - 1, 100, now);
  }
  assert.deepEqual(
    [20, 100, 10_000].map((waiting) => admissionQueue.retryAfterSeconds(waiting, now)),
    [3, 11, 60],
  );
  assert.equal(admissionQueue.retryAfterSeconds(100, now + 20_000), 60, "it stands still");
  assert.equal(admissionQueue.retryAfterSeconds(3, now + 20_000), 30);
});

test("Retry-After of a burst follows from the slots and how long work took before", () => {
  const queue = new QueueSettings(200, 500);
  const admissionQueue = queue.admissionQueue();
  const retryAfter = () => admissionQueue.retryAfterSeconds(1_200, queue.now);
  for (let item = 0; item < 300; item++) admissionQueue.admit(`burst ${item}`, burst, queue.now);
  assert.equal(retryAfter(), 1, "nothing is known yet");
  queue.play(5_000);
  for (let item = 0; item < 1_200; item++) admissionQueue.admit(`again ${item}`, burst, queue.now);
  assert.equal(retryAfter(), 3, "1,200 are three seconds of work");
  queue.play(100);
  assert.equal(retryAfter(), 4, "slots that were filled say nothing of those that become free");
});

/** The order in which a queue lets go of these items, each of an own key and taken at once. */
function orderOf(
  items: { name: string; priority?: 0 | 1 | 2; group?: string; reserved?: number; at?: number }[],
  now: number,
): string[] {
  const queue = new AdmissionQueue<string>();
  queue.slots = 1_000;
  for (const { name, group = "default", at = now, ...more } of items)
    queue.admit(name, { group, weight: 1, key: name, ...more }, at);
  const order: string[] = [];
  for (let item = queue.next(now); item !== undefined; item = queue.next(now)) {
    order.push(item);
    queue.taken(item, now);
    queue.over(item, 1, now);
  }
  return order;
}

test("a higher priority goes first, and one of eight turns is for what has waited for five seconds", () => {
  assert.deepEqual(
    orderOf([{ name: "background", priority: 2 }, { name: "normal" }, { name: "interactive", priority: 0 }], 1_000),
    ["interactive", "normal", "background"],
  );
  const many = Array.from({ length: 20 }, (_, index) => ({ name: `i${index}`, priority: 0 as const, at: 9_000 }));
  const old = [1, 2, 3].map((number) => ({ name: `old${number}`, priority: 2 as const, at: 1_000 + number }));
  const order = orderOf([...old, ...many], 10_000);
  assert.deepEqual([order.indexOf("old1"), order.indexOf("old2")], [7, 15]);
  // One that has waited for less has no turn before its priority's.
  const young = { name: "young", priority: 2 as const, at: 5_001 };
  assert.equal(orderOf([...many, young], 10_000).indexOf("young"), 20);
});

test("a group below its reserved share goes first, and others use the share while it has nothing that waits", () => {
  const queue = new AdmissionQueue<string>();
  queue.slots = 10;
  const reserved = { group: "reserved", weight: 1, key: "r", reserved: 0.2, priority: 2 as const };
  const other = { group: "other", weight: 1, key: "o", priority: 0 as const };
  const take = () => {
    const item = queue.next(1_000);
    if (item !== undefined) queue.taken(item, 1_000);
    return item;
  };
  for (let index = 0; index < 8; index++) queue.admit(`o${index}`, other, 1_000);
  assert.deepEqual([take(), take(), take()], ["o0", "o1", "o2"]);
  for (let index = 0; index < 4; index++) queue.admit(`r${index}`, reserved, 1_000);
  assert.deepEqual([take(), take(), take()], ["r0", "r1", "o3"]);
  queue.over("r0", 100, 1_000);
  assert.equal(take(), "r2");
});

test("the expected wait follows what is ahead and how fast slots become free, and is 0 while slots are free", () => {
  const queue = new AdmissionQueue<string>();
  const share = (key: string, priority: 0 | 1 | 2 = 1) => ({ group: "default", weight: 1, key, priority });
  queue.slots = 2;
  for (const item of ["a", "b"]) {
    queue.admit(item, share("k"), 0);
    assert.equal(queue.next(0), item);
    queue.taken(item, 0);
  }
  assert.equal(queue.waitMsOf(share("k"), 0), 0, "nothing has ended yet");
  queue.over("a", 1_000, 1_000);
  assert.equal(queue.waitMsOf(share("k"), 1_000), 0, "a slot is free");
  queue.admit("c", share("k"), 1_000);
  assert.equal(queue.next(1_000), "c");
  queue.taken("c", 1_000);
  const empty = queue.waitMsOf(share("k"), 1_000);
  assert.ok(empty > 300 && empty < 2_000, String(empty));
  for (let index = 0; index < 10; index++) queue.admit(`k${index}`, share("k"), 1_000);
  const behind = queue.waitMsOf(share("k"), 1_000);
  assert.ok(behind > 3 * empty, String(behind));
  // Another key has a turn of its own, a higher priority goes first, and a lower one goes last.
  assert.ok(queue.waitMsOf(share("new"), 1_000) < behind / 2);
  assert.ok(queue.waitMsOf(share("k", 0), 1_000) <= queue.waitMsOf(share("new"), 1_000));
  assert.ok(queue.waitMsOf(share("new", 2), 1_000) >= behind);
});

test("a request counts its estimate, then its real tokens; one that no worker took counts none", () => {
  const queue = new AdmissionQueue<string>();
  queue.slots = 100;
  const share = (key: string) => ({ group: "default", weight: 1, key });
  const tokensOf = (name: string) => queue.keySlots.tokens.find(({ key }) => key === name)?.tokens;
  const run = (item: string, key: string, estimate: { inputTokens: number; outputTokens: number }) => {
    queue.admit(item, share(key), 1_000, estimate);
    assert.equal(queue.next(1_000), item);
    queue.taken(item, 1_000);
  };
  run("a0", "a", { inputTokens: 500, outputTokens: 32_000 });
  assert.equal(tokensOf("a"), 32_500);
  queue.over("a0", 100, 1_100, { inputTokens: 450, outputTokens: 200 });
  assert.equal(tokensOf("a"), 650);
  // From now on the key's usual output is the estimate.
  run("a1", "a", { inputTokens: 500, outputTokens: 32_000 });
  assert.equal(tokensOf("a"), 650 + 700);
  // One that fails or costs nothing is not free.
  queue.over("a1", 100, 1_200);
  assert.equal(tokensOf("a"), 750);
  queue.admit("b0", share("b"), 1_200, { inputTokens: 500, outputTokens: 100 });
  assert.equal(queue.next(1_200), "b0");
  assert.equal(tokensOf("b"), 600);
  queue.over("b0", undefined, 1_300);
  assert.equal(tokensOf("b"), undefined);
  // Half counts after a minute, and at last nothing.
  queue.setElsewhere(queue.keySlots, 2_000);
  queue.setElsewhere({ ...queue.keySlots, tokens: [] }, 62_000);
  assert.equal(tokensOf("a"), 375);
  queue.setElsewhere({ ...queue.keySlots, tokens: [] }, 900_000);
  assert.deepEqual(queue.keySlots.tokens, []);
});

/** When all of these items went onto the queue, if each takes so long to a free worker and back. */
function leavingTimes(wayMs: number, items: number, { slots = 512, hasFreeSlots = true, rounds = 2 } = {}): number {
  const queue = new AdmissionQueue<number>();
  queue.slots = slots;
  let now = 1_000;
  let lastLeft = now;
  // The way is known from a first item.
  for (let round = 0; round < rounds; round++) {
    const count = round === 0 ? 1 : items;
    const startedAt = now;
    const travelling: { item: number; until: number }[] = [];
    for (let item = 0; item < count; item++) queue.admit(round * 1_000 + item, burst, now);
    for (let taken = 0; taken < count; now++) {
      for (; travelling[0] !== undefined && travelling[0].until <= now; taken++)
        queue.taken((travelling.shift() as { item: number }).item, now, hasFreeSlots);
      for (let item = queue.next(now); item !== undefined; item = queue.next(now)) {
        travelling.push({ item, until: now + wayMs });
        lastLeft = now - startedAt;
      }
    }
    for (let item = 0; item < count; item++) queue.over(round * 1_000 + item, 1_000, now);
  }
  return lastLeft;
}

test("a long way to Redis holds no items back while workers have free slots", () => {
  for (const wayMs of [25, 60, 120, 240, 1_000]) {
    const ms = leavingTimes(wayMs, 256);
    assert.ok(ms <= 4 * wayMs, `a way of ${wayMs} ms: the last of 256 leaves after ${ms} ms`);
  }
});

test("on a short way, and behind workers without free slots, items leave step by step", () => {
  assert.ok(leavingTimes(10, 256) > 50, "the number grows by half with each round trip");
  const ms = leavingTimes(120, 64, { hasFreeSlots: false });
  assert.ok(ms > 60 * 120, `the last of 64 leaves after ${ms} ms`);
});
