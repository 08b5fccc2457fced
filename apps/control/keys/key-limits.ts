/** How much of its limits a key uses now, as ingresses count it in Redis. */
import { periodEndOf, readBudgets } from "#access/budgets.ts";
import { limitRows } from "#access/limits.ts";
import { LimitCounters, type LimitedSubject, limitedSubjectsOf, type Use } from "#access/rate-limits.ts";
import type { keyOperations } from "#api/keys.ts";
import type { AnswerOf } from "#api/operation.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { nanoOf, unitsOf } from "#ledger/money.ts";
import type { Keyspace } from "#service/keyspace.ts";
import type { Redis } from "#service/redis.ts";
import { type FullRow, recordOf } from "./key-rows.ts";

type Standing = AnswerOf<(typeof keyOperations)["getKeyLimits"]>["limits"][number];
type Spent = Awaited<ReturnType<typeof readBudgets>>[number];

export interface LimitDeps {
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Catalogue;
}

/** Rejects when Redis does not answer. */
export async function standingsOf(
  { redis, keyspace, catalogue }: LimitDeps,
  row: FullRow,
  now: number,
  isOperator: boolean,
): Promise<Standing[]> {
  // Keys of other accounts count in a group too.
  const group = catalogue().groups.get(row.group_name);
  const models = Object.keys(group?.modelLimits ?? {});
  const subjects = limitedSubjectsOf(recordOf(row), group, { models }).filter(
    ({ scope }) => isOperator || scope !== "group",
  );
  if (subjects.length === 0) return [];
  const [uses, budgets] = await Promise.all([
    new LimitCounters(redis, keyspace).read(subjects),
    readBudgets(redis, keyspace, subjects, now),
  ]);
  return subjects.flatMap((subject, index) => {
    const [use, spent] = [uses[index], budgets[index]];
    if (use === undefined || spent === undefined) return [];
    return limitRows.flatMap((limit) => standingOf(subject, limit, use, spent, now));
  });
}

/** Empty without such a limit. */
function standingOf(
  subject: LimitedSubject,
  row: (typeof limitRows)[number],
  use: Use,
  spent: Spent,
  now: number,
): Standing[] {
  const max = subject.limits[row.name];
  if (max === undefined) return [];
  const of = { scope: subject.scope, subject: subject.name, limit: row.name };
  if (row.period !== undefined) {
    const [limit, used] = [BigInt(nanoOf(max)), spent[row.period]];
    const left = limit - used - use.reserved;
    const end = periodEndOf(row.period, now);
    return [
      {
        ...of,
        max: unitsOf(limit),
        used: unitsOf(used),
        reserved: unitsOf(use.reserved),
        remaining: unitsOf(left > 0n ? left : 0n),
        resetsAt: end === undefined ? null : new Date(end).toISOString(),
      },
    ];
  }
  const [used, resetMs] =
    row.counter === "requests"
      ? [use.requests, use.requestsResetMs]
      : row.counter === "tokens"
        ? [use.tokens, use.tokensResetMs]
        : [use.running, 0];
  return [
    {
      ...of,
      max: String(max),
      used: String(used),
      reserved: "0",
      remaining: String(Math.max(0, max - used)),
      resetsAt: resetMs === 0 ? null : new Date(now + resetMs).toISOString(),
    },
  ];
}
