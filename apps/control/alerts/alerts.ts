/**
 * Raises alerts: when 80 % and 100 % of a budget are spent, when a key expires within a week, when
 * a key was revoked, and when a webhook was disabled because its receiver failed. Each occasion
 * raises one alert, whichever process notices it first.
 */

import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import type { Logger } from "pino";
import { periodNumberOf, readBudgets } from "#access/budgets.ts";
import { limitRows } from "#access/limits.ts";
import type { alertKinds } from "#api/alerts.ts";
import type { Catalogue } from "#catalogue/catalogue.ts";
import { nanoOf, unitsOf } from "#ledger/money.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import type { Redis } from "#service/redis.ts";
import { redisEpoch } from "#service/shared-clock.ts";
import {
  alertsEveryMs,
  budgetSubjectsAtOnce,
  disabledRecentlyMs,
  expiringMs,
  raisedTogetherMax,
  revokedRecentlyMs,
} from "../bounds.ts";
import type { InstallationValues } from "../config.ts";
import type { Database } from "../database/database.ts";
import { type BudgetSubject, budgetSubjects } from "../ledger/budget-subjects.ts";

export type AlertKind = (typeof alertKinds)[number];

export interface Alert {
  kind: AlertKind;
  account: string | null;
  subject: string;
  detail: Record<string, unknown>;
  /** Each occasion raises one alert. */
  occasion: string;
}

export interface AlertsOptions {
  database: Database;
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  catalogue(): Pick<Catalogue, "groups" | "currency">;
  /**
   * The settings in force now: alerts are kept as long as usage records, and delivered if there is
   * a webhook.
   */
  settings(): Pick<InstallationValues, "usageDays" | "alertWebhookUrl">;
  /** Called for each new alert. */
  raised(alert: Alert): void;
  clock: Clock;
  log: Logger;
}

/** The shares of a budget that raise an alert, in percent. */
const shares = [
  { kind: "budget.share", percent: 80 },
  { kind: "budget.spent", percent: 100 },
] as const;

export class Alerts {
  readonly #options: AlertsOptions;
  readonly #task: PeriodicTask;
  #raisedOccasions = new Set<string>();

