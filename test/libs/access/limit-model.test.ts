/**
 * Compares rate limits with a model of them under failures: lost replies, late commands, dead
 * holders, lost data and the passing of time.
 */

import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { LimitCounters, type LimitedSubject, type Reservation, reservationOf, type Used } from "#access/rate-limits.ts";
import { nanoOf } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { leaseMs } from "#service/lease.ts";
import { isLong } from "../../support/long.ts";
import { connectTestRedis } from "../../support/redis.ts";
import { age } from "./aging.ts";

const redis = await connectTestRedis("patient");

const limits = {
  requestsPerMinute: 1e6,
  tokensPerMinute: 1e9,
  generationsMax: 1e5,
  budgetPerDay: 1e6,
  budgetPerMonth: 1e6,
};
const subjects: LimitedSubject[] = [
  { scope: "key", name: "key_1", limits },
  { scope: "account", name: "acme", limits },
];
const nothing = { inputTokens: 0, outputTokens: 0, nano: 0 };

/**
 * `arrives`: the command runs and the sender gets the reply. `unanswered`: it runs, but the reply
 * is lost. `late`: there is no reply, and it may run at any later time.
 */
const delivery = fc.constantFrom("arrives", "unanswered", "late");
/**
 * A lease is two seconds from its end after the first wait, and two seconds past it after the
 * second.
 */
const waits = [leaseMs / 1_000 - 2, leaseMs / 1_000 + 2, 65];
const place = fc.nat({ max: 20 });
const step = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      does: fc.constant("admit"),
      holder: fc.nat({ max: 1 }),
      delivery,
      tokens: fc.nat({ max: 5_000 }),
      cents: fc.nat({ max: 500 }),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      does: fc.constant("settle"),
      place,
      delivery,
      tokens: fc.nat({ max: 9_000 }),
      cents: fc.nat({ max: 900 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("repeat"), place, delivery }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("run late"), place }) },
  { weight: 3, arbitrary: fc.record({ does: fc.constant("renew"), holder: fc.nat({ max: 1 }) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant("wait"), seconds: fc.constantFrom(...waits) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("crash"), holder: fc.nat({ max: 1 }) }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("wipe") }) },
);
type Step = typeof step extends fc.Arbitrary<infer Value> ? Value : never;

interface Holder {
  counters: LimitCounters;
  running: Reservation[];
  unsettled: { reservation: Reservation; used: Used; attempts: number }[];
}

interface Late {
  run(): Promise<unknown>;
}

let spaces = 0;

/** Plays the steps in Redis and in the model, and compares both after each. */
class World {
  readonly #keyspace = keyspaceOf(`model-${++spaces}`);
  readonly #holders: Holder[] = [this.#newHolder(), this.#newHolder()];
  #late: Late[] = [];
  #generations = 0;
  /**
   * The model: the spent money, the leases with their remaining seconds, and the generations that
   * Redis knows as settled.
   */
  #spent = 0;
  #leases = new Map<string, { nano: number; secondsLeft: number }>();
  #settled = new Set<string>();

