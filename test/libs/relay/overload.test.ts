import assert from "node:assert/strict";
import { test } from "node:test";
import { isLong } from "../../support/long.ts";
import { type Outcome, play } from "./overload.ts";

test("with a bound on the wait, interactive p99 stays within 1.5 times of the unloaded one at ten times the capacity, and the workers stay busy", () => {
  for (let seed = 1; seed <= (isLong ? 5 : 2); seed++) {
    const [unloaded] = play({ load: 0.5, seed, maxWaitMs: undefined }) as [Outcome];
    for (const load of [1, 2, 5, 10]) {
      const outcomes = play({ load, seed, maxWaitMs: 1_000 }) as [Outcome, Outcome, Outcome];
      const [interactive, normal, background] = outcomes;
      const place = `seed ${seed}, load ${load}`;
      assert.ok(interactive.p99 <= 1.5 * unloaded.p99, `${place}: ${interactive.p99}, unloaded ${unloaded.p99}`);
      const served = outcomes.reduce((sum, outcome) => sum + outcome.served, 0);
      assert.ok((served * 2_000) / (60 * 180_000) > 0.9, `${place}: ${served} were served`);
      // The lowest priority is shed first, and nothing starves.
      const [first, second, third] = [interactive, normal, background].map((one) => one.served / one.offered);
      assert.ok(Number(third) > 0 && Number(third) <= Number(second) + 0.05, place);
      assert.ok(Number(second) <= Number(first) + 0.05, place);
    }
  }
});