  constructor(options: AlertsOptions) {
    this.#options = options;
    this.#task = new PeriodicTask({
      everyMs: alertsEveryMs,
      run: () => this.#run(),
      log: options.log,
      level: "warn",
      failed: "alerts could not be raised",
      works: "alerts are raised again",
    });
  }

  close(): void {
    this.#task.close();
  }

  /** One round. Never rejects. */
  run(): Promise<void> {
    return this.#task.run();
  }

  async #run(): Promise<void> {
    const now = this.#options.clock.epoch();
    const due = [
      ...(await this.#aboutBudgets(now)),
      ...(await this.#aboutKeys(now)),
      ...(await this.#aboutWebhooks(now)),
    ];
    const fresh = due.filter(({ occasion }) => !this.#raisedOccasions.has(occasion));
    for (let start = 0; start < fresh.length; start += raisedTogetherMax)
      await this.#raise(fresh.slice(start, start + raisedTogetherMax), new Date(now));
    this.#raisedOccasions = new Set(due.map(({ occasion }) => occasion));
    await this.#drop(now);
  }

  async #aboutBudgets(now: number): Promise<Alert[]> {
    const { redis, keyspace, catalogue } = this.#options;
    const { groups, currency } = catalogue();
    const subjects = await budgetSubjects(redis, keyspace, groups);
    const alerts: Alert[] = [];
    for (let start = 0; start < subjects.length; start += budgetSubjectsAtOnce) {
      const some = subjects.slice(start, start + budgetSubjectsAtOnce);
      const spent = await readBudgets(redis, keyspace, some, await redisEpoch(redis));
      for (const [index, subject] of some.entries()) {
        const own = spent[index];
        if (own !== undefined) alerts.push(...budgetAlertsOf(subject, own, currency, now));
      }
    }
    return alerts;
  }

  async #aboutKeys(now: number): Promise<Alert[]> {
    const rows = await this.#options.database
      .selectFrom("keys")
      .select(["id", "name", "account", "expires_at", "revoked_at"])
      .where((where) =>
        where.or([
          where.and([
            where("revoked_at", "is", null),
            where("expires_at", ">", new Date(now)),
            where("expires_at", "<", new Date(now + expiringMs)),
          ]),
          where("revoked_at", ">", new Date(now - revokedRecentlyMs)),
        ]),
      )
      // The end of a key that was made for so short a time is no news.
      .where(sql<boolean>`(expires_at is null or expires_at - created_at > ${expiringMs} * interval '1 millisecond')`)
      .execute();
    return rows.map(({ id, name, account, expires_at, revoked_at }): Alert => {
      const at = (revoked_at ?? expires_at)?.toISOString() ?? "";
      const kind = revoked_at === null ? "key.expiring" : "key.revoked";
      const detail = { name, ...(revoked_at === null ? { expiresAt: at } : { revokedAt: at }) };
      return { kind, account, subject: `key ${id}`, detail, occasion: `${kind} ${id} ${at}` };
    });
  }

  async #aboutWebhooks(now: number): Promise<Alert[]> {
    const rows = await this.#options.database
      .selectFrom("webhooks")
      .select(["id", "name", "account", "disabled_at", "disabled_reason"])
      .where("disabled_reason", "in", ["gone", "failing"])
      .where("disabled_at", ">", new Date(now - disabledRecentlyMs))
      .execute();
    return rows.map(({ id, name, account, disabled_at, disabled_reason: reason }) => ({
      ...{ kind: "webhook.disabled", account, subject: `webhook ${id}`, detail: { name, reason } },
      occasion: `webhook.disabled ${id} ${disabled_at?.toISOString()}`,
    }));
  }

  async #drop(now: number): Promise<void> {
    const { database, settings } = this.#options;
    await database
      .deleteFrom("alerts")
      .where("at", "<", new Date(now - settings().usageDays * 86_400_000))
      .execute();
  }

  async #raise(alerts: readonly Alert[], at: Date): Promise<void> {
    const { database, settings, raised } = this.#options;
    const delivers = settings().alertWebhookUrl !== undefined;
    const rows = alerts.map(({ detail, ...alert }) => ({
      ...alert,
      id: `alert_${randomUUID().replaceAll("-", "")}`,
      at,
      detail: JSON.stringify(detail),
      next_attempt_at: delivers ? at : null,
    }));
    const written = await database
      .insertInto("alerts")
      .values(rows)
      .onConflict((conflict) => conflict.column("occasion").doNothing())
      .returning("occasion")
      .execute();
    const occasions = new Set(written.map(({ occasion }) => occasion));
    for (const alert of alerts) if (occasions.has(alert.occasion)) raised(alert);
  }
}

function budgetAlertsOf(
  { scope, name, account, limits }: BudgetSubject,
  spent: Awaited<ReturnType<typeof readBudgets>>[number],
  currency: string,
  now: number,
): Alert[] {
  return limitRows.flatMap((row) => {
    const limit = limits[row.name];
    if (row.period === undefined || limit === undefined || nanoOf(limit) === 0) return [];
    const { period } = row;
    const used = spent[period];
    return shares
      .filter(({ percent }) => used * 100n >= BigInt(nanoOf(limit)) * BigInt(percent))
      .map(({ kind, percent }) => ({
        kind,
        account,
        subject: `${scope} ${name}`,
        detail: { period, limit: String(limit), spent: unitsOf(used), currency, percent },
        // A budget that was raised may be used up once more.
        occasion: `${kind} ${scope} ${name} ${period} ${periodNumberOf(period, now)} ${limit}`,
      }));
  });
}