  #newHolder(): Holder {
    return { counters: new LimitCounters(redis, this.#keyspace), running: [], unsettled: [] };
  }

  async play(next: Step): Promise<void> {
    switch (next.does) {
      case "admit": {
        const holder = this.#holders[next.holder] as Holder;
        const estimate = { inputTokens: 0, outputTokens: next.tokens, nano: nanoOf(next.cents / 100) };
        const reservation = reservationOf(`gen_${++this.#generations}`, subjects, estimate, Date.now());
        const run = async () => {
          assert.equal((await holder.counters.admit(reservation)).kind, "admitted");
          this.#leases.set(reservation.generation, { nano: reservation.nano, secondsLeft: leaseMs / 1_000 });
        };
        if (next.delivery === "late") this.#late.push({ run });
        else await run();
        if (next.delivery === "arrives") holder.running.push(reservation);
        else holder.unsettled.push({ reservation, used: { tokens: 0, nano: 0, neverBegan: true }, attempts: 0 });
        return;
      }
      case "settle": {
        const holder = this.#holders[next.place % 2] as Holder;
        const [reservation] = holder.running.splice(next.place % Math.max(1, holder.running.length), 1);
        if (reservation === undefined) return;
        const settlement = { reservation, used: { tokens: next.tokens, nano: nanoOf(next.cents / 100) }, attempts: 0 };
        holder.unsettled.push(settlement);
        await this.#settle(holder, settlement, next.delivery);
        return;
      }
      case "repeat": {
        const holder = this.#holders[next.place % 2] as Holder;
        const settlement = holder.unsettled[next.place % Math.max(1, holder.unsettled.length)];
        if (settlement !== undefined) await this.#settle(holder, settlement, next.delivery);
        return;
      }
      case "run late":
        await this.#late.splice(next.place % Math.max(1, this.#late.length), 1)[0]?.run();
        return;
      case "renew": {
        const { counters, running } = this.#holders[next.holder] as Holder;
        await counters.renew(running);
        for (const { generation, nano } of running)
          this.#leases.set(generation, { nano, secondsLeft: leaseMs / 1_000 });
        return;
      }
      case "wait":
        await this.#wait(next.seconds);
        return;
      case "crash":
        this.#holders[next.holder] = this.#newHolder();
        return;
      case "wipe":
        await redis.flushall();
        this.#spent = 0;
        this.#leases.clear();
        this.#settled.clear();
        return;
      default:
        next satisfies never;
    }
  }

  async #settle(
    holder: Holder,
    settlement: Holder["unsettled"][number],
    how: "arrives" | "unanswered" | "late",
  ): Promise<void> {
    const { reservation, used } = settlement;
    const { generation } = reservation;
    const run = async () => {
      await holder.counters.settle(reservation, used);
      if (this.#settled.has(generation)) return;
      this.#settled.add(generation);
      this.#spent += used.nano;
      this.#leases.delete(generation);
    };
    settlement.attempts++;
    if (how === "late") this.#late.push({ run });
    else await run();
    if (how !== "arrives") return;
    holder.unsettled.splice(holder.unsettled.indexOf(settlement), 1);
    if (settlement.attempts > 1) return;
    holder.counters.forget(generation);
  }

  async #wait(seconds: number): Promise<void> {
    await age(redis, this.#keyspace, seconds);
    for (const [generation, lease] of this.#leases) {
      lease.secondsLeft -= seconds;
      if (lease.secondsLeft <= 0) this.#leases.delete(generation);
    }
  }

  async compare(): Promise<void> {
    const [seconds] = await redis.time();
    for (const { scope, name } of subjects) {
      const keyOf = (what: "window" | "running" | "reserved" | "budget") => this.#keyspace.limit(scope, name, what);
      const [window, reserved, budget] = await Promise.all([
        redis.hgetall(keyOf("window")),
        redis.hgetall(keyOf("reserved")),
        redis.hgetall(keyOf("budget")),
      ]);
      const { nano: sum = "0", ...leases } = reserved;
      const moneyOf = (generation: string) => Number(leases[generation]?.split(" ")[2]);
      const all = await redis.zrange(keyOf("running"), "0", "-1");
      assert.deepEqual(all.toSorted(), Object.keys(leases).toSorted(), "leases and their reservations");
      near(
        Number(sum),
        all.reduce((total, generation) => total + moneyOf(generation), 0),
        "the sum of all leases",
      );
      const alive = await redis.zrangebyscore(keyOf("running"), Number(seconds) * 1_000 + 999, "+inf");
      assert.deepEqual(alive.toSorted(), [...this.#leases.keys()].toSorted(), "leases that have not expired");
      for (const generation of alive) near(moneyOf(generation), this.#leases.get(generation)?.nano ?? -1, generation);
      near(Number(budget.monthNano ?? 0), this.#spent, "the spent money");
      for (const letter of ["r", "t"]) {
        const slots = Object.entries(window).filter(([field]) => new RegExp(`^${letter}\\d+$`).test(field));
        assert.ok(
          slots.every(([, value]) => Number(value) >= 0),
          "no second has a negative count",
        );
        assert.equal(
          Number(window[letter] ?? 0),
          slots.reduce((total, [, value]) => total + Number(value), 0),
          `the sum of ${letter}`,
        );
      }
    }
  }

  /** After every holder is gone and time has passed, only spent money remains. */
  async end(): Promise<void> {
    await this.#wait(leaseMs / 1_000 + 2);
    const { counters } = this.#newHolder();
    const last = reservationOf("gen_last", subjects, nothing, Date.now());
    assert.equal((await counters.admit(last)).kind, "admitted");
    await counters.settle(last, { tokens: 0, nano: 0 });
    await this.compare();
    for (const { scope, name } of subjects)
      assert.equal(
        await redis.exists(this.#keyspace.limit(scope, name, "running"), this.#keyspace.limit(scope, name, "reserved")),
        0,
      );
    await this.#wait(65);
    assert.equal(
      (await counters.admit(reservationOf("gen_after", subjects, nothing, Date.now()))).standings.tokens?.remaining,
      limits.tokensPerMinute,
    );
  }
}

function near(actual: number, expected: number, what: string): void {
  assert.ok(Math.abs(actual - expected) < 1e-6, `${what}: ${actual}, not ${expected}`);
}

test("under lost replies, late commands, dead holders and lost data, each generation is charged once and no reservation outlives its holder", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40, size: "max" }), async (steps) => {
      const world = new World();
      for (const next of steps) {
        await world.play(next as Step);
        await world.compare();
      }
      await world.end();
    }),
    { numRuns: isLong ? 1_000 : 40 },
  );
});
