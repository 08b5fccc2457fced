/** Calls that share a script count as the same calls one after the other. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Batches } from "#access/batches.ts";
import {
  LimitCounters,
  type LimitDecision,
  type LimitedSubject,
  type Limits,
  type Reservation,
  reservationOf,
  type Used,
} from "#access/rate-limits.ts";
import { nanoOf } from "#ledger/money.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { connectTestRedis } from "../../support/redis.ts";

const redis = await connectTestRedis("patient");

const receivedAt = Date.UTC(2026, 2, 1);
let spaces = 0;
const countersOf = () => {
  const keyspace = keyspaceOf(`batches-${++spaces}`);
  return { keyspace, counters: new LimitCounters(redis, keyspace) };
};
type Space = ReturnType<typeof countersOf>;

/** Without what depends on the millisecond. */
const comparable = (decision: LimitDecision) => ({
  kind: decision.kind,
  requests: decision.standings.requests?.remaining,
  tokens: decision.standings.tokens?.remaining,
  ...(decision.kind === "refused" && {
    subject: decision.subject,
    limit: decision.limit,
    isSpent: decision.isSpent,
  }),
});

/** All counters of a space, without the seconds of which windows and leases speak. */
async function stateOf({ keyspace, counters }: Space, subjects: readonly LimitedSubject[]) {
  const uses = await counters.read(subjects);
  const budgets = await Promise.all(
    subjects.map(({ scope, name }) => redis.hgetall(keyspace.limit(scope, name, "budget"))),
  );
  const leases = await Promise.all(
    subjects.map(async ({ scope, name }) =>
      Object.entries(await redis.hgetall(keyspace.limit(scope, name, "reserved"))).map(([generation, lease]) => [
        generation,
        ...lease.split(" ").slice(-2),
      ]),
    ),
  );
  const settled = (await redis.zrange(keyspace.limitsSettled, 0, "-1")).toSorted();
  return {
    uses: uses.map(({ requests, tokens, running, reserved }) => ({ requests, tokens, running, reserved })),
    ...{ budgets, leases: leases.map((each) => each.toSorted()), settled },
  };
}

const optional = (max: number) => fc.option(fc.nat({ max }), { nil: undefined });
const limits = fc
  .record({
    requestsPerMinute: optional(12),
    tokensPerMinute: optional(3_000),
    generationsMax: optional(8),
    budgetPerDay: optional(6),
    budgetPerMonth: optional(9),
  })
  .map((values) => Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as Limits);
const request = fc.record({
  inputTokens: fc.nat({ max: 400 }),
  outputTokens: fc.nat({ max: 400 }),
  nano: fc.nat({ max: 2 }).map(nanoOf),
});
const use = fc.record({
  tokens: fc.nat({ max: 1_200 }),
  nano: fc.nat({ max: 3 }).map(nanoOf),
  neverBegan: fc.boolean(),
  /** Days before the request was received. */
  days: fc.nat({ max: 40 }),
});

test("batched admissions and settlements decide and count like single ones", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.tuple(limits, limits),
      fc.array(fc.record({ requests: fc.array(request, { maxLength: 8 }), uses: fc.array(use, { maxLength: 8 }) }), {
        maxLength: 4,
      }),
      async ([ofKey, ofGroup], rounds) => {
        const subjects: LimitedSubject[] = [
          { scope: "key", name: "key_1", limits: ofKey },
          { scope: "group", name: "default", limits: ofGroup },
        ];
        const [single, batched] = [countersOf(), countersOf()];
        const running: Reservation[] = [];
        let generations = 0;
        for (const { requests, uses } of rounds) {
          const reservations = requests.map((estimate) =>
            reservationOf(`gen_${++generations}`, subjects, estimate, receivedAt),
          );
          const decisions: LimitDecision[] = [];
          for (const reservation of reservations) decisions.push(await single.counters.admit(reservation));
          const together = await Promise.all(reservations.map((reservation) => batched.counters.admit(reservation)));
          assert.deepEqual(together.map(comparable), decisions.map(comparable));
          assert.deepEqual(await stateOf(batched, subjects), await stateOf(single, subjects));
          running.push(...reservations.filter((_, index) => decisions[index]?.kind === "admitted"));
          const settlements = running.splice(0, uses.length).map((reservation, index) => {
            const { days, ...used } = uses[index] as Used & { days: number };
            return [{ ...reservation, receivedAt: receivedAt - days * 86_400_000 }, used] as const;
          });
          for (const settlement of settlements) await single.counters.settle(...settlement);
          await Promise.all(settlements.map((settlement) => batched.counters.settle(...settlement)));
          assert.deepEqual(await stateOf(batched, subjects), await stateOf(single, subjects));
        }
      },
    ),
    { numRuns: 60 },
  );
});

test("admissions of one turn of the event loop share a script, and so do settlements", async () => {
  const { counters } = countersOf();
  const scripts = async () => Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info("commandstats"))?.[1] ?? 0);
  const subjects: LimitedSubject[] = [{ scope: "key", name: "key_1", limits: { requestsPerMinute: 1_000 } }];
  const estimate = { inputTokens: 1, outputTokens: 1, nano: 0 };
  const before = await scripts();
  const reservations = Array.from({ length: 100 }, (_, index) =>
    reservationOf(`gen_${index}`, subjects, estimate, receivedAt),
  );
  await Promise.all(reservations.map((reservation) => counters.admit(reservation)));
  await Promise.all(reservations.map((reservation) => counters.settle(reservation, { tokens: 2, nano: 0 })));
  assert.equal((await scripts()) - before, 4, "64 and 36 of each");
});

test("a batch starts when it is told to, and its failure is that of all its calls", async () => {
  const starts: (() => void)[] = [];
  const seen: unknown[][] = [];
  const batches = new Batches<object, number, number>(
    async (subject, items) => {
      seen.push([subject, ...items]);
      if (items.includes(0)) throw new Error("zero");
      return items.map((item) => item * 2);
    },
    (start) => starts.push(start),
  );
  const [one, other] = [{ name: "one" }, { name: "other" }];
  const first = Promise.all([batches.add(one, 1), batches.add(one, 2)]);
  const failed = Promise.allSettled([batches.add(other, 3), batches.add(other, 0)]);
  assert.deepEqual(seen, []);
  for (const start of starts.splice(0)) start();
  assert.deepEqual(seen, [
    [one, 1, 2],
    [other, 3, 0],
  ]);
  assert.deepEqual(await first, [2, 4]);
  assert.deepEqual(
    (await failed).map(({ status }) => status),
    ["rejected", "rejected"],
  );
  const later = batches.add(one, 5);
  for (const start of starts) start();
  assert.equal(await later, 10);
});
