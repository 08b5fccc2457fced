/** The log of what was not answered in full stays quick: it is a small part of the records. */
import { type Kysely, sql } from "kysely";

export async function up(database: Kysely<unknown>): Promise<void> {
  await sql`create index usage_not_complete on usage (received_at desc, generation_id) where outcome <> 'complete'`.execute(
    database,
  );
}
