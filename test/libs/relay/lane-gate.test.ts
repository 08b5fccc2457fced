import assert from "node:assert/strict";
import { test } from "node:test";
import { LaneGate } from "#relay/lane-gate.ts";

const burst = { group: "default", weight: 1, key: "burst" };
const single = { group: "default", weight: 1, key: "single" };

/** A lane in virtual time: workers with so many places in all, jobs that take so long, a hand-over of two milliseconds. */
class Lane {
  now = 1_000;
  open = true;
  readonly jobs: { item: string; gate: LaneGate<string> }[] = [];
  readonly startedAt = new Map<string, number>();
  readonly #running: { endsAt: number; item: string; gate: LaneGate<string> }[] = [];
  readonly #travelling: { at: number; item: string; gate: LaneGate<string> }[] = [];
  readonly #gates: LaneGate<string>[] = [];
  readonly #places: number;
  readonly #serviceMs: number;

  constructor(places: number, serviceMs: number) {
    this.#places = places;
    this.#serviceMs = serviceMs;
  }

  gate(): LaneGate<string> {
    const gate: LaneGate<string> = new LaneGate<string>({
      isOpen: () => this.open,
      release: (item) => this.jobs.push({ item, gate }),
    });
    this.#gates.push(gate);
    return gate;
  }

  /** Every second each gate learns what the others run. */
  #share(): void {
    const running = this.#gates.reduce((sum, gate) => sum + gate.runningSize, 0);
    for (const gate of this.#gates) gate.hasPlaces(this.#places - running + gate.runningSize);
  }

