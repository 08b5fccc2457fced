import assert from "node:assert/strict";
import { test } from "node:test";
import { isLong } from "../../support/long.ts";
import { calm, type Faults, World } from "./simulation.ts";

/**
 * SIMULATION_SEEDS sets how many worlds each test plays; SIMULATION_SEED plays one alone, to look
 * at it.
 */
const seeds = Number(process.env.SIMULATION_SEEDS ?? (isLong ? 4_000 : 200));
const only = process.env.SIMULATION_SEED;

function check(
  faults: Faults,
  expected: (report: ReturnType<World["run"]>) => string | undefined = () => undefined,
): void {
  const from = only === undefined ? 1 : Number(only);
  const to = only === undefined ? seeds : from;
  for (let seed = from; seed <= to; seed++) {
    const report = new World(seed, faults).run();
    const surprise = expected(report);
    assert.deepEqual(surprise === undefined ? report.violations : [...report.violations, surprise], [], `seed ${seed}`);
  }
}

test("without faults every generation ends at its first attempt", () => {
  check(calm, ({ failed, attemptsMax }) =>
    failed > 0 ? `${failed} failed` : attemptsMax > 1 ? `attempt ${attemptsMax}` : undefined,
  );
});

test("lost, repeated and reordered messages do not change what a caller sees", () => {
  check({ ...calm, loss: 0.05, repeat: 0.05, reorder: 0.02 }, ({ failed }) =>
    failed > 0 ? `${failed} failed` : undefined,
  );
});

test("crashes, freezes, half partitions and restarts without data never leave a caller without an answer or with a wrong one", () => {
  check({ ...calm, upheavals: 4 });
});

test("queues that a restart emptied are filled again, and no generation fails", () => {
  check({ ...calm, upheavals: 3, kinds: ["empty restart"] }, ({ failed }) =>
    failed > 0 ? `${failed} failed` : undefined,
  );
});

test("all faults at once", () => {
  check({ ...calm, loss: 0.1, repeat: 0.1, reorder: 0.1, lie: 0.1, upheavals: 5 });
});
