/** The records whose cost leaves out units without a price, in the totals. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  for (const table of ["usage_totals", "usage_days", "label_totals", "label_days"])
    await sql`alter table ${sql.table(table)} add column unpriced bigint not null default 0`.execute(database);
}
