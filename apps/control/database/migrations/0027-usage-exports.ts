/** The hours of usage that were exported to the object store, with their sums as exported. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`
    create table usage_exports (
      hour timestamptz not null,
      format text not null,
      records bigint not null default 0,
      cost bigint not null default 0,
      claimed_until timestamptz not null,
      primary key (hour, format)
    )`.execute(database);
}
