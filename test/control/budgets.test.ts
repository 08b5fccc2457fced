import assert from "node:assert/strict";
import { test } from "node:test";
import { pino } from "pino";
import { correctBudget, periodNumberOf, periodStartOf, readBudgets } from "#access/budgets.ts";
import { createKey } from "#access/key.ts";
import { addRecord } from "#access/projection.ts";
import { LimitCounters, reservationOf } from "#access/rate-limits.ts";
import { nanoOf } from "#ledger/money.ts";
import { systemClock } from "#service/clock.ts";
import { keyspaceOf } from "#service/keyspace.ts";
import { budgetSubjects } from "../../apps/control/ledger/budget-subjects.ts";
import { BudgetReconciler, differenceOf } from "../../apps/control/ledger/budgets.ts";
import { insertUsage } from "../../apps/control/ledger/insert.ts";
import { connectTestRedis } from "../support/redis.ts";
import { openPostgres } from "./databases.ts";
import { usageRecord } from "./records.ts";

const redis = await connectTestRedis("request");

test("periods begin and are counted as the scripts count them", async () => {
  const keyspace = keyspaceOf("periods");
  const now = Date.now();
  const counters = new LimitCounters(redis, keyspace);
  const subject = { scope: "key", name: "key_1", limits: { budgetTotal: 1 } } as const;
  const reservation = reservationOf("gen_1", [subject], { inputTokens: 1, outputTokens: 1, nano: 5 }, now);
  await counters.admit(reservation);
  await counters.settle(reservation, { tokens: 2, nano: 7 });
  assert.deepEqual(await readBudgets(redis, keyspace, [subject], now), [{ day: 7n, week: 7n, month: 7n, total: 7n }]);
  for (const period of ["day", "week", "month"] as const) {
    const start = periodStartOf(period, now);
    assert.equal(periodNumberOf(period, start), periodNumberOf(period, now));
    assert.equal(periodNumberOf(period, start - 1), periodNumberOf(period, now) - 1);
  }
  assert.equal(new Date(periodStartOf("week", now)).getUTCDay(), 1);
});

test("a sum between two readings is no difference; outside of them the least correction is", () => {
  assert.equal(differenceOf(5n, 7n, 9n), 0n);
  assert.equal(differenceOf(5n, 5n, 5n), 0n);
  assert.equal(differenceOf(5n, 4n, 9n), -1n);
  assert.equal(differenceOf(5n, 12n, 9n), 3n);
});

test("an account and a tag have the budgets of all groups of their keys, the smallest of each period", async () => {
  const keyspace = keyspaceOf("subjects");
  const groups = new Map<string, object>([
    [
      "one",
      {
        accountLimits: { budgetPerDay: 2, budgetPerMonth: 5, generationsMax: 1 },
        tagLimits: { s: { budgetPerDay: 3 } },
      },
    ],
    ["other", { accountLimits: { budgetPerDay: 1 }, tagLimits: { s: { budgetPerDay: 4, budgetPerWeek: 5 } } }],
    ["free", { accountLimits: { generationsMax: 1 } }],
  ]);
  for (const group of ["other", "one", "free", "other"]) {
    const { hash, hint } = createKey();
    const record = { id: `key_${hint}`, name: "n", group, hint, account: "acme", createdAt: 1 };
    await addRecord(redis, keyspace, hash, record);
  }
  const subjects = await budgetSubjects(redis, keyspace, groups as never);
  assert.deepEqual(
    subjects.map(({ scope, name, limits }) => ({ scope, name, limits })).sort((a, b) => a.scope.localeCompare(b.scope)),
    [
      { scope: "account", name: "acme", limits: { budgetPerDay: 1, budgetPerMonth: 5 } },
      { scope: "tag", name: "acme s", limits: { budgetPerDay: 3, budgetPerWeek: 5 } },
    ],
  );
});

test("a new budget begins with what the ledger has, and later differences are corrected and counted", async () => {
  await using opened = await openPostgres();
  const { database } = opened;
  const keyspace = keyspaceOf("reconciled");
  const now = Date.now();
  const { hash, hint } = createKey();
  const limits = { budgetPerDay: 1, budgetTotal: 10 };
  const record = { id: "key_b", name: "b", group: "default", hint, account: "acme", createdAt: now, limits };
  await addRecord(redis, keyspace, hash, record);
  const groups = new Map<string, object>([
    ["default", { accountLimits: { budgetPerMonth: 5 }, tagLimits: { s: { budgetPerMonth: 5 } } }],
    ["free", {}],
  ]);
  const reconciler = new BudgetReconciler({
    clock: systemClock,
    database,
    redis,
    keyspace,
    catalogue: () => ({ groups }) as never,
    caughtUpAt: async () => Number.POSITIVE_INFINITY,
    log: pino({ level: "silent" }),
  });
  const round = async () => {
    await redis.del(keyspace.budgetsCompared);
    await reconciler.run();
  };
  const spent = async () => {
    const subjects = [
      { scope: "key", name: "key_b" },
      { scope: "account", name: "acme" },
      { scope: "tag", name: "acme s" },
    ] as const;
    const [key, account, tag] = await readBudgets(redis, keyspace, subjects, Date.now());
    return [key?.day, key?.total, account?.month, tag?.month];
  };
  try {
    const old = now - 40 * 86_400_000;
    await insertUsage(database, [
      usageRecord({ keyId: "key_b", cost: String(nanoOf(0.25)), receivedAt: now, tags: ["s", "t"] }),
      usageRecord({ keyId: "key_b", cost: String(nanoOf(2)), receivedAt: old }),
      // A record of a group without limits for accounts.
      usageRecord({ keyId: "key_c", group: "free", cost: String(nanoOf(3)), receivedAt: now, tags: ["s"] }),
    ]);
    await round();
    assert.deepEqual(await spent(), [nanoOf(0.25), nanoOf(2.25), nanoOf(0.25), nanoOf(0.25)].map(BigInt));
    await round();
    assert.equal(reconciler.differences, 0);

    const subject = { scope: "key", name: "key_b" } as const;
    await correctBudget(redis, keyspace, subject, { period: "day", at: now, nano: 1n });
    await redis.del(keyspace.limit("account", "acme", "budget"));
    await round();
    assert.deepEqual(await spent(), [nanoOf(0.25), nanoOf(2.25), nanoOf(0.25), nanoOf(0.25)].map(BigInt));
    assert.equal(reconciler.differences, 2);
  } finally {
    reconciler.close();
  }
});
