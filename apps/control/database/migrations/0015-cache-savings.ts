/** The saving by the vendors' prompt caches, of each record and in the totals. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`alter table usage add column cache_saving bigint`.execute(database);
  for (const table of ["usage_totals", "usage_days"])
    await sql`alter table ${sql.table(table)} add column cache_saving bigint not null default 0`.execute(database);
}