  play(ms: number): void {
    for (const until = this.now + ms; this.now < until; this.now++) {
      if (this.now % 1_000 === 0) this.#share();
      for (let index = this.#running.length - 1; index >= 0; index--) {
        const { endsAt, item, gate } = this.#running[index] as { endsAt: number; item: string; gate: LaneGate<string> };
        if (endsAt > this.now) continue;
        this.#running.splice(index, 1);
        gate.over(item, this.#serviceMs, this.now);
      }
      while (this.#running.length < this.#places && this.jobs.length > 0) {
        const job = this.jobs.shift() as { item: string; gate: LaneGate<string> };
        this.#running.push({ endsAt: this.now + 2 + this.#serviceMs, ...job });
        this.#travelling.push({ at: this.now + 2, ...job });
      }
      while ((this.#travelling[0]?.at ?? Number.POSITIVE_INFINITY) <= this.now) {
        const { item, gate } = this.#travelling.shift() as { item: string; gate: LaneGate<string> };
        this.startedAt.set(item, this.now);
        gate.taken(item, this.now);
      }
    }
  }
}

test("behind another key's thousand requests at two ingresses, a single one waits for about one service time", () => {
  for (const [places, serviceMs, servicesMax] of [
    [3, 200, 2],
    [6, 200, 2],
    [64, 1_000, 1.2],
    [512, 3_000, 1.2],
  ] as const)
    for (const afterMs of [5, 50, 700, 2_100]) {
      const lane = new Lane(places, serviceMs);
      const gates = [lane.gate(), lane.gate()] as const;
      for (let index = 0; index < 1_000; index++)
        for (const [number, gate] of gates.entries()) gate.admit(`${number}-${index}`, burst, lane.now);
      lane.play(afterMs);
      const askedAt = lane.now;
      gates[0].admit("single", single, askedAt);
      lane.play(3 * serviceMs);
      const waitedMs = (lane.startedAt.get("single") as number) - askedAt;
      assert.ok(
        waitedMs <= servicesMax * serviceMs,
        `${waitedMs} ms with ${places} places, ${afterMs} ms after the burst`,
      );
    }
});

test("requests that run for long leave places for other keys, at one ingress and at several", () => {
  for (const [places, ingressesMax] of [
    [8, 1],
    [64, 2],
    [512, 3],
  ] as const)
    for (let ingresses = 1; ingresses <= ingressesMax; ingresses++) {
      const lane = new Lane(places, 60_000);
      const gates = Array.from({ length: ingresses }, () => lane.gate());
      for (const [number, gate] of gates.entries()) {
        for (let index = 0; index < 2 * places; index++) gate.admit(`${number}-${index}`, burst, lane.now);
        lane.play(2_000);
      }
      const started = lane.startedAt.size;
      assert.ok(
        started >= Math.floor((4 * places) / 5) && started < places,
        `${started} of ${places} places with ${ingresses} ingresses`,
      );
      const askedAt = lane.now;
      (gates.at(-1) as LaneGate<string>).admit("single", single, askedAt);
      lane.play(100);
      const waitedMs = (lane.startedAt.get("single") ?? Number.POSITIVE_INFINITY) - askedAt;
      assert.ok(waitedMs <= 10, `${waitedMs} ms with ${places} places and ${ingresses} ingresses`);
    }
});

test("two keys share the places, and what one of them leaves goes to the other", () => {
  const lane = new Lane(90, 60_000);
  const gate = lane.gate();
  const runningOf = (key: string) => [...lane.startedAt.keys()].filter((item) => item.startsWith(key)).length;
  for (let index = 0; index < 200; index++) gate.admit(`burst-${index}`, burst, lane.now);
  lane.play(5_000);
  assert.equal(runningOf("burst"), 73);
  for (let index = 0; index < 200; index++) gate.admit(`single-${index}`, single, lane.now);
  lane.play(5_000);
  const before = runningOf("single");
  assert.ok(before >= 10 && before < 17, String(before));
  lane.play(52_000);
  assert.ok(runningOf("single") - before > 20, "as the first key's requests end, the second one's take their places");
});

test("groups share the places by weight", () => {
  const lane = new Lane(100, 2_000);
  const gate = lane.gate();
  const running = (key: string) =>
    [...lane.startedAt].filter(([item, at]) => item.startsWith(key) && at > lane.now - 2_000).length;
  for (let index = 0; index < 1_000; index++) {
    gate.admit(`light-${index}`, { group: "light", weight: 0.5, key: "light" }, lane.now);
    gate.admit(`heavy-${index}`, { group: "heavy", weight: 1.5, key: "heavy" }, lane.now);
  }
  lane.play(15_000);
  const ratio = running("heavy") / running("light");
  assert.ok(ratio > 2.5 && ratio < 3.5, String(ratio));
});

test("holding back costs no work: as many are served as without it, long jobs and short ones", () => {
  for (const [places, serviceMs, leastServed] of [
    [3, 200, 73],
    [64, 50, 5_900],
    [512, 1_000, 2_400],
    [8, 1, 13_000],
  ] as const) {
    const lane = new Lane(places, serviceMs);
    const gate = lane.gate();
    for (let index = 0; index < 20_000; index++)
      gate.admit(String(index), { ...burst, key: `burst ${index % 10}` }, lane.now);
    lane.play(5_000);
    assert.ok(lane.startedAt.size >= leastServed, `${lane.startedAt.size} with ${places} places of ${serviceMs} ms`);
  }
});

test("what leaves makes room, wherever it waited, and nothing passes while the lane is closed", () => {
  const lane = new Lane(0, 1);
  const gate = lane.gate();
  for (const item of ["a", "b", "c", "d"]) gate.admit(item, burst, 0);
  assert.deepEqual([lane.jobs.length, gate.heldSize, gate.holds("b")], [1, 3, true]);
  gate.over("b", undefined, 1);
  gate.over("b", undefined, 1);
  assert.deepEqual([lane.jobs.length, gate.heldSize], [1, 2]);
  lane.open = false;
  gate.over("a", undefined, 2);
  assert.deepEqual([lane.jobs.length, gate.heldSize], [1, 2]);
  lane.open = true;
  gate.pump(3);
  gate.pump(3);
  assert.deepEqual([lane.jobs.map(({ item }) => item), gate.heldSize], [["a", "c"], 1]);
  gate.gone("c", 3);
  assert.deepEqual([lane.jobs.map(({ item }) => item), gate.heldSize], [["a", "c", "d"], 0]);
  gate.admit("e", burst, 3);
  gate.again("c");
  gate.over("d", undefined, 4);
  assert.equal(gate.heldSize, 1, "the one that is back on the lane takes up its room");
  gate.taken("c", 5);
  assert.equal(gate.heldSize, 0);
});

test("Retry-After follows how fast the lane drains", () => {
  const gate = new LaneGate<number>({ isOpen: () => true, release: () => undefined });
  let now = 50_000;
  gate.admit(-1, burst, now);
  assert.equal(gate.retryAfterSeconds(1, now), 1);
  for (let index = 0; index < 200; index++) gate.admit(index, burst, now);
  for (let index = 0; index < 100; index++) {
    now += 100;
    gate.taken(index - 1, now);
  }
  assert.deepEqual(
    [20, 100, 10_000].map((waiting) => gate.retryAfterSeconds(waiting, now)),
    [3, 11, 60],
  );
  assert.equal(gate.retryAfterSeconds(100, now + 20_000), 60, "it stands still");
  assert.equal(gate.retryAfterSeconds(3, now + 20_000), 30);
});
