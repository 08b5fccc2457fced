/** The daily partitions of the table `usage`. */
import { type Kysely, sql } from "kysely";
import { futureDaysMax } from "../bounds.ts";
import type { Tables } from "../database/tables.ts";

const dayMs = 86_400_000;
/** https://www.postgresql.org/docs/current/errcodes-appendix.html */
const checkViolation = "23514";
const partitionPattern = /^usage_(\d{4})_(\d{2})_(\d{2})$/;

const dayOf = (at: number): number => Math.floor(at / dayMs);
const dateOf = (day: number): string => new Date(day * dayMs).toISOString().slice(0, 10);
const nameOf = (day: number): string => `usage_${dateOf(day).replaceAll("-", "_")}`;

export class UsagePartitions {
  readonly #database: Kysely<Tables>;
  readonly #retentionDays: () => number;
  /** The existing partitions. */
  #days = new Set<number>();

  /**
   * Partitions are dropped when all of their records are older than `retentionDays`, which may
   * change.
   */
  constructor(database: Kysely<Tables>, retentionDays: () => number) {
    this.#database = database;
    this.#retentionDays = retentionDays;
  }

  /**
   * Creates the missing partitions for records of these times (epoch milliseconds). Times far off
   * the clock get none: their records go to `usage_other`.
   */
  async create(times: Iterable<number>, now: number): Promise<void> {
    const [oldest, newest] = [dayOf(now) - this.#retentionDays(), dayOf(now) + futureDaysMax];
    const missing = new Set<number>();
    for (const time of times) {
      const day = dayOf(time);
      if (!this.#days.has(day) && day >= oldest && day <= newest) missing.add(day);
    }
    for (const day of missing) {
      await sql`create table if not exists ${sql.table(nameOf(day))} partition of usage
        for values from (${sql.lit(dateOf(day))}) to (${sql.lit(dateOf(day + 1))})`
        .execute(this.#database)
        .catch((error: unknown) => {
          // A clock that was off put records of this day into `usage_other`, which then takes the
          // others too.
          if ((error as { code?: unknown }).code !== checkViolation) throw error;
        });
      this.#days.add(day);
    }
  }

  /**
   * Drops what is too old, with the totals of users, sessions and tags. The other totals stay.
   * Resolves to the names of the dropped partitions.
   */
  async drop(now: number): Promise<string[]> {
    const { rows } = await sql<{ name: string }>`
      select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'usage'::regclass`.execute(this.#database);
    const oldest = dayOf(now) - this.#retentionDays();
    const old = rows.map(({ name }) => name).filter((name) => (partitionDayOf(name) ?? oldest) < oldest);
    for (const name of old) await sql`drop table if exists ${sql.table(name)}`.execute(this.#database);
    this.#days = new Set([...this.#days].filter((day) => day >= oldest));
    const before = new Date(oldest * dayMs);
    await this.#database.deleteFrom("label_totals").where("half_hour", "<", before).execute();
    for (const table of ["label_days", "label_values"] as const)
      await this.#database.deleteFrom(table).where("day", "<", before).execute();
    return old;
  }
}

function partitionDayOf(name: string): number | undefined {
  const [, year, month, day] = partitionPattern.exec(name) ?? [];
  return year === undefined ? undefined : dayOf(Date.parse(`${year}-${month}-${day}`));
}
