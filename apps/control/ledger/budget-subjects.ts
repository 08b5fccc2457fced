/** Everybody with a budget: groups of the catalogue, keys, accounts, and tags of accounts. */
import { type BudgetPeriod, type Limits, limitRows, limitsCount } from "#access/limits.ts";
import { readRecords } from "#access/projection.ts";
import { type LimitedSubject, partNameOf } from "#access/rate-limits.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";

export interface BudgetSubject {
  scope: Exclude<LimitedSubject["scope"], "model">;
  name: string;
  /** Null for a group. */
  account: string | null;
  /** Its budgets; the smallest one where the groups of its keys have several for a period. */
  limits: Limits;
}

/** Rejects when Redis does not answer. */
export async function budgetSubjects(
  redis: Redis,
  keyspace: Keyspace,
  groups: Catalogue["groups"],
): Promise<BudgetSubject[]> {
  const subjects = new Map<string, BudgetSubject>();
  const add = (scope: BudgetSubject["scope"], name: string, account: string | null, limits: Limits | undefined) => {
    if (limits === undefined || !limitsCount(limits, "money")) return;
    const budgets: Record<string, number> = { ...(subjects.get(`${scope} ${name}`)?.limits as object) };
    for (const row of limitRows) {
      const budget = limits[row.name];
      if (row.period === undefined || budget === undefined) continue;
      budgets[row.name] = Math.min(budget, budgets[row.name] ?? budget);
    }
    subjects.set(`${scope} ${name}`, { scope, name, account, limits: budgets });
  };
  for (const [name, group] of groups) add("group", name, null, group.limits);
  for (const { id, group: name, account, limits, revokedAt } of (await readRecords(redis, keyspace)).values()) {
    if (revokedAt !== undefined) continue;
    const group = groups.get(name);
    add("key", id, account ?? null, { ...group?.keyLimits, ...limits });
    if (account !== undefined) add("account", account, account, group?.accountLimits);
    for (const [tag, limits] of Object.entries(group?.tagLimits ?? {}))
      add("tag", partNameOf(account, tag), account ?? null, limits);
  }
  return [...subjects.values()];
}

export const periodsOf = (limits: Limits): BudgetPeriod[] =>
  limitRows.flatMap((row) => (row.period !== undefined && limits[row.name] !== undefined ? [row.period] : []));
