/**
 * Keeps the budgets in Redis equal to the ledger. Every minute it reads what Redis has counted for
 * each caller with a budget, lets the ledger catch up, sums the ledger, and reads Redis again.
 * Without an error the sum lies between the two readings. Otherwise Redis is corrected by the
 * difference: it lost data, an ingress died before it settled a generation, or the budget is new
 * and earlier usage counts.
 */

import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import type { Logger } from "pino";
import { budgetPeriods, correctBudget, periodStartOf, readBudgets } from "#access/budgets.ts";
import { type BudgetPeriod, limitsCount } from "#access/limits.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import type { Redis } from "#service/redis.ts";
import { redisEpoch } from "#service/shared-clock.ts";
import { budgetSubjectsAtOnce, catchUpMs, caughtUpCheckMs, reconcileEveryMs, recordedWithinMs } from "../bounds.ts";
import type { Database } from "../database/database.ts";
import { type BudgetSubject, budgetSubjects, periodsOf } from "./budget-subjects.ts";

export interface BudgetsOptions {
  database: Database;
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "groups">;
  /** The ledger has everything that was recorded before this time, in epoch milliseconds. */
  caughtUpAt(): Promise<number>;
  clock: Clock;
  log: Logger;
}

type Spent = Record<BudgetPeriod, bigint>;

/** SQL for the names of subjects in the totals. */
const columns = {
  key: sql`key_id`,
  group: sql`group_name`,
  account: sql`account`,
  tag: sql`account || ' ' || value`,
} as const;

export class BudgetReconciler {
  readonly #options: BudgetsOptions;
  /**
   * Subjects and periods that agreed once. A later difference is an error; an earlier one is usage
   * from before the budget.
   */
  #agreed = new Set<string>();
  #differences = 0;
  readonly #task: PeriodicTask;

  constructor(options: BudgetsOptions) {
    this.#options = options;
    this.#task = new PeriodicTask({
      everyMs: reconcileEveryMs,
      run: () => this.#run(),
      log: options.log,
      level: "warn",
      failed: "budgets could not be compared with the ledger",
      works: "budgets are compared with the ledger again",
    });
  }

  /** Differences found so far, besides those of new budgets. Zero unless something broke. */
  get differences(): number {
    return this.#differences;
  }

  close(): void {
    this.#task.close();
  }

  /** One round. Never rejects. */
  run(): Promise<void> {
    return this.#task.run();
  }

  async #run(): Promise<boolean> {
    const { redis, keyspace } = this.#options;
    // One process at a time compares: two corrections of the same difference would count it twice.
    if ((await redis.set(keyspace.budgetsCompared, "1", "PX", reconcileEveryMs * 0.9, "NX")) === null) return false;
    const subjects = await budgetSubjects(redis, keyspace, this.#options.catalogue().groups);
    const agreed = new Set<string>();
    for (let start = 0; start < subjects.length; start += budgetSubjectsAtOnce)
      await this.#reconcile(subjects.slice(start, start + budgetSubjectsAtOnce), agreed);
    this.#agreed = agreed;
    return true;
  }

  async #reconcile(subjects: readonly BudgetSubject[], agreed: Set<string>): Promise<void> {
    const { redis, keyspace, log } = this.#options;
    const now = Math.floor(await redisEpoch(redis));
    const before = await readBudgets(redis, keyspace, subjects, now);
    if (!(await hasCaughtUp(this.#options))) return;
    const sums = await this.#sumsOf(subjects, now);
    const after = await readBudgets(redis, keyspace, subjects, now);
    for (const [index, subject] of subjects.entries())
      for (const period of periodsOf(subject.limits)) {
        const difference = differenceOf(
          before[index]?.[period] ?? 0n,
          sums[index]?.[period] ?? 0n,
          after[index]?.[period] ?? 0n,
        );
        const name = `${subject.scope} ${subject.name} ${period} ${periodStartOf(period, now)}`;
        agreed.add(name);
        if (difference === 0n) continue;
        const isKnown = this.#agreed.has(name);
        if (isKnown) this.#differences++;
        log[isKnown ? "error" : "info"](
          { scope: subject.scope, name: subject.name, period, nano: String(difference) },
          isKnown ? "a budget differed from the ledger and was corrected" : "a budget begins with what the ledger has",
        );
        await correctBudget(redis, keyspace, subject, { period, at: now, nano: difference });
      }
  }

  async #sumsOf(subjects: readonly BudgetSubject[], now: number): Promise<Spent[]> {
    const spentBySubject = new Map<string, Spent>();
    for (const scope of ["key", "group", "account", "tag"] as const) {
      const names = subjects.filter((subject) => subject.scope === scope).map(({ name }) => name);
      if (names.length > 0)
        for (const [name, spent] of await this.#sumsBy(scope, names, now))
          spentBySubject.set(`${scope} ${name}`, spent);
    }
    return subjects.map(
      ({ scope, name }) => spentBySubject.get(`${scope} ${name}`) ?? { day: 0n, week: 0n, month: 0n, total: 0n },
    );
  }

  async #sumsBy(
    scope: BudgetSubject["scope"],
    names: readonly string[],
    now: number,
  ): Promise<[name: string, Spent][]> {
    const column = columns[scope];
    const sums = budgetPeriods.map(
      (period) =>
        sql`coalesce(sum(cost) filter (where day >= ${new Date(periodStartOf(period, now))}), 0)::bigint as ${sql.id(period)}`,
    );
    const { groups } = this.#options.catalogue();
    // An account's budget is that of its keys in groups with `accountLimits`, and a tag's that of
    // keys in groups with its `tagLimits`: Redis counts no others.
    const counted = [...groups]
      .filter(([, group]) => limitsCount(group.accountLimits ?? {}, "money"))
      .map(([name]) => name);
    const countedTags = [...groups].flatMap(([name, { tagLimits = {} }]) =>
      Object.entries(tagLimits)
        .filter(([, limits]) => limitsCount(limits, "money"))
        .map(([tag]) => `${name} ${tag}`),
    );
    const ofGroups = {
      key: sql`usage_days where true`,
      group: sql`usage_days where true`,
      account: sql`usage_days where group_name = any(${counted}::text[])`,
      tag: sql`label_days where kind = 'tag' and group_name || ' ' || value = any(${countedTags}::text[])`,
    }[scope];
    const { rows } = await sql<{ name: string } & Spent>`
      select ${column} as name, ${sql.join(sums)} from ${ofGroups}
      and ${column} = any(${[...names]}::text[]) group by 1`.execute(this.#options.database);
    return rows.map(({ name, ...spent }) => [name, spent]);
  }
}

/**
 * The amount that Redis lacks (positive) or has too much (negative), if the sum is not between its
 * two readings.
 */
export function differenceOf(before: bigint, sum: bigint, after: bigint): bigint {
  if (sum < before) return sum - before;
  return sum > after ? sum - after : 0n;
}

/**
 * Waits until the ledger has read everything that was written until now. False if it lags behind
 * for long.
 */
async function hasCaughtUp({ caughtUpAt, clock }: Pick<BudgetsOptions, "caughtUpAt" | "clock">): Promise<boolean> {
  const since = clock.epoch();
  while ((await caughtUpAt()) < since + recordedWithinMs) {
    if (clock.epoch() > since + catchUpMs) return false;
    await delay(caughtUpCheckMs);
  }
  return true;
}
