/**
 * Tells ingresses the usage of each key through Redis. A key is read from the totals a moment after
 * its records were stored, those with usage of this week or month at start, and all keys whenever
 * Redis came back empty.
 */

import { sql } from "kysely";
import type { Logger } from "pino";
import { type KeyUsage, periodStartsOf, type UsageSums } from "#ledger/key-usage.ts";
import type { Clock } from "#service/clock.ts";
import type { Keyspace } from "#service/keyspace.ts";
import { PeriodicTask } from "#service/periodic-task.ts";
import type { Redis } from "#service/redis.ts";
import { keyUsageBatchMax, keyUsageEveryMs, pastCostsMax } from "../bounds.ts";
import type { Database } from "../database/database.ts";

export interface KeyUsageOptions {
  database: Database;
  /** A connection of the purpose `request`. */
  redis: Redis;
  keyspace: Keyspace;
  clock: Clock;
  log: Logger;
}

type Period = "day" | "week" | "month";
type Row = { key_id: string } & Record<`${Period}_${SumColumn}`, bigint>;

const sumColumns = {
  requests: "requests",
  input_tokens: "inputTokens",
  cached_input_tokens: "cachedInputTokens",
  output_tokens: "outputTokens",
  reasoning_tokens: "reasoningTokens",
  images: "images",
  cost: "cost",
} as const satisfies Record<string, keyof UsageSums>;
type SumColumn = keyof typeof sumColumns;

export class KeyUsagePublisher {
  readonly #options: KeyUsageOptions;
  /**
   * Keys with records since they were last published. Its size is bounded by the number of keys.
   */
  #changed = new Set<string>();
  /**
   * The cost of a key before this month, as of this hour: records of earlier months are rare, but
   * come late from answers and batches that began in one.
   */
  #past = new Map<string, bigint>();
  #pastOf = 0;
  #isComplete = false;
  readonly #task: PeriodicTask;

  constructor(options: KeyUsageOptions) {
    this.#options = options;
    this.#task = new PeriodicTask({
      everyMs: keyUsageEveryMs,
      run: () => this.#run(),
      log: options.log,
      level: "warn",
      failed: "the usage of keys could not be published",
      works: "the usage of keys is published again",
    });
  }

  /** Records of these keys were stored. */
  changed(keyIds: Iterable<string>): void {
    for (const id of keyIds) this.#changed.add(id);
  }

  close(): void {
    this.#task.close();
  }

  async #run(): Promise<boolean> {
    const { redis, keyspace, clock } = this.#options;
    if (redis.status !== "ready") return false;
    const isEmpty = (await redis.exists(keyspace.keyUsage)) === 0;
    if (!this.#isComplete || isEmpty) await this.#markAll(isEmpty ? 0 : recentOf(clock.epoch()));
    const keyIds = [...this.#changed].slice(0, keyUsageBatchMax);
    if (keyIds.length === 0) return true;
    for (const id of keyIds) this.#changed.delete(id);
    try {
      await this.#publish(keyIds, clock.epoch());
      return true;
    } catch (error) {
      this.changed(keyIds);
      throw error;
    }
  }

  /** Marks the keys with usage since this time. */
  async #markAll(since: number): Promise<void> {
    const { rows } = await sql<{ key_id: string }>`
      select distinct key_id from usage_days where day >= ${new Date(since)}`.execute(this.#options.database);
    this.changed(rows.map(({ key_id }) => key_id));
    this.#isComplete = true;
  }

  async #publish(keyIds: readonly string[], now: number): Promise<void> {
    const { database, redis, keyspace } = this.#options;
    const starts = periodStartsOf(now);
    const past = await this.#pastCostsOf(keyIds, now);
    const sums = (["day", "week", "month"] as const).flatMap((period) =>
      Object.keys(sumColumns).map(
        (column) =>
          sql`coalesce(sum(${sql.ref(column)}) filter (where day >= ${new Date(starts[period])}), 0)::bigint as ${sql.id(`${period}_${column}`)}`,
      ),
    );
    const { rows } = await sql<Row>`
      select key_id, ${sql.join(sums)} from usage_days
      where key_id = any(${[...keyIds]}::text[]) and day >= ${new Date(recentOf(now))}
      group by key_id`.execute(database);
    const recent = new Map(rows.map((row) => [row.key_id, row]));
    const values = keyIds.flatMap((id) => [id, JSON.stringify(usageOf(recent.get(id), past.get(id) ?? 0n, now))]);
    await redis.hset(keyspace.keyUsage, ...values);
  }

  /** The cost of each key before this month. */
  async #pastCostsOf(keyIds: readonly string[], now: number): Promise<Map<string, bigint>> {
    const { month } = periodStartsOf(now);
    const hour = Math.floor(now / 3_600_000);
    if (this.#pastOf !== hour || this.#past.size > pastCostsMax) this.#past = new Map();
    this.#pastOf = hour;
    const missing = keyIds.filter((id) => !this.#past.has(id));
    if (missing.length > 0) {
      const { rows } = await sql<{ key_id: string; cost: bigint }>`
        select key_id, sum(cost)::bigint as cost from usage_days
        where key_id = any(${missing}::text[]) and day < ${new Date(month)} group by key_id`.execute(
        this.#options.database,
      );
      for (const id of missing) this.#past.set(id, 0n);
      for (const { key_id, cost } of rows) this.#past.set(key_id, cost);
    }
    return this.#past;
  }
}

/** When the week or the month began, whichever began first. */
function recentOf(now: number): number {
  const { week, month } = periodStartsOf(now);
  return Math.min(week, month);
}

/** `row` is undefined for a key without recent usage. */
function usageOf(row: Row | undefined, past: bigint, now: number): KeyUsage {
  const sumsOf = (period: Period) =>
    Object.fromEntries(
      (Object.entries(sumColumns) as [SumColumn, keyof UsageSums][]).map(([column, name]) => {
        const value = row?.[`${period}_${column}`] ?? 0n;
        return [name, name === "cost" ? String(value) : Number(value)];
      }),
    ) as UsageSums;
  return {
    at: now,
    day: sumsOf("day"),
    week: sumsOf("week"),
    month: sumsOf("month"),
    total: String(past + (row?.month_cost ?? 0n)),
  };
}
